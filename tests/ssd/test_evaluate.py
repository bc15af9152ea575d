"""Evaluation: ground truth in, 1.0 out; and a net that has learned four pictures by heart finds what is in them."""

import json

import numpy as np
import pytest

from engine.flags import parse
from ssd import dataset, evaluate, evaluation, report, train


def test_ground_truth_as_detections_is_perfect(sample_records):
    split = dataset.open_split(str(sample_records), "shapes", "train")
    results = report.Results()
    for number in range(len(split.records)):
        truth = split.parse(number, num_classes=4)
        evaluation.add(results, truth, truth.boxes, np.ones(len(truth.labels)), truth.labels)
    metrics = report.compute_metrics(results, split.class_names)
    assert metrics["images"] == 24
    for row in (metrics["mAP"], *metrics["classes"].values()):
        assert [row[kind] for kind in ("voc2007", "voc2012", "coco", "coco50")] == [1.0] * 4


@pytest.fixture(scope="module")
def four_pictures(sample_records, tmp_path_factory):
    """The records of four pictures, as a split of their own."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("four")
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(sample_records / "shapes_train_000.tfrecord"))]
    with_objects = [record for record in records if dataset.parse_record(record, number=0, num_classes=4).labels.size >= 2]
    with tf.io.TFRecordWriter(str(folder / "four_train_000.tfrecord")) as writer:
        for record in with_objects[:4]:
            writer.write(record)
    names = json.loads((sample_records / "shapes.json").read_text())["class_names"]
    (folder / "four.json").write_text(json.dumps({"class_names": names}))
    return folder


def test_four_pictures_are_learned_by_heart(four_pictures, tmp_path, capsys):
    flags = [
        "--model_name=ssd_tiny",
        "--recipe=none",
        "--batch_size=4",
        "--optimizer=adam",
        "--learning_rate=0.003",
        "--warmup_steps=10",
        "--max_number_of_steps=120",
        "--weight_decay=0",
    ]
    train.main(parse(train.Config, ["train", f"--dataset_dir={four_pictures}", f"--train_dir={tmp_path}", *flags])[0])
    losses = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < 0.2 * losses[0]
    argv = ["evaluate", f"--dataset_dir={four_pictures}", f"--checkpoint_path={tmp_path}", "--dataset_split_name=train"]
    evaluate.main(parse(evaluate.Config, argv)[0])
    metrics = json.loads((tmp_path / "eval_train" / "metrics.json").read_text())
    assert metrics["mAP"]["voc2012"] > 0.9
    assert "mAP@0.5 = " in capsys.readouterr().out
