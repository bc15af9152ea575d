"""Trainings of minutes to an hour that show that the pipeline learns; `make slow` runs them."""

import json

import pytest

from engine.flags import parse
from ssd import evaluate, train
from tests.conftest import ROOT, run_command
from tests.tools.test_pascalvoc_to_tfrecords import BCCD

pytestmark = pytest.mark.slow


@pytest.mark.skipif(BCCD is None, reason="the blood-cell pictures are not here")
def test_ssd_300_vgg_learns_four_pictures_by_heart_from_scratch(tmp_path):
    voc = tmp_path / "voc"
    (voc / "ImageSets" / "Main").mkdir(parents=True)
    for name in ("JPEGImages", "Annotations"):
        (voc / name).symlink_to(BCCD / name)
    names = "".join(f"BloodImage_0000{number}\n" for number in (3, 4, 5, 6))
    (voc / "ImageSets" / "Main" / "train.txt").write_text(names)
    done = run_command(
        "tools/pascalvoc_to_tfrecords.py", f"--dataset_dir={voc}", f"--output_dir={tmp_path}", "--output_name=four"
    )
    assert done.returncode == 0, done.stderr
    flags = [
        f"--flagfile={ROOT / 'recipes' / 'by_heart.flags'}",
        f"--dataset_dir={tmp_path}",
        f"--train_dir={tmp_path / 'run'}",
    ]
    train.main(parse(train.Config, ["train", *flags])[0])
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < 0.2 * losses[0]
    flags = [f"--dataset_dir={tmp_path}", f"--checkpoint_path={tmp_path / 'run'}", "--dataset_split_name=train"]
    evaluate.main(parse(evaluate.Config, ["evaluate", *flags])[0])
    metrics = json.loads((tmp_path / "run" / "eval_train" / "metrics.json").read_text())
    assert metrics["mAP"]["coco50"] > 0.9


def test_the_demo_reaches_its_mean_average_precision(tmp_path):
    commands = (
        ("tools/make_sample_voc.py", f"--output_dir={tmp_path}/voc"),
        (
            "tools/pascalvoc_to_tfrecords.py",
            f"--dataset_dir={tmp_path}/voc",
            f"--output_dir={tmp_path}",
            "--output_name=shapes",
        ),
        ("-m", "ssd.train", "--flagfile=recipes/demo.flags", f"--dataset_dir={tmp_path}", f"--train_dir={tmp_path}/run"),
        ("-m", "ssd.evaluate", f"--checkpoint_path={tmp_path}/run", f"--dataset_dir={tmp_path}", "--dataset_split_name=val"),
    )
    for command in commands:
        done = run_command(*command, timeout=3600)
        assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "eval_val" / "metrics.json").read_text())
    assert metrics["mAP"]["voc2012"] >= 0.85
