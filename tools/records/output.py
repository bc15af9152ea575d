"""The files of a data set: written aside, split by split, and put into place together."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from engine.errors import UserError
from engine.files import writing
from engine.parallel import available_cores, ordered_map
from engine.progress import progress
from engine.staging import Staging, locked
from engine.tfrecords import ShardWriter, obsolete_shards
from tools.records import manifest
from tools.records.manifest import Head
from tools.records.notes import Outcome

LABELS_FILE = "labels.txt"

Job = TypeVar("Job")


def check_name(flag: str, value: str) -> None:
    """UserError if the value of `flag` cannot be a part of the files' names."""
    if not value or value.startswith(".") or set(value) & set("/\\*?[]\n"):
        raise UserError(f"{flag}={value!r} cannot be part of a file name: no leading dot, slash or any of *?[]")


def check_mergeable(output_dir: Path, head: Head, splits: Sequence[str]) -> None:
    """UserError, now and not after hours, where `splits` could not be added to what is there."""
    manifest.merge(manifest.read(output_dir, head.name), head, dict.fromkeys(splits))


def write_split(
    convert: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    shards: ShardWriter,
    take: Callable[[Outcome], None],
    *,
    label: str,
    workers: int,
    output_dir: Path,
) -> list[str]:
    """Writes the records that `convert` makes of `jobs`, in their order, and gives the names of their shards.

    `take` is told of every outcome. `label` stands before the progress bar; 0 `workers` are one for each core;
    `output_dir` is named when a write fails.
    """
    outcomes = ordered_map(convert, jobs, workers or available_cores())
    with contextlib.closing(outcomes), shards:
        for outcome in progress(outcomes, label, total=len(jobs), unit="picture"):
            take(outcome)
            if outcome.framed is not None:
                with writing(output_dir):
                    shards.write(outcome.framed)
    return shards.names


def publish(staging: Staging, output_dir: Path, source_dir: Path, head: Head, splits: dict[str, dict | None]) -> None:
    """Replaces the splits' shards, the manifest and the class list; `splits` are the manifest's entries, None removes one.

    A `labels.txt` that stands among the data in `source_dir` is the user's own and is left alone.
    """
    with locked(output_dir):
        # Read again: another split may have been added meanwhile.
        merged = manifest.merge(manifest.read(output_dir, head.name), head, splits)
        staging.write_text(f"{head.name}.json", manifest.dumps(merged))
        if output_dir.resolve() != source_dir.resolve() and manifest.may_write_labels(output_dir, head):
            staging.write_text(LABELS_FILE, manifest.labels_text(head))
        stems = {f"{head.name}_{split}": entry["shards"] if entry else [] for split, entry in splits.items()}
        staging.publish([name for stem, shards in stems.items() for name in obsolete_shards(output_dir, stem, shards)])
