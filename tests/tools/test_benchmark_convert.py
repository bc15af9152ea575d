import json
import subprocess
import sys

from tests.tools.voc_folder import ROOT
from tools.benchmarks.convert import benchmark_convert, make_data_set


def test_command_prints_json():
    argv = [sys.executable, "tools/benchmark.py", "convert", "--pictures=3", "--workers=1", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    figures = json.loads(done.stdout)
    assert figures["ratio"] == figures["convert"] / figures["decode"] > 0


def test_figures_are_of_the_size_asked_for():
    assert set(benchmark_convert(pictures=2, workers=1)) == {"decode", "convert", "ratio"}


def test_pictures_are_of_the_size_of_photographs(tmp_path):
    make_data_set(tmp_path, 4)
    sizes = [path.stat().st_size for path in (tmp_path / "JPEGImages").iterdir()]
    assert len(sizes) == 4
    assert all(80_000 <= size <= 150_000 for size in sizes)
