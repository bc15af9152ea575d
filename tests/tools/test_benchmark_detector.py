import pytest

from tools.benchmarks import detector, detector_input


@pytest.mark.parametrize(
    ("measure", "figures"),
    [
        (lambda: detector.benchmark_forward("ssd_tiny", 2), {"forward"}),
        (lambda: detector.benchmark_detect("ssd_tiny", 2), {"detect_1", "detect_2"}),
        (lambda: detector.benchmark_step("ssd_tiny", 2, "auto"), {"step", "first_step", "peak_mib"}),
        (lambda: detector_input.benchmark_encode("ssd_tiny"), {"encode_2", "encode_10", "encode_50"}),
        (lambda: detector_input.benchmark_augment("paper", 160), {"augment"}),
    ],
)
def test_figures(measure, figures):
    found = measure()
    assert found.keys() == figures
    assert all(value > 0 for value in found.values())


def test_the_whole_pipeline_on_made_up_records():
    rates = detector_input.benchmark_input("ssd_tiny", "none", 2, pictures=40)
    assert rates.keys() == {"input"}
    assert rates["input"] > 0
