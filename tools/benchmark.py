"""Measures the speed of one of the project's parts on this machine: `convert`, `evaluate` or `classify`.

    python tools/benchmark.py convert --pictures=1000 --workers=2

Prints the figures, one a line, or with --json as an object.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence

from classify import nets
from engine import flags
from engine.errors import UserError
from engine.flags import flag
from tools.benchmarks.classify_step import benchmark_classify
from tools.benchmarks.convert import benchmark_convert
from tools.benchmarks.evaluate import benchmark_evaluate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    pictures: int = flag(1000, "pictures to convert, or to evaluate on", minimum=1)
    workers: int = flag(2, "convert: processes", minimum=1)
    detections: int = flag(200, "evaluate: detections in a picture", minimum=1)
    classes: int = flag(20, "evaluate: classes", minimum=1)
    batch_size: int = flag(128, "classify: pictures in a step", minimum=1)
    net: str = flag("cifar10", "classify: the net", choices=tuple(nets.NETS))
    json: bool = flag(False, "print a JSON object")


BENCHMARKS: dict[str, Callable[[Config], dict[str, float]]] = {
    "convert": lambda config: benchmark_convert(config.pictures, config.workers),
    "classify": lambda config: benchmark_classify(config.net, config.batch_size),
    "evaluate": lambda config: benchmark_evaluate(config.pictures, config.detections, config.classes),
}


def main(config: Config, names: Sequence[str]) -> None:
    """Runs the benchmark named on the command line."""
    if len(names) != 1 or names[0] not in BENCHMARKS:
        raise UserError(f"name one benchmark: {', '.join(BENCHMARKS)}")
    figures = BENCHMARKS[names[0]](config)
    print(json.dumps(figures) if config.json else "\n".join(f"{name}: {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    flags.run(Config, main, positional="BENCHMARK")
