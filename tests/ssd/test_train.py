"""Training that goes on, is fine-tuned, and is misled."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.flags import parse
from ssd import evaluate, train
from tests.conftest import ROOT
from tests.ssd.train_flags import FLAGS, argv


def run_in_process(records, train_dir, *flags):
    train.main(parse(train.Config, ["train", *argv(records, train_dir, *flags)[2:]])[0])


def test_a_finished_run_says_so(sample_records, tmp_path, capsys):
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=1")
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=1")
    assert "nothing to do" in capsys.readouterr().err


def test_another_optimizer_and_an_ignored_checkpoint_are_told(sample_records, tmp_path, capsys):
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=1", "--optimizer=rmsprop")
    capsys.readouterr()
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=2", "--optimizer=adam", f"--checkpoint_path={tmp_path}")
    told = capsys.readouterr().err
    assert "note: --optimizer was rmsprop, is adam" in told
    assert "the checkpoint in train_dir wins" in told
    assert re.search(r"^step 2, ", told, re.M)
    (tmp_path / "config.json").write_text("{")
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=3", "--optimizer=adam")
    told = capsys.readouterr().err
    assert "which flags differ from before is unknown" in told
    assert re.search(r"^step 3, ", told, re.M)


def test_a_run_of_other_classes_is_left_alone(sample_records, tmp_path):
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="num_classes = 4, but 6 is asked for"):
        run_in_process(sample_records, tmp_path, "--max_number_of_steps=2", "--num_classes=6")
    with pytest.raises(UserError, match="anchor_set = voc, but coco is asked for"):
        run_in_process(sample_records, tmp_path, "--max_number_of_steps=2", "--anchor_set=coco")
    with pytest.raises(UserError, match="model_name = ssd_tiny, but ssd_300_vgg is asked for"):
        run_in_process(sample_records, tmp_path, "--max_number_of_steps=2", "--model_name=ssd_300_vgg")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_fine_tuning_with_other_classes(sample_records, tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    run_in_process(sample_records, first, "--max_number_of_steps=1")
    flags = ("--num_classes=6", f"--checkpoint_path={first}", "--max_number_of_steps=1", "--learning_rate=1e-9")
    run_in_process(sample_records, second, *flags, "--dry_run")
    told = capsys.readouterr().err
    assert re.search(r"65 of 65 variables are taken from .*\n  restored +55 ", told)
    assert re.search(r"  taken over +10\n.*conv_cls \(2\).*: by class: background, .*; fresh: class 4, class 5\n", told)
    heads = ",".join(f"ssd_tiny/conv{i}_box/conv_cls" for i in range(3, 8))
    run_in_process(
        sample_records, second, *flags, f"--checkpoint_exclude_scopes={heads}", "--trainable_scopes=ssd_tiny/conv3_box"
    )
    assert re.search(r"  excluded +10  .*", capsys.readouterr().err)
    before, after = StoredWeights(str(first / "model.ckpt-1")), StoredWeights(str(second / "model.ckpt-1"))
    np.testing.assert_array_equal(before.read("ssd_tiny/conv5/weights"), after.read("ssd_tiny/conv5/weights"))


def test_a_dry_run_tells_and_writes_nothing(sample_records, tmp_path, capsys):
    flags = ("--max_number_of_steps=2", "--dry_run")
    run_in_process(sample_records, tmp_path / "new", *flags, "--trainable_scopes=ssd_tiny/conv3_box")
    told = capsys.readouterr().err
    assert "all 65 variables start from fresh initial values" in told
    assert "4 variables are trained, 43 are frozen" in told
    run_in_process(sample_records, tmp_path / "run", "--max_number_of_steps=1")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    run_in_process(sample_records, tmp_path / "new", *flags, f"--checkpoint_path={tmp_path / 'run'}")
    assert f"65 of 65 variables are taken from {tmp_path / 'run' / 'model.ckpt-1'}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    run_in_process(sample_records, tmp_path / "run", *flags, "--optimizer=adam")
    told = capsys.readouterr().err
    assert "  restored: 65 variables of the net\n" in told
    assert re.search(r"  fresh: \d+ of the optimizer\n", told)
    assert "dry_run was" not in told
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_batch_larger_than_the_data_set(sample_records, tmp_path, capsys):
    run_in_process(sample_records, tmp_path, "--max_number_of_steps=1", "--batch_size=30")
    assert "note: --batch_size=30 is more than the data set" in capsys.readouterr().err
    assert (tmp_path / "model.ckpt-1.index").is_file()


def test_pictures_without_objects_alone(sample_records, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    with tf.io.TFRecordWriter(str(records / "shapes_train_000.tfrecord")) as writer:
        for record in tf.data.TFRecordDataset(str(sample_records / "shapes_train_000.tfrecord")).take(4):
            example = tf.train.Example.FromString(record.numpy())
            for key in ("ymin", "xmin", "ymax", "xmax", "label", "label_text", "difficult", "truncated"):
                example.features.feature[f"image/object/bbox/{key}"].Clear()
            writer.write(example.SerializeToString())
    run = tmp_path / "run"
    run_in_process(records, run, "--max_number_of_steps=2", "--num_classes=3", "--dataset_name=shapes")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(row["negative_loss"] > 0 and row["positive_loss"] == row["box_loss"] == 0 for row in rows)
    flags = [f"--dataset_dir={records}", "--dataset_name=shapes", "--dataset_split_name=train", f"--checkpoint_path={run}"]
    evaluate.main(parse(evaluate.Config, ["evaluate", *flags])[0])
    metrics = json.loads((run / "eval_train" / "metrics.json").read_text())
    assert metrics["mAP"] == {"voc2007": None, "voc2012": None, "coco": None, "coco50": None}
    assert list(metrics["classes"]) == ["class 1", "class 2"]


def test_a_broken_record_is_named_while_training(sample_records, tmp_path):
    records = tmp_path / "records"
    records.mkdir()
    good = next(iter(tf.data.TFRecordDataset(str(sample_records / "shapes_train_000.tfrecord")))).numpy()
    example = tf.train.Example.FromString(good)
    example.features.feature["image/encoded"].bytes_list.value[0] = b"no picture"
    with tf.io.TFRecordWriter(str(records / "shapes_train_000.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    (records / "shapes.json").write_bytes((sample_records / "shapes.json").read_bytes())
    name = example.features.feature["image/filename"].bytes_list.value[0].decode()
    with pytest.raises(UserError, match=f"^{name}: not a picture"):
        run_in_process(records, tmp_path / "run", "--max_number_of_steps=1")


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--learning_rate_boundaries=100,50", "--learning_rate_boundaries=100,50"),
        ("--train_dir=", "--train_dir must be given"),
        ("--preprocessing_name=seed", "--recipe=none and --preprocessing_name=seed"),
        ("--train_image_size=300", "ssd_tiny takes pictures of 160 only"),
        ("--dataset_split_name=test", r"shapes_test_\*.tfrecord"),
        ("--dataset_name=other", r"other_train_\*.tfrecord"),
        ("--num_classes=2", "--num_classes=2"),
        ("--labels_offset=1", "label 0 is not within 1 to 3"),
        ("--trainable_scopes=ssd_tiny/nothing", "ssd_tiny/nothing"),
        ("--checkpoint_path=/no/where", "/no/where"),
        ("--model_name=ssd_huge", "model_name"),
        ("--patience=2", "--patience=2 needs --eval_every_steps"),
    ],
)
def test_mistakes_are_named(sample_records, tmp_path, flag, named):
    with pytest.raises(UserError, match=named):
        run_in_process(sample_records, tmp_path / "run", flag, "--max_number_of_steps=1", "--recipe=none")


@pytest.mark.parametrize("recipe", ["demo", "ssd_seed", "ssd_paper_voc0712"])
def test_recipes_train(recipe, sample_records, tmp_path):
    flags = (f"--flagfile={ROOT / 'recipes' / recipe}.flags", "--max_number_of_steps=2", *FLAGS)
    train.main(parse(train.Config, ["train", f"--dataset_dir={sample_records}", f"--train_dir={tmp_path}", *flags])[0])
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert all(np.isfinite(row["loss"]) for row in rows)


def test_evaluation_while_training(sample_records, tmp_path, capsys):
    """It says what ssd.evaluate says of the same checkpoint, moves no weight, and its best checkpoint is what is used."""
    flags = ("--max_number_of_steps=4", "--moving_average_decay=0.5", "--learning_rate=0.02", "--warmup_steps=0")
    run_in_process(sample_records, tmp_path / "without", *flags)
    run_in_process(sample_records, tmp_path / "with", *flags, "--eval_every_steps=2")
    told = capsys.readouterr().err
    rows = [json.loads(line) for line in (tmp_path / "with" / "metrics.jsonl").read_text().splitlines()]
    evaluated = {row["step"]: row for row in rows if "mAP/voc2012" in row}
    assert list(evaluated) == [2, 4]
    best = json.loads((tmp_path / "with" / "best" / "best.json").read_text())
    assert best["value"] == max(row["mAP/voc2012"] for row in evaluated.values())
    assert f"step {best['step']}: mAP/voc2012 = {best['value']:.4f} on val; the best so far" in told
    plain, with_evaluations = (StoredWeights(str(tmp_path / run / "model.ckpt-4")) for run in ("without", "with"))
    for name in plain.shapes:
        np.testing.assert_array_equal(plain.read(name), with_evaluations.read(name), err_msg=name)
    flags = (f"--dataset_dir={sample_records}", f"--checkpoint_path={tmp_path / 'with'}", "--dataset_split_name=val")
    evaluate.main(parse(evaluate.Config, ["evaluate", *flags])[0])
    metrics = json.loads((tmp_path / "with" / "best" / "eval_val" / "metrics.json").read_text())
    assert {f"mAP/{kind}": value for kind, value in metrics["mAP"].items()} == pytest.approx(
        {name: value for name, value in evaluated[best["step"]].items() if name != "step"}, abs=1e-6
    )
    assert metrics["mAP"]["voc2012"] > 0
    for path in (tmp_path / "with").glob("model.ckpt-*"):
        path.unlink()
    with pytest.raises(UserError, match="only the best one of an earlier run in .*best: move that elsewhere"):
        run_in_process(sample_records, tmp_path / "with", "--max_number_of_steps=5")
