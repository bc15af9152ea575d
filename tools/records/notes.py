"""What a converter has to say of a file, and the counts of it: in lines for people, as a dictionary for programs."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from engine.progress import say

_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that happened to a file. `group` is one of those in its tally's `EFFECTS`, such as "skipped".

    `reason` is short and counted. `detail` is for the user to read; an empty one is counted in silence.
    """

    group: str
    reason: str
    file: str
    detail: str = ""


@dataclasses.dataclass(kw_only=True)
class Outcome:
    """What became of a picture. `framed` is the record as it stands in a TFRecord file, None if it was skipped."""

    framed: bytes | None = None
    notes: list[Note] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(kw_only=True)
class Tally:
    """Notes counted. `notes` holds every note with a detail, `counts` all of them by group and reason.

    `EFFECTS` names the groups, and says of each what became of the file.
    """

    EFFECTS: ClassVar[dict[str, str]] = {"skipped": "skipped", "warned": "warning", "repaired": "kept"}

    counts: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    notes: list[Note] = dataclasses.field(default_factory=list)

    @property
    def unusable(self) -> int:
        """Files that had to be skipped."""
        return sum(count for (group, _), count in self.counts.items() if group == "skipped")

    def note(self, note: Note, told: set[Note]) -> None:
        """Counts a note and prints it, unless it is among those `told`: a file that stands in two splits is named once."""
        self.counts[note.group, note.reason] += 1
        if not note.detail:
            return
        self.notes.append(note)
        if note not in told:
            told.add(note)
            say(f"{note.file}: {note.detail} ({self.EFFECTS[note.group]})")

    def noted(self) -> dict:
        """Group -> reason -> count, and under "files" all that was told: for the `--report` file."""
        groups: dict[str, dict[str, int]] = {group: {} for group in self.EFFECTS}
        for (group, reason), count in sorted(self.counts.items()):
            groups[group][reason] = count
        return {**groups, "files": [dataclasses.asdict(note) for note in self.notes]}

    def note_lines(self) -> list[str]:
        """A line for each group and reason: for the end of a run."""
        return [self._line(group, reason, count) for (group, reason), count in sorted(self.counts.items())]

    def _line(self, group: str, reason: str, count: int) -> str:
        files = [note.file for note in self.notes if (note.group, note.reason) == (group, reason)]
        shown = ", ".join(files[:_EXAMPLES]) + (" ..." if len(files) > _EXAMPLES else "")
        return f"  {group}: {reason}: {count}" + (f" ({shown})" if shown else "")


def counted(number: int, noun: str) -> str:
    """ "1 picture", "2 pictures"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def reason_of(error: Exception) -> str:
    """Why a file is unusable, without its path: a note names it anyway."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def group_notes(group: str, reason: str, place: str, files: Sequence[str], detail: str) -> list[Note]:
    """A note for each of `files`, of which only the first is told, with `place` for its name: many alike make one line."""
    return [Note(group, reason, place, detail), *(Note(group, reason, file) for file in files[1:])]
