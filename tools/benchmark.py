"""Measures the speed of one of the project's parts on this machine.

    python tools/benchmark.py step --model_name=ssd_300_vgg --batch_size=8

Prints the figures, one a line, or with --json as an object, and beside them the machine's matrix-multiply rate of the moment.

    forward   seconds a picture of a detector's net alone
    detect    seconds a picture with decoding and non-maximum suppression, one at a time and in a batch
    step      seconds a picture of a detector's train step; the first step's seconds; peak memory
    encode    milliseconds a picture of matching and encoding 2, 10 and 50 objects
    augment   pictures a second decoded and augmented in one thread
    input     pictures a second through a detector's training pipeline
    classify  pictures a second of a classifier's training, from memory and through its pipeline
    convert   seconds of the VOC converter, and of only decoding the pictures
    evaluate  seconds of an evaluation's numbers, VOC's and COCO's
"""

import dataclasses
import json
from collections.abc import Callable, Sequence

import classify.nets
from engine import flags
from engine.errors import UserError
from engine.flags import flag
from ssd import nets, preprocessing
from tools.benchmarks.classify_step import benchmark_classify
from tools.benchmarks.convert import benchmark_convert
from tools.benchmarks.detector import benchmark_detect, benchmark_forward, benchmark_step
from tools.benchmarks.detector_input import benchmark_augment, benchmark_encode, benchmark_input
from tools.benchmarks.evaluate import benchmark_evaluate
from tools.benchmarks.timing import matmul_gflops


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    model_name: str = flag(
        "ssd_300_vgg", "forward, detect, step, encode, augment, input: the detector", choices=tuple(nets.NETS)
    )
    batch_size: int = flag(8, "forward, detect, step: pictures at a time", minimum=1)
    xla: str = flag("auto", "step: compile it as one XLA program", choices=("auto", "on", "off"))
    recipe: str = flag("paper", "augment, input: the augmentation", choices=tuple(preprocessing.RECIPES))
    workers: int = flag(2, "convert: processes; input: threads", minimum=1)
    classifier: str = flag("cifar10", "classify: the net", choices=tuple(classify.nets.NETS))
    classifier_batch_size: int = flag(128, "classify: pictures in a step", minimum=1)
    pictures: int = flag(1000, "convert, evaluate: pictures", minimum=1)
    detections: int = flag(200, "evaluate: detections in a picture", minimum=1)
    classes: int = flag(20, "evaluate: classes", minimum=1)
    json: bool = flag(False, "print a JSON object")


BENCHMARKS: dict[str, Callable[[Config], dict[str, float]]] = {
    "forward": lambda config: benchmark_forward(config.model_name, config.batch_size),
    "detect": lambda config: benchmark_detect(config.model_name, config.batch_size),
    "step": lambda config: benchmark_step(config.model_name, config.batch_size, config.xla),
    "encode": lambda config: benchmark_encode(config.model_name),
    "augment": lambda config: benchmark_augment(config.recipe, nets.NETS[config.model_name].image_size),
    "input": lambda config: benchmark_input(config.model_name, config.recipe, config.workers),
    "classify": lambda config: benchmark_classify(config.classifier, config.classifier_batch_size),
    "convert": lambda config: benchmark_convert(config.pictures, config.workers),
    "evaluate": lambda config: benchmark_evaluate(config.pictures, config.detections, config.classes),
}


def main(config: Config, names: Sequence[str]) -> None:
    """Runs the benchmark named on the command line."""
    if len(names) != 1 or names[0] not in BENCHMARKS:
        raise UserError(f"name one benchmark: {', '.join(BENCHMARKS)}")
    figures = BENCHMARKS[names[0]](config) | {"matmul_gflops": matmul_gflops()}
    print(json.dumps(figures) if config.json else "\n".join(f"{name}: {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    flags.run(Config, main, positional="BENCHMARK")
