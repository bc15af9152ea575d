"""Anchors fitted to records by the command, and a net trained with them, resumed, evaluated and exported without the file."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from engine import checkpoints
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.flags import parse
from ssd import anchor_sets, coverage, dataset, evaluate, export, nets, train
from ssd.anchors import make_anchors
from tests import oracles
from tests.conftest import ROOT, run_command
from tests.ssd.train_flags import FLAGS
from tools import fit_anchors

BCCD = ROOT.parent / "shared/data/bccd"


def run_fit(*flags):
    fit_anchors.main(parse(fit_anchors.Config, ["fit_anchors", "--model_name=ssd_tiny", *map(str, flags)])[0])


def run_train(records, train_dir, *flags):
    flags = (f"--dataset_dir={records}", f"--train_dir={train_dir}", *FLAGS, *map(str, flags))
    train.main(parse(train.Config, ["train", *flags])[0])


def counted(table, row):
    """Objects, and how many are without an anchor in each set."""
    line = re.search(rf"^{re.escape(row)} .*", table, re.M)[0].removeprefix(row)
    numbers = re.sub(r"\([^(]*\)", "", line).replace(",", "").split()
    return [int(number) for number in numbers]


@pytest.fixture(scope="module")
def fitted(sample_records, tmp_path_factory):
    """The file, and what the command printed."""
    file = tmp_path_factory.mktemp("fitted") / "new" / "anchors.json"
    done = run_command(
        "tools/fit_anchors.py",
        f"--dataset_dir={sample_records}",
        "--dataset_split_name=train",
        "--model_name=ssd_tiny",
        f"--output_file={file}",
    )
    assert done.returncode == 0, done.stderr
    return file, done.stdout


@pytest.fixture(scope="module")
def run(fitted, sample_records, tmp_path_factory):
    """A run of one step with a file that is gone now, and a copy of the file."""
    folder = tmp_path_factory.mktemp("run")
    file = shutil.copy(fitted[0], folder / "gone.json")
    run_train(sample_records, folder / "run", "--max_number_of_steps=1", f"--anchor_set={file}")
    file.unlink()
    return folder / "run", file


def test_the_table_counts_what_the_oracle_counts(fitted, sample_records):
    file, table = fitted
    split = dataset.open_split(str(sample_records), "", "train")
    truths = [split.parse(number, num_classes=4) for number in range(len(split.records))]
    specs = [*nets.NETS["ssd_tiny"].anchors.values(), anchor_sets.find("ssd_tiny", str(file)).spec]
    counts, near = [], []
    for spec in specs:
        found = [oracles.coverage(truth.boxes, make_anchors(spec), 0.5) for truth in truths]
        counts.append(sum(iou < 0.5 for best, _ in found for iou in best))
        near.append(sum(number for _, number in found))
    objects = sum(len(truth.labels) for truth in truths)
    assert counted(table, "all") == [objects, *counts]
    assert counts[2] < counts[0]
    shown = [float(number) for number in re.search(r"^positives a picture +(.*)", table, re.M)[1].split()]
    np.testing.assert_allclose(shown, (np.array(near) + counts) / len(truths), atol=0.051)
    by_class, by_size = (
        np.sum([counted(table, row) for row in rows], axis=0)
        for rows in (split.class_names, ["small (under 32x32 pixels of the net's input)", "medium", "large (over 96x96)"])
    )
    assert by_class.tolist() == by_size.tolist() == [objects, *counts]


def test_the_file_has_the_layout_of_the_net(fitted):
    file, table = fitted
    found = anchor_sets.find("ssd_tiny", str(file))
    assert make_anchors(found.spec).shape == (2390, 4)
    assert f"{file}: {found.name}; ssd.train takes it as --anchor_set={file}" in table
    height, width = found.spec.layers[0].shapes[0]
    assert f"20x20 map: {height:g}x{width:g} ({width / height:.2f})" in table


def test_a_file_that_exists_stays(fitted, sample_records):
    before = fitted[0].read_bytes()
    with pytest.raises(UserError, match=f"^--output_file={fitted[0]}: exists already"):
        run_fit(f"--dataset_dir={sample_records}", f"--output_file={fitted[0]}")
    assert fitted[0].read_bytes() == before


def test_records_without_objects(tmp_path):
    example = tf.train.Example()
    example.features.feature["image/encoded"].bytes_list.value.append(b"not looked at")
    with tf.io.TFRecordWriter(str(tmp_path / "shapes_train_000.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    with pytest.raises(UserError, match="^--dataset_split_name=train: shapes has no objects there"):
        run_fit(f"--dataset_dir={tmp_path}", "--dataset_name=shapes", f"--output_file={tmp_path / 'a.json'}")
    assert not (tmp_path / "a.json").exists()


def test_the_checkpoint_carries_the_anchors(run, fitted):
    stored = checkpoints.find(run[0])
    assert stored.manifest["anchor_layout"] == json.loads(fitted[0].read_text())
    assert json.loads((run[0] / "config.json").read_text())["anchor_set"] == str(run[1])


def test_a_run_goes_on_without_the_file(run, sample_records, tmp_path, capsys):
    folder = shutil.copytree(run[0], tmp_path / "run")
    manifest = checkpoints.find(folder).manifest
    line = rf"^anchors: \d+\.\d % of \d+ objects have no anchor at IoU \.5 in the set {manifest['anchor_set']}; "
    run_train(sample_records, folder, "--max_number_of_steps=2", "--dry_run")
    assert re.search(line, capsys.readouterr().err, re.M)
    run_train(sample_records, folder, "--max_number_of_steps=2", f"--anchor_set={run[1]}")
    told = capsys.readouterr().err
    assert re.search(line, told, re.M)
    assert f"--anchor_set={run[1]} is not there any more" in told
    assert StoredWeights(str(folder / "model.ckpt-2")).manifest == manifest


def test_a_run_with_other_anchors_is_refused_in_a_readable_line(run, sample_records, tmp_path):
    name = checkpoints.find(run[0]).manifest["anchor_set"]
    other = anchor_sets.to_json(nets.anchor_spec("ssd_tiny", "voc"), "ssd_tiny")
    (tmp_path / "other.json").write_text(json.dumps(other))
    for asked, said in (("voc", "voc"), (str(tmp_path / "other.json"), "custom-[0-9a-f]{8}")):
        with pytest.raises(UserError, match=f"anchor_set = {name}, but {said} is asked for") as raised:
            run_train(sample_records, run[0], "--max_number_of_steps=2", f"--anchor_set={asked}")
        assert len(str(raised.value).removeprefix(f"--train_dir={run[0]}")) < 120


def test_evaluated_and_exported_without_the_file(run, fitted, sample_records, tmp_path):
    name = checkpoints.find(run[0]).manifest["anchor_set"]
    export.main(parse(export.Config, ["export", f"--checkpoint_path={run[0]}", f"--output_dir={tmp_path}"])[0])
    description = json.loads((tmp_path / "ssd_tiny.ckpt.json").read_text())
    assert description["anchor_set"] == name
    assert description["anchor_layout"] == checkpoints.find(run[0]).manifest["anchor_layout"]
    flags = [f"--dataset_dir={sample_records}", "--dataset_split_name=val", f"--eval_dir={tmp_path}", "--pictures=0"]

    def metrics(checkpoint, *more):
        evaluate.main(parse(evaluate.Config, ["evaluate", f"--checkpoint_path={checkpoint}", *flags, *more])[0])
        return json.loads((tmp_path / "metrics.json").read_text())

    expected = metrics(run[0])
    assert expected["images"] == 7
    assert metrics(tmp_path / "ssd_tiny.ckpt") == expected
    with pytest.raises(UserError, match=f"--anchor_set=voc: .* was trained with {name}"):
        metrics(run[0], "--anchor_set=voc")
    (tmp_path / "ssd_tiny.ckpt.json").unlink()  # now it is a checkpoint that tells nothing
    names_nothing = ("--model_name=ssd_tiny", "--num_classes=4")
    assert metrics(tmp_path / "ssd_tiny.ckpt", *names_nothing, f"--anchor_set={fitted[0]}") == expected
    assert metrics(tmp_path / "ssd_tiny.ckpt", *names_nothing, "--anchor_set=voc") != expected


def test_anchors_that_fit_badly_are_warned_of(sample_records, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(coverage, "SAMPLE", 10)
    flat = anchor_sets.to_json(nets.anchor_spec("ssd_tiny", "voc"), "ssd_tiny")
    for layer in flat["layers"]:
        layer["shapes"] = [[1, 100]] * len(layer["shapes"])
    (tmp_path / "flat.json").write_text(json.dumps(flat))
    run_train(sample_records, tmp_path / "run", f"--anchor_set={tmp_path / 'flat.json'}", "--dry_run")
    told = capsys.readouterr().err
    assert re.search(
        r"^anchors: 100\.0 % of \d+ objects .* \(10 of 24 pictures looked at\)\nwarning: more than 2 % .*tools/fit_anchors\.py",
        told,
        re.M,
    )


@pytest.mark.skipif(not BCCD.is_dir(), reason=f"{BCCD} is not here")
def test_fewer_blood_cells_are_left_uncovered(tmp_path, capsys):
    done = run_command(
        "tools/pascalvoc_to_tfrecords.py", f"--dataset_dir={BCCD}", f"--output_dir={tmp_path}", "--output_name=bccd"
    )
    assert done.returncode == 0, done.stderr
    run_fit(f"--dataset_dir={tmp_path}", f"--output_file={tmp_path / 'anchors.json'}")
    table = capsys.readouterr().out
    for row in ("all", "RBC", "WBC", "Platelets"):
        _, voc, _, fitted = counted(table, row)
        assert fitted < voc
    objects, voc, _, fitted = counted(table, "all")
    assert fitted < 0.65 * voc
    assert objects > 2000
