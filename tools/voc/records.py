"""One picture and its annotation as one record."""

import dataclasses
from collections import Counter
from pathlib import Path

from engine.examples import bytes_feature, float_feature, int64_feature, serialize_example
from engine.images import ImageError
from engine.stored_images import StoredImage, to_stored
from engine.tfrecords import frame
from tools.records import notes
from tools.records.notes import Note, reason_of
from tools.records.pictures import picture_features, storage_notes
from tools.voc import annotations, boxes
from tools.voc.annotations import Annotation, AnnotationError, VocObject


@dataclasses.dataclass(frozen=True)
class Job:
    """Paths of one picture and its annotation; an annotation of None makes it background."""

    image: Path
    annotation: Path | None


@dataclasses.dataclass(kw_only=True)
class Outcome(notes.Outcome):
    """What became of a job, and the objects in its record."""

    objects: Counter[str] = dataclasses.field(default_factory=Counter)
    largest_coordinate: float = 0.0


def convert(job: Job, label_ids: dict[str, int], skip_empty: bool) -> Outcome:
    """The record of a job. A file that cannot be used is skipped, an object that cannot is dropped, each with a note."""
    outcome = Outcome()
    try:
        annotation = annotations.parse(job.annotation.read_bytes()) if job.annotation else Annotation("", None, ())
    except (AnnotationError, OSError) as error:
        return _skipped(outcome, "unusable annotation", job.annotation, error)
    try:
        image = to_stored(job.image.read_bytes())
    except (ImageError, OSError) as error:
        return _skipped(outcome, "unusable picture", job.image, error)
    outcome.notes += storage_notes(job.image.name, image)
    kept = _kept_objects(annotation, image, job, label_ids, outcome)
    if skip_empty and not kept:
        outcome.notes.append(Note("skipped", "no objects (--skip_empty)", job.image.name))
        return outcome
    outcome.objects.update(entry.name for entry, _ in kept)
    outcome.framed = frame(_example(job.image.name, image, kept, label_ids))
    return outcome


def _skipped(outcome: Outcome, reason: str, path: Path, error: Exception) -> Outcome:
    outcome.notes.append(Note("skipped", reason, path.name, reason_of(error)))
    return outcome


def _kept_objects(
    annotation: Annotation, image: StoredImage, job: Job, label_ids: dict[str, int], outcome: Outcome
) -> list[tuple[VocObject, tuple[float, float, float, float]]]:
    """The objects that go into the record, each with its box (ymin, xmin, ymax, xmax); notes tell of all others."""
    name = job.annotation.name if job.annotation else job.image.name
    frame_of_boxes = boxes.find_frame(annotation.size, image.height, image.width, image.orientation)
    outcome.notes += _frame_notes(frame_of_boxes, annotation, image, name)
    kept = []
    for entry in annotation.objects:
        if entry.box is None:
            outcome.notes.append(Note("dropped", entry.problem, name, f"{entry.name or 'an object'}: {entry.problem}"))
            continue
        outcome.largest_coordinate = max(outcome.largest_coordinate, *entry.box)
        if entry.name not in label_ids:
            outcome.notes.append(Note("dropped", f"unknown class '{entry.name}'", name))
            continue
        placement = boxes.place(entry.box, frame_of_boxes, image.orientation)
        outcome.notes += _placement_notes(placement, entry, name)
        if placement.box is not None:
            kept.append((entry, placement.box))
    return kept


def _frame_notes(frame_of_boxes: boxes.Frame, annotation: Annotation, image: StoredImage, name: str) -> list[Note]:
    notes = []
    if frame_of_boxes.is_stored:
        notes.append(Note("repaired", "boxes turned along with the picture", name))
    if frame_of_boxes.fit == "scaled":
        notes.append(Note("repaired", "boxes scaled by <size>", name))
    if frame_of_boxes.fit == "mismatch":
        width, height = annotation.size
        detail = f"<size> says {width:g}x{height:g}, the picture has {image.width}x{image.height}; boxes taken as pixels of it"
        notes.append(Note("repaired", "<size> does not fit the picture", name, detail))
    return notes


def _placement_notes(placement: boxes.Placement, entry: VocObject, name: str) -> list[Note]:
    described = f"{entry.name} box (xmin, ymin, xmax, ymax) = ({', '.join(f'{value:g}' for value in entry.box)})"
    if placement.box is None:
        return [Note("dropped", placement.problem, name, f"{described}: {placement.problem}")]
    notes = []
    if placement.is_swapped:
        notes.append(Note("repaired", "corners put in order", name, f"{described}: min above max, put in order"))
    if placement.is_clipped:
        notes.append(Note("repaired", "box clipped to the picture", name))
    return notes


def _example(
    filename: str,
    image: StoredImage,
    kept: list[tuple[VocObject, tuple[float, float, float, float]]],
    label_ids: dict[str, int],
) -> bytes:
    """A serialised `tf.train.Example`."""
    entries = [entry for entry, _ in kept]
    features = picture_features(filename, image) | {
        "image/shape": int64_feature([image.height, image.width, 3]),
        "image/object/bbox/label": int64_feature([label_ids[entry.name] for entry in entries]),
        "image/object/bbox/label_text": bytes_feature([entry.name.encode() for entry in entries]),
        "image/object/bbox/difficult": int64_feature([entry.difficult for entry in entries]),
        "image/object/bbox/truncated": int64_feature([entry.truncated for entry in entries]),
    }
    for position, side in enumerate(("ymin", "xmin", "ymax", "xmax")):
        features[f"image/object/bbox/{side}"] = float_feature([box[position] for _, box in kept])
    return serialize_example(features)
