"""One picture and its class as one record."""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

from engine.examples import bytes_feature, int64_feature, serialize_example
from engine.images import ImageError
from engine.stored_images import to_stored
from engine.tfrecords import frame
from tools.class_folders.layout import Picture
from tools.records import notes
from tools.records.notes import Note, reason_of
from tools.records.pictures import picture_features, storage_notes


@dataclasses.dataclass(kw_only=True)
class Outcome(notes.Outcome):
    """What became of `picture`; `digest` stands for the bytes of its file."""

    picture: Picture
    digest: bytes = b""


def convert(picture: Picture, root: Path, labels: Mapping[str, int]) -> Outcome:
    """The record of a picture below `root`; `labels` are those of the classes. A useless file is skipped with a note."""
    outcome = Outcome(picture=picture)
    try:
        data = (root / picture.name).read_bytes()
        image = to_stored(data)
    except (ImageError, OSError) as error:
        outcome.notes.append(Note("skipped", "unusable picture", picture.name, reason_of(error)))
        return outcome
    outcome.notes += storage_notes(picture.name, image)
    outcome.digest = hashlib.blake2b(data, digest_size=16).digest()
    features = picture_features(picture.name, image) | {
        "image/class/label": int64_feature([labels[picture.class_name]]),
        "image/class/text": bytes_feature([picture.class_name.encode()]),
    }
    outcome.framed = frame(serialize_example(features))
    return outcome


def twin_notes(seen: dict[bytes, tuple[Picture, ...]], outcome: Outcome) -> list[Note]:
    """Warnings of a picture whose bytes were `seen` before, but never yet in its class, or never in its split.

    `seen` holds by digest the first picture of each class and split, and is kept up to date.
    """
    picture = outcome.picture
    others = seen.get(outcome.digest, ())
    if any((other.class_name, other.split) == (picture.class_name, picture.split) for other in others):
        return []
    seen[outcome.digest] = (*others, picture)
    notes = []
    if others and all(other.class_name != picture.class_name for other in others):
        detail = f"the same picture as {others[0].name}, of another class"
        notes.append(Note("warned", "the same picture in two classes", picture.name, detail))
    if others and all(other.split != picture.split for other in others):
        detail = f"the same picture as {others[0].name}, of split {others[0].split}"
        notes.append(Note("warned", "the same picture in two splits", picture.name, detail))
    return notes
