"""The two patch samplers against their literal rules."""

import numpy as np
import pytest
import tensorflow as tf

from engine.augmentation.ops import keyed_generator
from ssd.preprocessing.paper import IOU_RANGES, paper
from ssd.preprocessing.patches import (
    centre_inside,
    draw_patches,
    draw_patches_by_area,
    fraction_inside,
    pairwise_iou,
    sample_covering_patch,
    sample_patch,
)
from ssd.preprocessing.seed import seed
from tests.oracles import area_of, objects_by_centre, overlap_of, patch_is_good

HEIGHT, WIDTH = 300, 400
WHOLE = (0, 0, HEIGHT, WIDTH)
PIXEL_BOXES = np.array([[20.3, 30, 120, 200.6], [150, 220.1, 290.7, 390], [5, 350.2, 15.4, 362]])


def sample_of(pixel_boxes: np.ndarray) -> dict[str, np.ndarray]:
    boxes = (np.reshape(pixel_boxes, (-1, 4)) / (HEIGHT, WIDTH, HEIGHT, WIDTH)).astype(np.float32)
    return {"image": np.zeros((HEIGHT, WIDTH, 3), np.uint8), "boxes": boxes, "labels": np.arange(len(boxes))}


PAPER_PATCH, SEED_PATCH = paper(300)[2], seed(300)[0]


def run_sampler(sample: dict, example: int, iou_ranges: tuple = IOU_RANGES) -> dict:
    return PAPER_PATCH(sample, keyed_generator(0, 0, example), iou_ranges=iou_ranges)


def test_the_recipes_hold_the_published_numbers():
    ranges = ((0.1, 1), (0.3, 1), (0.5, 1), (0.7, 1), (0.9, 1), (0, 1))
    assert PAPER_PATCH.func is sample_patch
    assert PAPER_PATCH.keywords == {"iou_ranges": ranges, "trials": 50, "scale": (0.3, 1), "aspect": (0.5, 2)}
    assert SEED_PATCH.func is sample_covering_patch
    numbers = {"min_covered": 0.25, "aspect": (0.6, 1.67), "area": (0.1, 1), "attempts": 200, "min_inside": 0.5}
    assert SEED_PATCH.keywords == numbers


@pytest.mark.parametrize("iou_range", [(0.1, 1), (0.5, 1), (0.7, 1), (0.2, 0.3)])
def test_a_patch_meets_its_sampler(iou_range):
    patches = [run_sampler(sample_of(PIXEL_BOXES), i, (iou_range,))["window"] for i in range(200)]
    chosen = [patch for patch in patches if patch != WHOLE]
    assert len(chosen) > 10
    assert all(patch_is_good(patch, PIXEL_BOXES, *iou_range) for patch in chosen)


def test_a_sampler_takes_its_first_good_trial():
    sample = sample_of(PIXEL_BOXES)
    for example in range(50):
        rng = keyed_generator(0, 0, example)
        trials = draw_patches(rng, np.array(WHOLE), 50, (0.3, 1), (0.5, 2))
        first = next((tuple(t) for t in trials.tolist() if patch_is_good(t, PIXEL_BOXES, 0.3, 1)), WHOLE)
        assert run_sampler(sample, example, ((0.3, 1),))["window"] in (first, WHOLE)


def test_objects_stay_by_their_centre_and_are_clipped():
    for example in range(300):
        out = run_sampler(sample_of(PIXEL_BOXES), example)
        expected = objects_by_centre(PIXEL_BOXES, out["window"])
        assert out["labels"].tolist() == [index for index, _ in expected]
        np.testing.assert_allclose(out["boxes"], np.reshape([box for _, box in expected], (-1, 4)), atol=1e-5)


def test_the_whole_image_and_six_patches_are_equally_likely():
    always = ((0, 1),) * 6
    whole = sum(run_sampler(sample_of(PIXEL_BOXES), i, always)["window"] == WHOLE for i in range(2100))
    assert whole == pytest.approx(300, abs=55)  # 3.4 standard deviations


def test_samplers_that_failed_drop_out():
    impossible, always = (1.5, 2), (0, 1)
    whole = sum(run_sampler(sample_of(PIXEL_BOXES), i, (impossible,) * 5 + (always,))["window"] == WHOLE for i in range(1000))
    assert whole == pytest.approx(500, abs=60)
    assert all(run_sampler(sample_of(PIXEL_BOXES), i, (impossible,))["window"] == WHOLE for i in range(20))


def test_without_objects_there_is_only_the_whole_image():
    outs = [run_sampler(sample_of(np.zeros((0, 4))), i) for i in range(50)]
    assert all(out["window"] == WHOLE for out in outs)
    assert all(out["boxes"].shape == (0, 4) for out in outs)


def test_the_last_sampler_may_show_nothing_of_any_object():
    tiny = np.array([[140, 190, 150, 200]])
    counts = [len(run_sampler(sample_of(tiny), i)["boxes"]) for i in range(200)]
    assert set(counts) == {0, 1}


def test_patches_have_the_papers_sizes_and_lie_anywhere():
    window = np.array([-1000, -500, 3000, 5500])  # large, so that whole pixels do not matter
    patches = draw_patches(keyed_generator(0, 0, 0), window, 20000, (0.3, 1), (0.5, 2))
    assert (patches[:, :2] >= window[:2]).all()
    assert (patches[:, 2:] <= window[2:]).all()
    height, width = ((patches[:, 2:] - patches[:, :2]) / (4000, 6000)).T
    scale, ratio = np.sqrt(height * width), width / height
    assert scale.min() == pytest.approx(0.3, abs=0.002)
    assert scale.mean() == pytest.approx(0.65, abs=0.005)
    assert (ratio >= np.maximum(0.5, scale**2) - 0.005).all()
    assert (ratio <= np.minimum(2, scale**-2) + 0.005).all()
    small = scale < 0.5
    assert ratio[small].mean() == pytest.approx(1.25, abs=0.02)  # U(.5, 2): uniform in the ratio, not in its logarithm
    room = 6000 - (patches[:, 3] - patches[:, 1])
    share = (patches[:, 1] - window[1])[room > 500] / room[room > 500]
    assert share.mean() == pytest.approx(0.5, abs=0.01)


def test_patches_of_a_one_pixel_picture_are_that_pixel():
    patches = draw_patches(keyed_generator(0, 0, 0), np.array([0, 0, 1, 1]), 50, (0.3, 1), (0.5, 2))
    assert (patches == [0, 0, 1, 1]).all()
    patches = draw_patches_by_area(keyed_generator(0, 0, 0), np.array([0, 0, 1, 1]), 50, (0.6, 1.67), (0.1, 1))
    assert (patches == [0, 0, 1, 1]).all()


def test_overlaps_equal_the_literal_ones():
    rng = np.random.default_rng(0)
    first, second = (np.concatenate([c, c + rng.uniform(1, 60, (40, 2))], axis=1) for c in rng.uniform(0, 60, (2, 40, 2)))
    shared = np.array([[overlap_of(a, b) for b in second] for a in first])
    areas = [np.array([area_of(box) for box in boxes]) for boxes in (first, second)]
    np.testing.assert_allclose(fraction_inside(second, first), shared / areas[1])
    np.testing.assert_allclose(pairwise_iou(first, second), shared / (areas[0][:, None] + areas[1] - shared))
    assert (shared == 0).any()


def test_centre_on_the_border_is_inside():
    boxes = np.array([[0, 0, 20, 20], [0, 0, 20, 20.1], [5, 5, 5, 9]], float)  # the last one has no area
    assert centre_inside(boxes, np.array([0, 0, 10, 10])).tolist() == [True, False, False]
    assert centre_inside(boxes, np.array([10, 10, 30, 30])).tolist() == [True, True, False]


def run_covering(sample: dict, example: int, attempts: int = 200) -> dict:
    return SEED_PATCH(sample, keyed_generator(0, 0, example), attempts=attempts)


def test_covering_patch_meets_its_limits():
    for example in range(300):
        out = run_covering(sample_of(PIXEL_BOXES), example)
        patch = out["window"]
        height, width = patch[2] - patch[0], patch[3] - patch[1]
        assert 0 <= patch[0] < patch[2] <= HEIGHT
        assert 0 <= patch[1] < patch[3] <= WIDTH
        assert 0.1 <= height * width / (HEIGHT * WIDTH) <= 1
        assert 0.6 - 0.01 <= width / height <= 1.67 + 0.01
        covered = [overlap_of(patch, box) / area_of(box) for box in PIXEL_BOXES]
        assert max(covered) >= 0.25
        assert out["labels"].tolist() == [index for index, part in enumerate(covered) if part > 0.5]


def test_covering_patch_falls_back_on_the_whole_image():
    assert run_covering(sample_of(PIXEL_BOXES), 0, attempts=0)["window"] == WHOLE
    wide = {"image": np.zeros((10, 400, 3), np.uint8), "boxes": np.array([[0, 0, 1, 1]], np.float32)}
    assert run_covering(wide, 0)["window"] == (0, 0, 10, 400)  # no tenth of it has the aspect ratio


def test_covering_patch_without_objects_covers_a_quarter_of_the_image():
    patches = [run_covering(sample_of(np.zeros((0, 4))), i)["window"] for i in range(200)]
    shares = [area_of(patch) / area_of(WHOLE) for patch in patches]
    assert min(shares) >= 0.25
    assert max(shares) < 1


def tensorflows_patch(example: int) -> list[int]:
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        [HEIGHT, WIDTH, 3],
        tf.zeros([1, 0, 4]),
        seed=[0, example],
        min_object_covered=0.25,
        aspect_ratio_range=(0.6, 1.67),
        area_range=(0.1, 1),
        max_attempts=200,
        use_image_if_no_bounding_boxes=True,
    )
    top_left = begin.numpy()[:2]
    return [*top_left, *(top_left + size.numpy()[:2])]


def test_covering_patches_are_spread_like_tensorflows():
    ours = np.array([run_covering(sample_of(np.zeros((0, 4))), i)["window"] for i in range(1500)])
    theirs = np.array([tensorflows_patch(i) for i in range(1500)])
    for statistic in (np.mean, np.std):  # of ymin, xmin, ymax, xmax; three standard errors of a mean are about 7 pixels
        np.testing.assert_allclose(statistic(ours, axis=0), statistic(theirs, axis=0), atol=8)
