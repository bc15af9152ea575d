"""Labelled pictures by number: CIFAR-10 in memory, or a set of TFRecords."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from classify import cifar10_files
from engine import record_fields, record_sets
from engine.errors import UserError
from engine.record_fields import RecordFields
from engine.record_reader import RecordFiles

CIFAR10 = "cifar10"


class Example(NamedTuple):
    """One picture: [H, W, 3] uint8 RGB, and its class from 0 on."""

    image: np.ndarray
    label: int


class Examples(Protocol):
    """Random access to labelled pictures, from several threads."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> Example: ...


@dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        name: the data set's.
        split: the split's.
        examples: its pictures and labels.
        class_names: names of the classes 0, 1, ...; empty when nothing tells them.
    """

    name: str
    split: str
    examples: Examples
    class_names: tuple[str, ...]

    def num_classes(self, asked: int | None) -> int:
        """The number of classes: `asked` by flag, or as the data set says."""
        known = len(self.class_names)
        if asked is None and not known:
            raise UserError(f"--num_classes must be given: neither {self.name}.json nor labels.txt says the classes")
        if asked is not None and asked < known:
            raise UserError(f"--num_classes={asked}: {self.name} has {known} classes")
        return asked or known

    def names(self, num_classes: int) -> tuple[str, ...]:
        """A name for each class: the data set's, then "class 3" and so on."""
        return record_sets.name_labels(self.class_names, range(num_classes))


def open_split(*, data_dir: str, dataset_dir: str, dataset_name: str, split: str, labels_offset: int = 0) -> Split:
    """CIFAR-10 from `data_dir`, where it is downloaded to when absent; or, given `dataset_dir`, the records there.

    Raises:
        UserError: there is no such split, its files are damaged, or CIFAR-10 cannot be fetched.
    """
    if dataset_name == CIFAR10 or not (dataset_name or dataset_dir):
        return _open_cifar10(dataset_dir or data_dir, split)
    if not dataset_dir:
        raise UserError(f"--dataset_dir must be given: the folder with the TFRecord files of {dataset_name}")
    found = record_sets.open_records(dataset_dir, dataset_name, split)
    # Names of the classes: label - labels_offset.
    unnamed = record_sets.name_labels((), range(found.first_label - labels_offset))
    names = unnamed + found.label_names[max(0, labels_offset - found.first_label) :] if found.label_names else ()
    return Split(found.name, found.split, RecordExamples(found.records, labels_offset), names)


def _open_cifar10(data_dir: str, split: str) -> Split:
    if split not in cifar10_files.SPLITS:
        raise UserError(f"--dataset_split_name={split}: CIFAR-10 has {' and '.join(cifar10_files.SPLITS)}")
    folder = cifar10_files.prepare(data_dir)
    return Split(CIFAR10, split, MemoryExamples(*cifar10_files.read(folder, split)), cifar10_files.CLASS_NAMES)


class MemoryExamples:
    """Pictures of one size that fit in memory.

    Args:
        images: [N, H, W, 3] uint8.
        labels: [N] int64.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        self._images, self._labels = images, labels

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, number: int) -> Example:
        return Example(self._images[number], int(self._labels[number]))


class RecordExamples:
    """Records with image/encoded and image/class/label, as `tools/images_to_tfrecords.py` and TF-slim's scripts write them."""

    def __init__(self, records: RecordFiles, labels_offset: int):
        self._records, self._labels_offset = records, labels_offset

    def __len__(self) -> int:
        return len(self._records)

    def read(self, number: int) -> Example:
        """Raises `UserError` for a record, by its picture's name, without a picture or a label."""
        fields = RecordFields(self._records.read(number), number)
        labels = fields.ints("image/class/label")
        if not labels.size:
            raise UserError(f"{fields.filename}: its record lacks image/class/label")
        image = record_fields.decode(fields.encoded(), fields.filename)
        return Example(image, int(labels[0]) - self._labels_offset)
