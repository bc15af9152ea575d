"""Pascal-VOC annotations and pictures to TFRecords.

    python tools/pascalvoc_to_tfrecords.py --dataset_dir VOC2012 --output_dir tfrecords --output_name voc_2012

Writes `voc_2012_train_000.tfrecord` and so on for each split file in `ImageSets/Main`, `labels.txt`, and `voc_2012.json`,
from which every later command takes class names and sizes. A file that cannot be used is named and left out.
"""

import contextlib
import functools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine import flags
from engine.errors import UserError
from engine.files import write_json, writing
from engine.flags import flag
from engine.parallel import available_cores, ordered_map
from engine.progress import progress, say
from engine.staging import Staging, locked
from engine.tfrecords import ShardWriter, obsolete_shards
from tools.voc import class_names, layout, manifest, scan
from tools.voc.layout import DataSet
from tools.voc.records import Job, Note, convert
from tools.voc.scan import Scan
from tools.voc.tally import SplitTally

_LABELS_FILE = "labels.txt"
_EFFECTS = {"skipped": "skipped", "dropped": "object dropped", "repaired": "kept"}


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
    _check_names(config)
    output_dir = Path(config.output_dir)

    # What there is.
    data_set = layout.open_data_set(Path(config.dataset_dir), "--dataset_dir")
    splits = {split: layout.read_split(data_set, split) for split in layout.choose_splits(data_set, config.split, "--split")}
    found = scan.scan(data_set)
    names = _class_names(config, data_set, found)
    _refuse_unknown(config, data_set, found, [key for ids, _ in splits.values() for key in ids], names)

    with Staging(output_dir, config.output_name) as staging:
        # Fails now, not after hours, where the result could not be added to what is there.
        old = manifest.read(output_dir, config.output_name)
        manifest.merge(old, config.output_name, names, {split: {} for split in splits})

        # Everything aside.
        told: set[Note] = set()
        tallies = []
        for split, (ids, missing) in splits.items():
            tally = SplitTally(split, Counter(dict.fromkeys(names, 0)))
            note = functools.partial(_note, tally, told)
            jobs = scan.make_jobs(data_set, found, ids, config.unlabelled_as_background, note)
            for line in missing:
                note(Note("skipped", "listed but not there", line, f"listed in {split}, but no file is called so"))
            _write_split(config, staging.folder, jobs, tally, told)
            tallies.append(tally)

        # Told, and everything together into place.
        _summarise(config, data_set, found, tallies)
        _refuse_unusable(config, tallies)
        _publish(config, staging, names, [tally for tally in tallies if tally.images])


def _check_names(config: Config) -> None:
    for name, value in (("--output_name", config.output_name), ("--split", config.split)):
        if value is not None and (not value or value.startswith(".") or set(value) & set("/\\*?[]\n")):
            raise UserError(f"{name}={value!r} cannot be part of a file name: no leading dot, slash or any of *?[]")


def _class_names(config: Config, data_set: DataSet, found: Scan) -> list[str]:
    if config.labels is not None:
        return class_names.read(Path(config.labels), "--labels")
    listed = data_set.root / _LABELS_FILE
    if listed.is_file():
        return class_names.read(listed, "labels.txt in --dataset_dir")
    names = class_names.discover(scan.objects_per_file(data_set, found, data_set.annotations))
    if not names:
        raise UserError(f"--dataset_dir={config.dataset_dir}: no annotation holds an object; name the classes with --labels")
    return names


def _refuse_unknown(config: Config, data_set: DataSet, found: Scan, ids: list[str], names: list[str]) -> None:
    unknown = class_names.unknown(scan.objects_per_file(data_set, found, ids), names)
    if unknown and not config.skip_unknown:
        raise UserError(
            f"unknown classes: {unknown}; known are {', '.join(names)}. Mend the names or the list (--labels), "
            "or add --skip_unknown to leave such objects out"
        )


def _note(tally: SplitTally, told: set[Note], note: Note) -> None:
    """Counts a note and prints it, once for all splits that its file stands in."""
    tally.note(note)
    if note.detail and note not in told:
        told.add(note)
        say(f"{note.file}: {note.detail} ({_EFFECTS[note.group]})")


def _write_split(config: Config, folder: Path, jobs: list[Job], tally: SplitTally, told: set[Note]) -> None:
    """Converts `jobs` into shards in `folder` and counts them in `tally`."""
    label_ids = {name: label for label, name in enumerate(tally.objects_per_class, start=1)}
    work = functools.partial(convert, label_ids=label_ids, skip_empty=config.skip_empty)
    outcomes = ordered_map(work, jobs, config.workers or available_cores())
    shards = ShardWriter(folder, f"{config.output_name}_{tally.split}", config.samples_per_file)
    with contextlib.closing(outcomes), shards:
        for outcome in progress(outcomes, tally.split, total=len(jobs), unit="picture"):
            for note in outcome.notes:
                _note(tally, told, note)
            if outcome.framed is not None:
                tally.add_record(outcome)
                with writing(Path(config.output_dir)):
                    shards.write(outcome.framed)
    tally.shards = shards.names


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


def _publish(config: Config, staging: Staging, names: list[str], tallies: list[SplitTally]) -> None:
    """Replaces the splits' shards, the manifest and the class list."""
    output_dir = Path(config.output_dir)
    with locked(output_dir):
        # Read again: another split may have been added meanwhile.
        old = manifest.read(output_dir, config.output_name)
        entries = {tally.split: tally.manifest_entry() for tally in tallies}
        merged = manifest.merge(old, config.output_name, names, entries)
        staging.write_text(f"{config.output_name}.json", manifest.dumps(merged))
        if output_dir.resolve() != Path(config.dataset_dir).resolve() and manifest.may_write_labels(
            output_dir, config.output_name, names
        ):
            staging.write_text(_LABELS_FILE, manifest.labels_text(names))
        stems = {f"{config.output_name}_{tally.split}": tally.shards for tally in tallies}
        staging.publish([name for stem, shards in stems.items() for name in obsolete_shards(output_dir, stem, shards)])


if __name__ == "__main__":
    flags.run(Config, main)
