"""Counts what a conversion did, and tells it: in lines for people, as a dictionary for programs."""

import dataclasses
from collections import Counter
from typing import ClassVar

from tools.records.notes import Tally, counted
from tools.voc.records import Outcome

_LEFT_OUT_ON_PURPOSE = "no objects (--skip_empty)"


@dataclasses.dataclass
class SplitTally(Tally):
    """What happened to one split."""

    EFFECTS: ClassVar[dict[str, str]] = {"skipped": "skipped", "dropped": "object dropped", "repaired": "kept"}

    split: str
    objects_per_class: Counter[str]
    images: int = 0
    without_objects: int = 0
    largest_coordinate: float = 0.0
    shards: list[str] = dataclasses.field(default_factory=list)

    @property
    def objects(self) -> int:
        return self.objects_per_class.total()

    @property
    def unusable(self) -> int:
        """Files that had to be skipped, not counting those the user asked to leave out."""
        return super().unusable - self.counts["skipped", _LEFT_OUT_ON_PURPOSE]

    def add_record(self, outcome: Outcome) -> None:
        """Counts a record and its objects; the notes of an outcome are counted one by one."""
        self.images += 1
        self.without_objects += not outcome.objects
        self.objects_per_class.update(outcome.objects)
        self.largest_coordinate = max(self.largest_coordinate, outcome.largest_coordinate)

    def manifest_entry(self) -> dict:
        """The split's part of `NAME.json`."""
        return {
            "images": self.images,
            "objects": self.objects,
            "without_objects": self.without_objects,
            "objects_per_class": dict(self.objects_per_class),
            "shards": self.shards,
        }

    def report(self) -> dict:
        """The split's part of the `--report` file: the manifest's numbers and everything skipped, dropped or repaired."""
        return {**self.manifest_entry(), **self.noted()}

    def summary(self) -> list[str]:
        """Lines for the end of a run."""
        head = f"{self.split}: {counted(self.images, 'picture')} ({self.without_objects} without objects)"
        lines = [f"{head}, {counted(self.objects, 'object')}, in {counted(len(self.shards), 'shard')}"]
        lines += [f"  {name}: {count}" for name, count in self.objects_per_class.items()]
        dropped = sum(count for (group, _), count in self.counts.items() if group == "dropped")
        if dropped:
            share = 100 * dropped / (dropped + self.objects)
            lines.append(f"  {dropped} of {counted(dropped + self.objects, 'object')} dropped ({share:.3g} %)")
        return lines + self.note_lines()
