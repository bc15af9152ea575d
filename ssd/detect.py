"""Finds objects in pictures: pictures with named boxes, and a JSON with their corners in pixels.

    python -m ssd.detect PICTURE_OR_FOLDER... --checkpoint_path=RUN --output_dir=OUT

detections.json lists for each picture its file, width and height as displayed (EXIF orientation applied) and its
detections: label, score and box [xmin, ymin, xmax, ymax] in pixels, the origin at the top left. An input that
cannot be read is named, the others are done, and the exit code is 1.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine import devices, flags, images
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.picture_files import list_pictures, read_pictures
from engine.progress import progress, say
from ssd import nets
from ssd.detector import Detector, load
from ssd.draw import draw_boxes
from ssd.preprocessing import resize_for_evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    checkpoint_path: str = flag("", "checkpoint: a folder (its best one, or newest) or a prefix", required=True)
    output_dir: str = flag("", "folder for the pictures with boxes and detections.json", required=True)
    model_name: str | None = flag(None, "the net, for a checkpoint that does not say", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes, background included, for a checkpoint that does not say", minimum=2)
    anchor_set: str | None = flag(None, "anchors (voc, coco or a file), for a checkpoint that does not say")
    batch_size: int = flag(8, "pictures at a time", minimum=1)
    score_threshold: float = flag(0.5, "detections must score more", minimum=0, maximum=1)
    nms_threshold: float = flag(0.45, "of two boxes of a class with a greater IoU the weaker goes", minimum=0, maximum=1)
    top_k: int = flag(400, "candidates of each class", minimum=1)
    keep_top_k: int = flag(200, "detections of a picture", minimum=1)
    gpu_memory_fraction: float | None = flag(None, "cap on each GPU's memory (default: grows as needed)", above=0, maximum=1)


class _Picture(NamedTuple):
    file: pathlib.Path
    image: np.ndarray  # [H, W, 3] uint8 RGB, as displayed


def main(config: Config, inputs: Sequence[str]) -> int:
    """Returns the exit code: 1 when an input could not be read."""
    if not inputs:
        raise UserError("no picture given: name pictures or folders of pictures")
    devices.prepare(seed=0, gpu_memory_fraction=config.gpu_memory_fraction)
    files, unread = list_pictures(inputs)
    output_dir = pathlib.Path(config.output_dir)
    names = _output_names(files)
    _refuse_to_overwrite(files, output_dir, names)
    settings = {name: getattr(config, name) for name in ("score_threshold", "nms_threshold", "top_k", "keep_top_k")}
    detector, _ = load(
        config.checkpoint_path,
        model_name=config.model_name,
        num_classes=config.num_classes,
        anchor_set=config.anchor_set,
        **settings,
    )
    listed = []
    readable = read_pictures(progress(files, "detecting", total=len(files), unit="picture"), unread)
    for pictures in _batches(readable, config.batch_size):
        for picture, (boxes, scores, labels) in zip(pictures, _detect(detector, pictures, config.batch_size), strict=True):
            drawn = draw_boxes(picture.image, boxes, labels, detector.class_names, scores)
            images.write_jpeg(output_dir / names[picture.file], drawn)
            listed.append(_described(picture, boxes, scores, labels, detector.class_names))
    write_json(output_dir / "detections.json", listed)
    found = sum(len(entry["detections"]) for entry in listed)
    print(f"{found} objects in {len(listed)} pictures; pictures with boxes and detections.json are in {output_dir}")
    for file, reason in unread.items():
        say(f"not read: {file}: {reason}")
    return 1 if unread else 0


def _batches(pictures: Iterable[tuple[pathlib.Path, np.ndarray]], batch_size: int) -> Iterator[list[_Picture]]:
    iterator = itertools.starmap(_Picture, pictures)
    while batch := list(itertools.islice(iterator, batch_size)):
        yield batch


def _detect(detector: Detector, pictures: Sequence[_Picture], batch_size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """boxes [N, 4] in [0, 1], scores [N] and labels [N] of each picture."""
    batch = np.zeros([batch_size, detector.image_size, detector.image_size, 3], np.uint8)
    for row, picture in zip(batch, pictures, strict=False):
        row[:] = resize_for_evaluation(picture.image, detector.image_size)
    found = [tensor.numpy() for tensor in detector.detect(batch)]
    for boxes, scores, labels, count in zip(*(array[: len(pictures)] for array in found), strict=True):
        yield boxes[:count], scores[:count], labels[:count]


def _output_names(files: Sequence[pathlib.Path]) -> dict[pathlib.Path, str]:
    """A file name for each input; inputs of the same stem get numbers, so that none overwrites another."""
    names: dict[pathlib.Path, str] = {}
    taken: set[str] = set()
    for file in files:
        name, number = f"{file.stem}.jpg", 1
        while name.lower() in taken:
            number += 1
            name = f"{file.stem}_{number}.jpg"
        taken.add(name.lower())
        names[file] = name
    return names


def _refuse_to_overwrite(files: Sequence[pathlib.Path], output_dir: pathlib.Path, names: dict[pathlib.Path, str]) -> None:
    inputs = {file.resolve() for file in files}
    for name in names.values():
        if (output_dir / name).resolve() in inputs:
            raise UserError(f"--output_dir={output_dir}: {name} there is one of the pictures; choose another folder")


def _described(
    picture: _Picture, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
) -> dict[str, Any]:
    height, width = picture.image.shape[:2]
    corners = boxes[:, [1, 0, 3, 2]] * np.array([width, height, width, height], np.float32)
    detections = [
        {"label": class_names[label - 1], "score": round(float(score), 4), "box": [round(float(side), 2) for side in corner]}
        for label, score, corner in zip(labels, scores, corners, strict=True)
    ]
    return {"file": str(picture.file), "width": width, "height": height, "detections": detections}


if __name__ == "__main__":
    flags.run(Config, main, positional="PICTURE_OR_FOLDER")
