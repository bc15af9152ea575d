"""Evaluates a trained SSD on a split: VOC and COCO average precision of each class, as a table and as JSON.

    python -m ssd.evaluate --checkpoint_path=RUN --dataset_dir=DATA --dataset_split_name=test --eval_dir=RUN/eval

The table goes to stdout, the numbers to eval_dir/metrics.json.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from engine import devices, flags, images
from engine.drawing import contact_sheet
from engine.files import write_json
from engine.flags import flag
from engine.progress import say
from engine.record_sets import refuse_other_names
from ssd import dataset, nets, report
from ssd.dataset import Record
from ssd.detector import load
from ssd.draw import draw_boxes
from ssd.evaluation import THRESHOLDS, detect_split

# A picture is readable without the many weak detections that average precision needs.
_DRAWN_ABOVE = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    checkpoint_path: str = flag("", "checkpoint: a folder (its best one, or newest) or a prefix", required=True)
    dataset_dir: str = flag("", "folder with the TFRecord files", required=True)
    dataset_name: str = flag("", "name of the data set in that folder (default: the only one there)")
    dataset_split_name: str = flag("test", "split to evaluate on")
    labels_offset: int = flag(0, "subtracted from every label in the records")
    eval_dir: str = flag("", "folder for metrics.json (default: eval_SPLIT beside the checkpoint)")
    model_name: str | None = flag(None, "the net, for a checkpoint that does not say", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes, background included, for a checkpoint that does not say", minimum=2)
    anchor_set: str | None = flag(None, "anchors (voc, coco or a file), for a checkpoint that does not say")
    pictures: int = flag(20, "pictures to write, with true boxes on the left and found ones on the right", minimum=0)
    batch_size: int = flag(8, "pictures at a time; the numbers do not depend on it", minimum=1)
    num_preprocessing_threads: int = flag(4, "pictures decoded at the same time", minimum=1)
    score_threshold: float = flag(THRESHOLDS["score_threshold"], "detections must score more", minimum=0, maximum=1)
    nms_threshold: float = flag(
        THRESHOLDS["nms_threshold"], "of two boxes of a class with a greater IoU the weaker goes", minimum=0, maximum=1
    )
    top_k: int = flag(THRESHOLDS["top_k"], "candidates of each class", minimum=1)
    keep_top_k: int = flag(THRESHOLDS["keep_top_k"], "detections of a picture", minimum=1)
    gpu_memory_fraction: float | None = flag(None, "cap on each GPU's memory (default: grows as needed)", above=0, maximum=1)


def main(config: Config) -> None:
    devices.prepare(seed=0, gpu_memory_fraction=config.gpu_memory_fraction)
    split = dataset.open_split(config.dataset_dir, config.dataset_name, config.dataset_split_name)
    thresholds = {name: getattr(config, name) for name in THRESHOLDS}
    detector, checkpoint = load(
        config.checkpoint_path,
        model_name=config.model_name,
        num_classes=config.num_classes,
        anchor_set=config.anchor_set,
        class_names=split.class_names,
        **thresholds,
    )
    refuse_other_names(split.name, split.class_names, checkpoint, detector.class_names)
    eval_dir = pathlib.Path(config.eval_dir or pathlib.Path(checkpoint).parent / f"eval_{split.split}")
    say(f"evaluating {checkpoint} on {split.name} {split.split}: {len(split.records)} pictures")
    results = detect_split(
        detector,
        split,
        batch_size=config.batch_size,
        labels_offset=config.labels_offset,
        num_preprocessing_threads=config.num_preprocessing_threads,
        look=_write_first(config.pictures, eval_dir / "pictures", detector.class_names),
    )
    metrics = report.compute_metrics(results, detector.class_names)
    print(report.format_table(metrics, thresholds))
    write_json(eval_dir / "metrics.json", metrics)
    print(f"numbers and pictures are in {eval_dir}")
    area, eleven_point = (_shown(metrics["mAP"][kind]) for kind in ("voc2012", "voc2007"))
    print(f"mAP@0.5 = {area} (VOC 2012 area), {eleven_point} (VOC 2007 11-point)")


def _write_first(count: int, folder: pathlib.Path, class_names: Sequence[str]) -> Callable[..., None]:
    """What `detect_split` calls with each example: writes a picture of the first `count`."""

    def write(number: int, truth: Record, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> None:
        if number < count:
            drawn = _draw(truth, boxes, scores, labels, class_names)
            images.write_jpeg(folder / f"{number:05d}_{pathlib.Path(truth.filename).stem}.jpg", drawn)

    return write


def _draw(truth: Record, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> np.ndarray:
    image, shown = images.decode(truth.encoded), scores > _DRAWN_ABOVE
    true = draw_boxes(image, truth.boxes, truth.labels, class_names)
    return contact_sheet([true, draw_boxes(image, boxes[shown], labels[shown], class_names, scores[shown])], columns=2)


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    flags.run(Config, main)
