"""A first look at all annotations, before any picture is read: class names, pairing, and files that are unusable anyway."""

import dataclasses
import sys
from collections.abc import Callable, Iterable

from tools.records.notes import Note, reason_of
from tools.voc import annotations, layout
from tools.voc.annotations import AnnotationError
from tools.voc.layout import DataSet
from tools.voc.records import Job


@dataclasses.dataclass(frozen=True)
class Scan:
    """By annotation id: `objects`, the names of its objects; `images`, its picture or None; `problems`, why it is unusable.

    `unlabelled` are the stems of pictures that belong to no annotation.
    """

    objects: dict[str, list[str]]
    images: dict[str, str | None]
    problems: dict[str, str]
    unlabelled: list[str]


def scan(data_set: DataSet) -> Scan:
    """Reads every annotation of a data set."""
    objects: dict[str, list[str]] = {}
    images: dict[str, str | None] = {}
    problems: dict[str, str] = {}
    for key, file in data_set.annotations.items():
        try:
            filename, names = annotations.peek(data_set.annotation_path(file).read_bytes())
        except (AnnotationError, OSError) as error:
            problems[key] = reason_of(error)
            continue
        # Interned, or a large data set would hold the same few names a million times.
        objects[key] = [sys.intern(name) for name in names]
        images[key] = layout.find_image(data_set, key, filename)
    taken = {name for name in images.values() if name}
    free = (stem for stem in data_set.images if stem not in data_set.annotations)
    return Scan(objects, images, problems, sorted(stem for stem in free if taken.isdisjoint(data_set.images[stem])))


def objects_per_file(data_set: DataSet, found: Scan, ids: Iterable[str]) -> dict[str, list[str]]:
    """File name of an annotation -> names of its objects, for the usable ones of `ids`."""
    return {data_set.annotations[key]: found.objects[key] for key in ids if key in found.objects}


def make_jobs(
    data_set: DataSet, found: Scan, ids: Iterable[str], unlabelled_as_background: bool, note: Callable[[Note], None]
) -> list[Job]:
    """The jobs of `ids`; `note` is told of every id that cannot become one.

    Without split files the pictures that no annotation belongs to are part of the one split.
    """
    jobs = []
    for key in [*ids, *([] if data_set.split_files else found.unlabelled)]:
        file = data_set.annotations.get(key)
        image = found.images.get(key) if file else data_set.images[key][0]
        if key in found.problems:
            note(Note("skipped", "unusable annotation", file, found.problems[key]))
        elif image is None:
            note(Note("skipped", "annotation without a picture", file, "no picture for this annotation in JPEGImages"))
        elif file or unlabelled_as_background:
            jobs.append(Job(data_set.image_path(image), data_set.annotation_path(file) if file else None))
        else:
            note(Note("skipped", "picture without an annotation", image, "no annotation for this picture in Annotations"))
    return jobs
