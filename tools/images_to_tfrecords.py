"""Pictures in class folders to TFRecords for `python -m classify.train`.

    python tools/images_to_tfrecords.py --dataset_dir PICTURES --output_dir tfrecords --output_name flowers

PICTURES holds `CLASS/picture.jpg`, of which a part becomes the split `validation` and the rest `train`; or
`SPLIT/CLASS/picture.jpg`, SPLIT being train, val, validation or test, which are taken as they are. Writes
`flowers_train_000.tfrecord` and so on, `labels.txt`, and `flowers.json`, from which every later command takes class names
and sizes. A file that cannot be used is named and left out.
"""

import functools
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from engine import flags
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.progress import say
from engine.staging import Staging
from engine.tfrecords import ShardWriter
from tools.class_folders import layout, splits
from tools.class_folders.layout import DataSet, Picture
from tools.class_folders.records import Outcome, convert, twin_notes
from tools.class_folders.tally import SplitTally
from tools.records import class_names, output
from tools.records.manifest import Head
from tools.records.notes import Note, Tally, counted, group_notes


@dataclass(frozen=True, kw_only=True)
class Config:
    dataset_dir: str = flag("", "folder of class folders, or of split folders with class folders in them", required=True)
    output_dir: str = flag("", "folder for the records; made if absent", required=True)
    output_name: str = flag("", "first part of the files' names, for example flowers", required=True)
    validation_fraction: float = flag(
        0.1,
        "part of the pictures that becomes the split validation, below 1; not used where there are split folders",
        minimum=0,
    )
    labels: str | None = flag(
        None, "text file of class names, one a line, in the order of their labels; by default the class folders' names, sorted"
    )
    seed: int = flag(0, "decides which pictures are for validation, and the order of the records", minimum=0)
    workers: int = flag(0, "processes; 0 is one for each core", minimum=0)
    samples_per_file: int = flag(200, "most records in one file", minimum=1)
    strict: bool = flag(False, "write nothing and fail if a single file has to be skipped")
    report: str | None = flag(None, "JSON file for counts and for all that was skipped, warned of or repaired")
    skip_unknown: bool = flag(False, "leave out class folders that are not in --labels, instead of stopping")


def main(config: Config) -> None:
    """Converts a data set. UserError for mistakes in flags, an unusable data set, or a folder that cannot be written."""
    output.check_name("--output_name", config.output_name)
    if config.validation_fraction >= 1:
        raise UserError(f"--validation_fraction={config.validation_fraction}: must be below 1, or nothing is left to train on")
    source_dir, output_dir = Path(config.dataset_dir), Path(config.output_dir)

    # What there is.
    data_set = layout.open_data_set(source_dir, "--dataset_dir")
    names, unknown = _class_names(config, data_set)
    listed = set(names)
    known = [picture for picture in data_set.pictures if picture.class_name in listed]
    jobs = splits.assign(known, data_set.has_splits, config.validation_fraction, config.seed)
    # Old pictures for validation must not stay beside new ones to train on that may be the same.
    replaced = list(jobs) if data_set.has_splits else [splits.TRAIN, splits.VALIDATION]
    head = Head(config.output_name, names, first_label=0)

    with Staging(output_dir, config.output_name) as staging:
        output.check_mergeable(output_dir, head, replaced)
        say(_describe(config, data_set, names))
        told: set[Note] = set()
        whole = Tally()
        for note in [*data_set.notes, *unknown]:
            whole.note(note, told)

        # Everything aside.
        seen: dict[bytes, tuple[Picture, ...]] = {}
        tallies = [SplitTally(split, Counter(dict.fromkeys(names, 0))) for split in jobs]
        for tally in tallies:
            _write_split(config, staging.folder, jobs[tally.split], tally, told, seen)

        # Told, and everything together into place.
        _summarise(config, data_set, whole, tallies)
        _refuse_unusable(config, whole, tallies)
        entries = {tally.split: tally.manifest_entry() for tally in tallies if tally.images}
        removed = {} if data_set.has_splits else dict.fromkeys(replaced)
        output.publish(staging, output_dir, source_dir, head, removed | entries)


def _class_names(config: Config, data_set: DataSet) -> tuple[list[str], list[Note]]:
    """The class names in order, and notes of the pictures whose class is none of them (--skip_unknown)."""
    found: dict[str, list[str]] = defaultdict(list)
    for picture in data_set.pictures:
        found[picture.class_name].append(picture.name)
    if config.labels is None:
        _refuse_case_twins(sorted(found))
        return sorted(found), []
    names = [layout.normalized(name) for name in class_names.read(Path(config.labels), "--labels", first_label=0)]
    unknown = {
        name: f"'{name}' ({counted(len(paths), 'picture')}{class_names.case_hint(name, names)})"
        for name, paths in sorted(found.items())
        if name not in names
    }
    if unknown and not config.skip_unknown:
        raise UserError(
            f"unknown classes: {', '.join(unknown.values())}; known are {', '.join(names)}. Rename the folders, mend the list "
            "(--labels), or add --skip_unknown to leave such folders out"
        )
    reason = "picture of a class that is not in --labels"
    notes = [group_notes("warned", reason, name, found[name], f"left out: {unknown[name]}") for name in unknown]
    return names, [note for group in notes for note in group]


def _refuse_case_twins(names: list[str]) -> None:
    """UserError for names that differ only by case: nearly always one class, written in two ways."""
    first: dict[str, str] = {}
    for name in names:
        twin = first.setdefault(name.casefold(), name)
        if twin != name:
            raise UserError(
                f"the class folders '{twin}' and '{name}' differ only by case: rename one of them, or list both in a file for "
                "--labels if they are two classes"
            )


def _describe(config: Config, data_set: DataSet, names: list[str]) -> str:
    what = f"{counted(len(data_set.pictures), 'picture')}, {len(names)} class{'es' * (len(names) != 1)}"
    if data_set.has_splits:
        return f"layout SPLIT/CLASS/picture: {what}; the split folders are taken as they are"
    share = f"{config.validation_fraction:g} of them" if config.validation_fraction else "none of them"
    return f"layout CLASS/picture: {what}; split validation gets {share}"


def _write_split(
    config: Config,
    folder: Path,
    jobs: list[Picture],
    tally: SplitTally,
    told: set[Note],
    seen: dict[bytes, tuple[Picture, ...]],
) -> None:
    """Converts `jobs` into shards in `folder` and counts them in `tally`."""

    def take(outcome: Outcome) -> None:
        usable = outcome.framed is not None
        for note in [*outcome.notes, *(twin_notes(seen, outcome) if usable else [])]:
            tally.note(note, told)
        tally.images_per_class[outcome.picture.class_name] += usable

    labels = {name: label for label, name in enumerate(tally.images_per_class)}
    work = functools.partial(convert, root=Path(config.dataset_dir), labels=labels)
    shards = ShardWriter(folder, f"{config.output_name}_{tally.split}", config.samples_per_file)
    tally.shards = output.write_split(
        work, jobs, shards, take, label=tally.split, workers=config.workers, output_dir=Path(config.output_dir)
    )


def _summarise(config: Config, data_set: DataSet, whole: Tally, tallies: list[SplitTally]) -> None:
    """Tells what happened, on stderr and in the `--report` file."""
    lines = [line for tally in tallies for line in tally.summary()]
    lines += [f"data set: {data_set.passed_over} passed over (hidden, or no pictures)", *whole.note_lines()]
    lines += [f"split {tally.split} has no usable picture: nothing is written for it" for tally in tallies if not tally.images]
    print(*lines, sep="\n", file=sys.stderr)
    if config.report:
        told_of_all = {"passed_over": data_set.passed_over, **whole.noted()}
        tallied = {tally.split: tally.report() for tally in tallies}
        write_json(config.report, {"name": config.output_name, "splits": tallied, "data_set": told_of_all})


def _refuse_unusable(config: Config, whole: Tally, tallies: list[SplitTally]) -> None:
    unusable = sum(tally.unusable for tally in [whole, *tallies])
    if config.strict and unusable:
        raise UserError(f"--strict: nothing is written, because {unusable} files could not be used (named above)")
    if not any(tally.images for tally in tallies):
        raise UserError(f"--dataset_dir={config.dataset_dir}: no usable picture ({unusable} files skipped)")


if __name__ == "__main__":
    flags.run(Config, main)
