"""How anchors cover objects: a picture of four quarters by hand, everything else against the literal oracle."""

import numpy as np
import pytest

from ssd import coverage
from ssd.anchors import AnchorLayer, AnchorSpec, make_anchors
from ssd.nets import tiny
from tests import oracles

# One anchor for each quarter of the picture.
QUARTERS = AnchorSpec(100, (AnchorLayer(2, 50, ((50, 50),)),))
QUARTER, LEFT_HALF, WHOLE, SMALL = [0, 0, 0.5, 0.5], [0, 0, 1, 0.5], [0, 0, 1, 1], [0, 0, 0.25, 0.25]


def measure(spec, boxes, pictures):
    return coverage.measure(spec, np.array(boxes, np.float32).reshape(-1, 4), np.array(pictures, np.int64), 0.5)


def random_boxes(rng, count):
    corners = rng.uniform(-0.1, 0.9, (count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.6, (count, 2))], axis=1).astype(np.float32)
    return np.clip(boxes, 0, 1)


def test_quarters_by_hand():
    found = measure(QUARTERS, [QUARTER, LEFT_HALF, WHOLE, SMALL], [0, 0, 0, 0])
    np.testing.assert_allclose(found.best_ious, [1, 0.5, 0.25, 0.25], atol=1e-7)
    assert found.uncovered.tolist() == [False, False, True, True]
    assert found.num_near == 2  # the quarter's anchor is one of the two of the left half
    assert found.num_positives(every_object=False) == 2
    assert found.num_positives(every_object=True) == 4
    assert found.is_poor()


def test_an_anchor_counts_once_in_each_picture():
    assert measure(QUARTERS, [QUARTER, LEFT_HALF, QUARTER, QUARTER], [0, 1, 1, 2]).num_near == 1 + 2 + 1
    assert not measure(QUARTERS, [QUARTER], [7]).is_poor()


def test_no_objects():
    found = measure(QUARTERS, [], [])
    assert found.best_ious.shape == found.uncovered.shape == (0,)
    assert found.num_positives(every_object=True) == 0
    assert not found.is_poor()


@pytest.mark.parametrize("count", [1, 6])
def test_one_picture_against_the_oracle(count):
    boxes = random_boxes(np.random.default_rng(count), count)
    best, near = oracles.coverage(boxes, make_anchors(tiny.ANCHORS), 0.5)
    found = measure(tiny.ANCHORS, boxes, [0] * count)
    np.testing.assert_allclose(found.best_ious, best, rtol=1e-5)
    assert found.num_near == near > 0


def test_many_pictures_are_the_sum_of_each():
    """Over the places where they are taken apart for their memory, with pictures without objects between."""
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, 250)
    boxes, pictures = random_boxes(rng, counts.sum()), np.repeat(np.arange(250), counts)
    single = [measure(tiny.ANCHORS, boxes[pictures == number], [0] * count) for number, count in enumerate(counts)]
    found = measure(tiny.ANCHORS, boxes, pictures)
    assert found.num_near == sum(one.num_near for one in single)
    np.testing.assert_array_equal(found.best_ious, np.concatenate([one.best_ious for one in single]))


def test_positives_are_those_that_encoding_makes():
    """Three objects that contend for no anchor, one of them too small for any."""
    boxes = np.array([[0.1, 0.1, 0.3, 0.25], [0.5, 0.4, 0.95, 0.9], [0.9, 0.02, 0.93, 0.05]], np.float32)
    found = measure(tiny.ANCHORS, boxes, [0, 0, 0])
    for matching in ("bipartite", "argmax"):
        labels, _, _ = oracles.encode(boxes, np.array([1, 2, 3]), make_anchors(tiny.ANCHORS), matching, 0.5)
        assert found.num_positives(every_object=matching == "bipartite") == np.count_nonzero(labels)
    assert found.uncovered.tolist() == [False, False, True]


def test_a_sample_of_pictures():
    np.testing.assert_array_equal(coverage.sample_pictures(1), [0])
    np.testing.assert_array_equal(coverage.sample_pictures(2000), np.arange(2000))
    numbers = coverage.sample_pictures(100_000)
    assert len(np.unique(numbers)) == 2000
    assert (numbers[0], numbers[-1]) == (0, 99_999)
    assert set(np.diff(numbers)) == {50, 51}


def test_what_is_told():
    def told(boxes, **counts):
        found = measure(QUARTERS, boxes, [0] * len(boxes))
        return coverage.describe(found, "voc", threshold=0.5, every_object=True, **counts)

    assert told([QUARTER, LEFT_HALF, WHOLE], measured=2, num_pictures=2) == (
        "anchors: 33.3 % of 3 objects have no anchor at IoU .5 in the set voc; 1.5 positives a picture"
    )
    assert told([QUARTER], measured=2000, num_pictures=16551).endswith(" (2,000 of 16,551 pictures looked at)")
    assert told([], measured=4, num_pictures=4) == "anchors: there are no objects for the set voc"
