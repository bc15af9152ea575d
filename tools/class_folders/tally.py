"""Counts what a conversion of class folders did, and tells it."""

import dataclasses
from collections import Counter

from tools.records.notes import Tally, counted


@dataclasses.dataclass
class SplitTally(Tally):
    """What happened to one split."""

    split: str
    images_per_class: Counter[str]
    shards: list[str] = dataclasses.field(default_factory=list)

    @property
    def images(self) -> int:
        return self.images_per_class.total()

    def manifest_entry(self) -> dict:
        """The split's part of `NAME.json`."""
        return {"images": self.images, "images_per_class": dict(self.images_per_class), "shards": self.shards}

    def report(self) -> dict:
        """The split's part of the `--report` file: the manifest's numbers and all that was noted."""
        return {**self.manifest_entry(), **self.noted()}

    def summary(self) -> list[str]:
        """Lines for the end of a run."""
        lines = [f"{self.split}: {counted(self.images, 'picture')}, in {counted(len(self.shards), 'shard')}"]
        lines += [f"  {name}: {count}" for name, count in self.images_per_class.items() if count]
        lines += self.note_lines()
        if lacking := [name for name, count in self.images_per_class.items() if not count]:
            lines.append(f"  without a usable picture: {', '.join(lacking)}")
        return lines
