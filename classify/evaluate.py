"""Evaluates a classifier: precision @ 1, the accuracy of each class and the confusion matrix, each example counted once.

    python -m classify.evaluate --run_once
    python -m classify.evaluate --checkpoint_dir=RUN --dataset_dir=RECORDS --dataset_split_name=validation --run_once

Without --run_once every new checkpoint is evaluated as it appears, until Ctrl-C. The moving averages of the weights
are used where the checkpoint has them. The table goes to stdout; metrics.json, confusion.png and predictions.jpg to eval_dir.
"""

import dataclasses
import pathlib
import time
from collections.abc import Iterator

import tensorflow as tf

from classify import dataset, nets, report
from classify.classifier import Classifier
from classify.dataset import Split
from classify.evaluation import predict_split
from classify.metrics import confusion_matrix
from engine import checkpoints, devices, flags, images
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.progress import say
from engine.record_sets import refuse_other_names

_SHOWN_PICTURES = 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    checkpoint_dir: str = flag("/tmp/cifar10_train", "checkpoint: a folder (its best one, or newest) or a prefix")
    eval_dir: str = flag("", "folder for the results (default: eval_SPLIT beside the checkpoint)")
    run_once: bool = flag(False, "evaluate once and end, instead of waiting for further checkpoints")
    eval_interval_secs: float = flag(300.0, "seconds between two looks for a new checkpoint", above=0)
    num_examples: int | None = flag(None, "evaluate the first so many (default: the whole split)", minimum=1)
    data_dir: str = flag("/tmp/cifar10_data", "folder of CIFAR-10, which is downloaded when it is not there")
    dataset_dir: str = flag("", "folder with TFRecord files (default: CIFAR-10 in --data_dir)")
    dataset_name: str = flag("", "cifar10, or the name of the data set in --dataset_dir (default: the only one there)")
    dataset_split_name: str = flag("test", "split to evaluate on")
    model_name: str | None = flag(None, "the net, for a checkpoint that does not say", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes, for a checkpoint that does not say", minimum=2)
    batch_size: int = flag(100, "pictures at a time; the numbers do not depend on it", minimum=1)
    num_preprocessing_threads: int = flag(4, "batches made at the same time", minimum=1)
    gpu_memory_fraction: float | None = flag(None, "cap on each GPU's memory (default: grows as needed)", above=0, maximum=1)


def main(config: Config) -> None:
    devices.prepare(seed=0, gpu_memory_fraction=config.gpu_memory_fraction)
    prefixes = _checkpoints_to_evaluate(config)
    classifier = Classifier(next(prefixes), model_name=config.model_name, num_classes=config.num_classes)
    split = _open_split(config, classifier)
    evaluate(classifier, split, config)
    for prefix in prefixes:
        classifier.load(prefix)
        evaluate(classifier, split, config)


def _checkpoints_to_evaluate(config: Config) -> Iterator[str]:
    """The newest checkpoint, then, unless --run_once, each newer one."""
    done = None
    while True:
        newest = _newest(config)
        if newest not in (None, done):
            yield newest
            done = newest
        if config.run_once:
            return
        time.sleep(config.eval_interval_secs)


def _newest(config: Config) -> str | None:
    """The newest checkpoint's prefix; None where there is none yet and further ones are waited for."""
    folder = pathlib.Path(config.checkpoint_dir)
    if config.run_once or not folder.is_dir():
        return checkpoints.find(config.checkpoint_dir).prefix
    stored = checkpoints.newest_in(folder)
    if stored is None:
        say(f"no checkpoint in {folder} yet; looking again in {config.eval_interval_secs:g} s")
        return None
    return stored.prefix


def _open_split(config: Config, classifier: Classifier) -> Split:
    """Raises `UserError` for a data set of other classes, or of fewer pictures than are asked for."""
    split = dataset.open_split(
        data_dir=config.data_dir,
        dataset_dir=config.dataset_dir,
        dataset_name=config.dataset_name,
        split=config.dataset_split_name,
        labels_offset=classifier.labels_offset,
    )
    refuse_other_names(split.name, split.class_names, classifier.checkpoint, classifier.class_names)
    if config.num_examples is not None and config.num_examples > len(split.examples):
        raise UserError(f"--num_examples={config.num_examples}: {split.name} {split.split} has {len(split.examples)}")
    return split


def evaluate(classifier: Classifier, split: Split, config: Config) -> None:
    """Evaluates the classifier's weights, prints the table and writes the results."""
    eval_dir = pathlib.Path(config.eval_dir or pathlib.Path(classifier.checkpoint).parent / f"eval_{split.split}")
    predictions, labels = predict_split(
        classifier.classify,
        split,
        image_size=classifier.image_size,
        batch_size=config.batch_size,
        num_classes=classifier.num_classes,
        recipe=classifier.recipe,
        num_examples=config.num_examples,
        num_preprocessing_threads=config.num_preprocessing_threads,
    )
    confusion = confusion_matrix(labels, predictions, classifier.num_classes)
    step = checkpoints.step_of(classifier.checkpoint)
    metrics = {"checkpoint": classifier.checkpoint, "step": step, **report.compute_metrics(confusion, classifier.class_names)}
    print(report.format_table(metrics))
    write_json(eval_dir / "metrics.json", metrics)
    images.write_png(eval_dir / "confusion.png", report.draw_confusion(confusion, classifier.class_names))
    shown = [split.examples.read(number).image for number in range(min(_SHOWN_PICTURES, len(labels)))]
    sheet = report.draw_predictions(shown, predictions[: len(shown)], classifier.class_names, truths=labels[: len(shown)])
    images.write_jpeg(eval_dir / "predictions.jpg", sheet)
    _write_summary(eval_dir, step or 0, metrics["precision_at_1"])
    print(f"numbers and pictures are in {eval_dir}")
    print(
        f"precision @ 1 = {metrics['precision_at_1']:.4f} ({metrics['examples']} examples, {classifier.checkpoint})", flush=True
    )


def _write_summary(eval_dir: pathlib.Path, step: int, precision: float) -> None:
    with tf.summary.create_file_writer(str(eval_dir)).as_default(step):
        tf.summary.scalar("precision @ 1", precision)


if __name__ == "__main__":
    flags.run(Config, main)
