"""Pascal-VOC annotations and pictures to TFRecords.

    python tools/pascalvoc_to_tfrecords.py --dataset_dir VOC2012 --output_dir tfrecords --output_name voc_2012

Writes `voc_2012_train_000.tfrecord` and so on for each split file in `ImageSets/Main`, `labels.txt`, and `voc_2012.json`,
from which every later command takes class names and sizes. A file that cannot be used is named and left out.
"""

import functools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine import flags
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.staging import Staging
from engine.tfrecords import ShardWriter
from tools.records import class_names, output
from tools.records.manifest import Head
from tools.records.notes import Note
from tools.voc import layout, scan
from tools.voc.class_names import discover, unknown
from tools.voc.layout import DataSet
from tools.voc.records import Job, Outcome, convert
from tools.voc.scan import Scan
from tools.voc.tally import SplitTally


@dataclass(frozen=True, kw_only=True)
class Config:
    dataset_dir: str = flag("", "the data set's root, with Annotations and JPEGImages in it", required=True)
    output_dir: str = flag("", "folder for the records; made if absent", required=True)
    output_name: str = flag("", "first part of the files' names, for example voc_2012", required=True)
    split: str | None = flag(None, "the one split to convert; by default every split file of ImageSets/Main")
    labels: str | None = flag(
        None,
        "text file of class names, one a line, in the order of their ids; by default labels.txt in dataset_dir, "
        "or else the names in all annotations, sorted",
    )
    workers: int = flag(0, "processes; 0 is one for each core", minimum=0)
    samples_per_file: int = flag(200, "most records in one file", minimum=1)
    strict: bool = flag(False, "write nothing and fail if a single file has to be skipped")
    report: str | None = flag(None, "JSON file for counts and for all that was skipped, dropped or repaired")
    skip_unknown: bool = flag(False, "leave out objects whose class is not in the list, instead of stopping")
    skip_empty: bool = flag(False, "leave out pictures without objects")
    unlabelled_as_background: bool = flag(False, "take pictures without an annotation as pictures without objects")


def main(config: Config) -> None:
    """Converts a data set. UserError for mistakes in flags, an unusable data set, or a folder that cannot be written."""
    output.check_name("--output_name", config.output_name)
    if config.split is not None:
        output.check_name("--split", config.split)
    output_dir = Path(config.output_dir)

    # What there is.
    data_set = layout.open_data_set(Path(config.dataset_dir), "--dataset_dir")
    splits = {split: layout.read_split(data_set, split) for split in layout.choose_splits(data_set, config.split, "--split")}
    found = scan.scan(data_set)
    names = _class_names(config, data_set, found)
    _refuse_unknown(config, data_set, found, [key for ids, _ in splits.values() for key in ids], names)

    with Staging(output_dir, config.output_name) as staging:
        head = Head(config.output_name, names)
        output.check_mergeable(output_dir, head, list(splits))

        # Everything aside.
        told: set[Note] = set()
        tallies = []
        for split, (ids, missing) in splits.items():
            tally = SplitTally(split, Counter(dict.fromkeys(names, 0)))
            note = functools.partial(tally.note, told=told)
            jobs = scan.make_jobs(data_set, found, ids, config.unlabelled_as_background, note)
            for line in missing:
                note(Note("skipped", "listed but not there", line, f"listed in {split}, but no file is called so"))
            _write_split(config, staging.folder, jobs, tally, told)
            tallies.append(tally)

        # Told, and everything together into place.
        _summarise(config, data_set, found, tallies)
        _refuse_unusable(config, tallies)
        entries = {tally.split: tally.manifest_entry() for tally in tallies if tally.images}
        output.publish(staging, output_dir, Path(config.dataset_dir), head, entries)


def _class_names(config: Config, data_set: DataSet, found: Scan) -> list[str]:
    if config.labels is not None:
        return class_names.read(Path(config.labels), "--labels")
    listed = data_set.root / output.LABELS_FILE
    if listed.is_file():
        return class_names.read(listed, "labels.txt in --dataset_dir")
    names = discover(scan.objects_per_file(data_set, found, data_set.annotations))
    if not names:
        raise UserError(f"--dataset_dir={config.dataset_dir}: no annotation holds an object; name the classes with --labels")
    return names


def _refuse_unknown(config: Config, data_set: DataSet, found: Scan, ids: list[str], names: list[str]) -> None:
    strangers = unknown(scan.objects_per_file(data_set, found, ids), names)
    if strangers and not config.skip_unknown:
        raise UserError(
            f"unknown classes: {strangers}; known are {', '.join(names)}. Mend the names or the list (--labels), "
            "or add --skip_unknown to leave such objects out"
        )


def _write_split(config: Config, folder: Path, jobs: list[Job], tally: SplitTally, told: set[Note]) -> None:
    """Converts `jobs` into shards in `folder` and counts them in `tally`."""

    def take(outcome: Outcome) -> None:
        for note in outcome.notes:
            tally.note(note, told)
        if outcome.framed is not None:
            tally.add_record(outcome)

    label_ids = {name: label for label, name in enumerate(tally.objects_per_class, start=1)}
    work = functools.partial(convert, label_ids=label_ids, skip_empty=config.skip_empty)
    shards = ShardWriter(folder, f"{config.output_name}_{tally.split}", config.samples_per_file)
    tally.shards = output.write_split(
        work, jobs, shards, take, label=tally.split, workers=config.workers, output_dir=Path(config.output_dir)
    )


def _summarise(config: Config, data_set: DataSet, found: Scan, tallies: list[SplitTally]) -> None:
    """Tells what happened, on stderr and in the `--report` file."""
    lines = [line for tally in tallies for line in tally.summary()]
    lines.append(f"pictures without an annotation in the data set: {len(found.unlabelled)}")
    lines += [f"split {tally.split} has no usable picture: nothing is written for it" for tally in tallies if not tally.images]
    if 0 < max(tally.largest_coordinate for tally in tallies) <= 1:
        lines.append("warning: all coordinates <= 1: normalised? Boxes are expected in pixels and are useless if they are not")
    print(*lines, sep="\n", file=sys.stderr)
    if config.report:
        unlabelled = [name for stem in found.unlabelled for name in data_set.images[stem]]
        report = {"name": config.output_name, "splits": {tally.split: tally.report() for tally in tallies}}
        write_json(config.report, {**report, "images_without_annotation": unlabelled})


def _refuse_unusable(config: Config, tallies: list[SplitTally]) -> None:
    unusable = sum(tally.unusable for tally in tallies)
    if config.strict and unusable:
        raise UserError(f"--strict: nothing is written, because {unusable} files could not be used (named above)")
    if not any(tally.images for tally in tallies):
        splits = ", ".join(tally.split for tally in tallies)
        raise UserError(f"--dataset_dir={config.dataset_dir}: no usable picture in split {splits} ({unusable} files skipped)")


if __name__ == "__main__":
    flags.run(Config, main)
