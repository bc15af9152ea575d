"""Counts what a conversion did, and tells it: in lines for people, as a dictionary for programs."""

import dataclasses
from collections import Counter

from tools.voc.records import Note, Outcome

_EXAMPLES = 3
_LEFT_OUT_ON_PURPOSE = "no objects (--skip_empty)"


@dataclasses.dataclass
class SplitTally:
    """What happened to one split. `notes` holds every note with a detail, `counts` all of them by group and reason."""

    split: str
    objects_per_class: Counter[str]
    images: int = 0
    without_objects: int = 0
    largest_coordinate: float = 0.0
    shards: list[str] = dataclasses.field(default_factory=list)
    counts: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    notes: list[Note] = dataclasses.field(default_factory=list)

    @property
    def objects(self) -> int:
        return self.objects_per_class.total()

    @property
    def unusable(self) -> int:
        """Files that had to be skipped, not counting those the user asked to leave out."""
        skipped = sum(count for (group, _), count in self.counts.items() if group == "skipped")
        return skipped - self.counts["skipped", _LEFT_OUT_ON_PURPOSE]

    def note(self, note: Note) -> None:
        """Counts a note."""
        self.counts[note.group, note.reason] += 1
        if note.detail:
            self.notes.append(note)

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
        groups: dict[str, dict[str, int]] = {"skipped": {}, "dropped": {}, "repaired": {}}
        for (group, reason), count in sorted(self.counts.items()):
            groups[group][reason] = count
        return {**self.manifest_entry(), **groups, "files": [dataclasses.asdict(note) for note in self.notes]}

    def summary(self) -> list[str]:
        """Lines for the end of a run."""
        head = f"{self.split}: {_count(self.images, 'picture')} ({self.without_objects} without objects)"
        lines = [f"{head}, {_count(self.objects, 'object')}, in {_count(len(self.shards), 'shard')}"]
        lines += [f"  {name}: {count}" for name, count in self.objects_per_class.items()]
        dropped = sum(count for (group, _), count in self.counts.items() if group == "dropped")
        if dropped:
            share = 100 * dropped / (dropped + self.objects)
            lines.append(f"  {dropped} of {_count(dropped + self.objects, 'object')} dropped ({share:.3g} %)")
        return lines + [self._line(group, reason, count) for (group, reason), count in sorted(self.counts.items())]

    def _line(self, group: str, reason: str, count: int) -> str:
        files = [note.file for note in self.notes if (note.group, note.reason) == (group, reason)]
        shown = ", ".join(files[:_EXAMPLES]) + (" ..." if len(files) > _EXAMPLES else "")
        return f"  {group}: {reason}: {count}" + (f" ({shown})" if shown else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
