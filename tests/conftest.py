"""Sample data made once for the whole run: pictures, VOC XML and records, all by the real tools."""

import subprocess
import sys
from pathlib import Path

import pytest

import engine  # noqa: F401  before any test imports TensorFlow, as in the commands: it decides which kernels are used

ROOT = Path(__file__).parents[1]


def run_command(*argv, timeout=300, **kwargs):
    """Runs a command of the project as a user would; returns the finished process with its output as text."""
    command = [sys.executable, *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout, **kwargs)


@pytest.fixture(scope="session")
def sample_voc(tmp_path_factory):
    """A VOC folder with 24 + 7 made-up pictures."""
    folder = tmp_path_factory.mktemp("sample") / "voc"
    done = run_command("tools/make_sample_voc.py", f"--output_dir={folder}", "--train=24", "--val=7")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def sample_records(sample_voc):
    """Its records, `shapes_train_*.tfrecord` and `shapes_val_*.tfrecord`."""
    folder = sample_voc.parent / "records"
    done = run_command(
        "tools/pascalvoc_to_tfrecords.py", f"--dataset_dir={sample_voc}", f"--output_dir={folder}", "--output_name=shapes"
    )
    assert done.returncode == 0, done.stderr
    return folder
