import json

from tests.conftest import run_command


def test_rates_are_printed_as_json():
    done = run_command("tools/benchmark.py", "classify", "--classifier_batch_size=4", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures.keys() == {"batch_in_memory", "input_pipeline", "input_alone", "ratio", "matmul_gflops"}
    assert all(value > 0 for value in figures.values())
