import pytest

from tools.benchmarks.evaluate import benchmark_evaluate, made_up_results


@pytest.mark.slow
def test_our_numbers_take_less_time_than_pycocotools():
    seconds = benchmark_evaluate(pictures=50, detections=100, classes=3)
    assert 0 < seconds["voc"] < seconds["coco"]


def test_made_up_results_have_the_size_asked_for():
    found, objects = made_up_results(pictures=7, detections=11, classes=3, seed=0)
    assert found.boxes.shape == (77, 4)
    assert set(found.images) == set(objects.images) == set(range(7))
    assert set(found.labels) == {1, 2, 3}
    assert (objects.boxes[:, :2] < objects.boxes[:, 2:]).all()
