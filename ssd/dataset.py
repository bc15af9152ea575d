"""The data set in the TFRecord files: which files, which classes, and what a record says."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine import record_fields, record_sets
from engine.errors import UserError
from engine.record_fields import RecordFields
from engine.record_reader import RecordFiles

# Names that scripts of other pipelines use for sets whose files are called differently.
_FILE_NAMES = {"pascalvoc_2007": "voc_2007", "pascalvoc_2012": "voc_2012"}


@dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        name: the data set's, as in its files' names.
        split: the split's.
        records: its examples.
        class_names: names of the labels 1, 2, ...; empty when nothing beside the records tells them.
    """

    name: str
    split: str
    records: RecordFiles
    class_names: tuple[str, ...]

    def num_classes(self, asked: int | None) -> int:
        """The number of classes, background included: `asked` by flag, or as the data set says."""
        known = len(self.class_names) + 1 if self.class_names else None
        if asked is None and known is None:
            raise UserError(f"--num_classes must be given: neither {self.name}.json nor labels.txt says the classes")
        if asked is not None and known is not None and asked < known:
            raise UserError(f"--num_classes={asked}: {self.name} has {known - 1} classes, which makes {known} with background")
        return asked or known

    def names(self, num_classes: int) -> tuple[str, ...]:
        """A name for each label from 1 to num_classes - 1: the data set's, then "class 3" and so on."""
        return record_sets.name_labels(self.class_names, range(1, num_classes))

    def parse(self, number: int, *, num_classes: int, labels_offset: int = 0) -> "Record":
        """Record `number`; see `parse_record`."""
        return parse_record(self.records.read(number), number=number, num_classes=num_classes, labels_offset=labels_offset)

    def objects(self, numbers: Iterable[int], *, num_classes: int, labels_offset: int = 0) -> "Objects":
        """The objects of the records `numbers`, without looking at their pictures. `UserError` as of `parse_record`."""
        found = []
        for number in numbers:
            fields = RecordFields(self.records.read(number), number)
            boxes, labels, _ = _objects(fields, num_classes, labels_offset)
            found.append(Objects(boxes, labels, np.full(len(labels), len(found))))
        return Objects(*map(np.concatenate, zip(_NO_OBJECTS, *found, strict=True)))


def open_split(dataset_dir: str, dataset_name: str, split: str) -> Split:
    """Finds the files of a split and the names of its classes.

    Raises:
        UserError: there are no such files, or no records in them; what was looked for and what is there is named.
    """
    found = record_sets.open_records(dataset_dir, dataset_name, split, _FILE_NAMES)
    if found.label_names and found.first_label != 1:
        raise UserError(f"--dataset_name={found.name}: labels start at {found.first_label}: a set for classification")
    return Split(found.name, split, found.records, found.label_names)


class Objects(NamedTuple):
    """The objects of several pictures, one after the other.

    Attributes:
        boxes: [N, 4] float32 (ymin, xmin, ymax, xmax) in [0, 1].
        labels: [N] int64, 1 to C - 1.
        pictures: [N] int64, the picture of each: 0, 1, ... in the order in which they were asked for.
    """

    boxes: np.ndarray
    labels: np.ndarray
    pictures: np.ndarray


_NO_OBJECTS = Objects(np.zeros([0, 4], np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))


class Record(NamedTuple):
    """What a record says.

    Attributes:
        filename: the picture's name; the record's number where it has none.
        encoded: the picture as stored.
        boxes: [N, 4] float32 (ymin, xmin, ymax, xmax) in [0, 1].
        labels: [N] int64, 1 to C - 1.
        difficult: [N] bool.
        height, width: of the picture, in pixels.
    """

    filename: str
    encoded: bytes
    boxes: np.ndarray
    labels: np.ndarray
    difficult: np.ndarray
    height: int
    width: int


def parse_record(record: bytes, *, number: int, num_classes: int, labels_offset: int = 0) -> Record:
    """A serialized tf.train.Example as a `Record`.

    Needed are image/encoded and, for objects, image/object/bbox/{ymin,xmin,ymax,xmax,label}. Without `difficult`
    no object is; without a size it is the decoded picture's. Boxes are clipped to the picture; those without area or
    with NaN, which our converter never writes, are left out.

    Raises:
        UserError: the record, by name, lacks something, or holds a label that `num_classes` has no place for.
    """
    fields = RecordFields(record, number)
    encoded = fields.encoded()
    boxes, labels, difficult = _objects(fields, num_classes, labels_offset)
    size = tuple(int(value) for side in ("height", "width") for value in fields.ints(f"image/{side}")[:1])
    if len(size) < 2 or min(size) < 1:
        size = record_fields.decode(encoded, fields.filename).shape[:2]
    return Record(fields.filename, encoded, boxes, labels, difficult, *size)


def _objects(fields: RecordFields, num_classes: int, labels_offset: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """boxes, labels and difficult, as of `Record`."""
    key = "image/object/bbox/"
    sides = [fields.floats(key + side) for side in ("ymin", "xmin", "ymax", "xmax")]
    labels, difficult = fields.ints(key + "label"), fields.ints(key + "difficult")
    if difficult.size == 0:
        difficult = np.zeros_like(labels)
    if {len(side) for side in sides} | {len(difficult)} != {len(labels)}:
        raise UserError(f"{fields.filename}: the lists of boxes, labels and difficult in its record differ in length")
    boxes = np.clip(np.stack(sides, axis=1), 0.0, 1.0)
    has_area = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)  # False for NaN as well
    boxes, labels, difficult = boxes[has_area], labels[has_area] - labels_offset, difficult[has_area].astype(bool)
    if labels.size and not (labels.min() >= 1 and labels.max() < num_classes):
        wrong = labels.max() if labels.max() >= num_classes else labels.min()
        raise UserError(f"{fields.filename}: label {wrong} is not within 1 to {num_classes - 1} (--num_classes={num_classes})")
    return boxes, labels, difficult
