"""Colour ops: uint8 against slow literal pixels, float against `tf.image`."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from engine.augmentation import colour_float
from engine.augmentation.ops import keyed_generator, run_in_order
from ssd.preprocessing import colour_uint8
from ssd.preprocessing.paper import paper
from ssd.preprocessing.seed import seed
from tests.oracles import photometric_pixel

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (1, 400, 3), np.uint8)
EXTREMES = np.array(
    [[[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 1], [128, 128, 128]]], np.uint8
)
IMAGE = np.concatenate([PIXELS, EXTREMES], axis=1)


class FixedDraw:
    """Stands where a generator does and draws the value it was given, noting the range asked for."""

    def __init__(self, value: float):
        self.value = value

    def uniform(self, low: float, high: float) -> float:
        self.range = (low, high)
        return self.value


UINT8_OPS = {
    "brightness": partial(colour_uint8.shift_brightness, max_delta=32),
    "contrast": partial(colour_uint8.scale_contrast, low=0.5, high=1.5),
    "saturation": partial(colour_uint8.scale_saturation, low=0.5, high=1.5),
    "hue": partial(colour_uint8.shift_hue, max_delta=18),
}
AMOUNTS = {"brightness": (-32, -7.3, 32), "contrast": (0.5, 0.87, 1.5), "saturation": (0.5, 1.13, 1.5), "hue": (-18, -5.2, 18)}


@pytest.mark.parametrize("kind", UINT8_OPS)
def test_uint8_ops_equal_the_literal_ones(kind):
    for amount in AMOUNTS[kind]:
        out = UINT8_OPS[kind]({"image": IMAGE}, FixedDraw(amount))["image"]
        expected = np.array([photometric_pixel(pixel, kind, amount) for pixel in IMAGE[0]])
        assert out.dtype == np.uint8
        # OpenCV divides by table on its way to HSV, which can move the hue by one step: two degrees, 255 / 30 levels.
        most, mean = (0, 0) if kind in ("brightness", "contrast") else (10, 0.6)
        assert abs(out[0] - expected).max() <= most, amount
        assert abs(out[0] - expected).mean() <= mean, amount


def test_uint8_ops_draw_from_the_papers_ranges():
    expected = {"brightness": (-32, 32), "contrast": (0.5, 1.5), "saturation": (0.5, 1.5), "hue": (-18, 18)}
    for kind, op in UINT8_OPS.items():
        draw = FixedDraw(1)
        op({"image": IMAGE}, draw)
        assert draw.range == expected[kind]


def test_hue_saturates_at_red_and_goes_on_beyond_180():
    orange, crimson = [255, 64, 0], [255, 0, 64]  # hues 8 and 172 on OpenCV's scale
    image = np.array([[orange, crimson]], np.uint8)
    down = UINT8_OPS["hue"]({"image": image}, FixedDraw(-18))["image"][0]
    up = UINT8_OPS["hue"]({"image": image}, FixedDraw(18))["image"][0]
    np.testing.assert_allclose(down[0], [255, 0, 0], atol=1)
    np.testing.assert_allclose(up[1], [255, 85, 0], atol=5)


def test_the_papers_colours_change_in_both_orders_and_half_of_the_time_each():
    colours = paper(300)[4]
    grey = np.full((1, 1, 3), 128, np.uint8)  # no hue and no saturation: only brightness and contrast change it
    levels = np.array([colours({"image": grey}, keyed_generator(0, 0, i))["image"][0, 0, 0] for i in range(2000)])
    assert np.mean(levels == 128) == pytest.approx(0.25, abs=0.04)
    assert levels.min() < 64  # (128 - 32) * .5 = 48
    assert levels.max() > 220  # (128 + 32) * 1.5 = 240
    assert 48 <= levels.min() <= levels.max() <= 240


PAPER_ORDERS = (("brightness", "contrast", "saturation", "hue"), ("brightness", "saturation", "hue", "contrast"))
PAPER_RANGES = {"brightness": (-32, 32), "contrast": (0.5, 1.5), "saturation": (0.5, 1.5), "hue": (-18, 18)}


def test_the_papers_colours_equal_a_literal_replay():
    colours = paper(300)[4]
    for example in range(40):
        out = colours({"image": IMAGE}, keyed_generator(0, 0, example))["image"]
        rng = keyed_generator(0, 0, example)
        pixels = IMAGE[0]
        for kind in PAPER_ORDERS[rng.integers(2)]:
            if rng.random() < 0.5:
                amount = rng.uniform(*PAPER_RANGES[kind])
                pixels = np.rint([photometric_pixel(pixel, kind, amount) for pixel in pixels])
        assert abs(out[0] - pixels).mean() < 1.5, example


FLOATS = RNG.uniform(-0.3, 1.4, (20, 30, 3)).astype(np.float32)
FLOATS[0, :4] = [[0, 0, 0], [1, 1, 1], [-0.2, -0.1, -0.1], [1, 0, 0]]


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 1.5])
def test_float_saturation_equals_tensorflows(factor):
    out = colour_float.scale_saturation(FLOATS, factor)
    np.testing.assert_allclose(out, tf.image.adjust_saturation(FLOATS, factor), atol=2e-5)


@pytest.mark.parametrize("turns", [-0.2, -0.03, 0.0, 0.11, 0.2])
def test_float_hue_equals_tensorflows(turns):
    out = colour_float.rotate_hue(FLOATS, turns)
    np.testing.assert_allclose(out, tf.image.adjust_hue(FLOATS, turns), atol=2e-5)


def test_float_brightness_and_contrast_equal_tensorflows():
    brighter = colour_float.jitter_brightness({"image": FLOATS}, FixedDraw(0.1), max_delta=32 / 255)["image"]
    np.testing.assert_allclose(brighter, tf.image.adjust_brightness(FLOATS, 0.1), atol=1e-6)
    flatter = colour_float.jitter_contrast({"image": FLOATS}, FixedDraw(0.6), low=0.5, high=1.5)["image"]
    np.testing.assert_allclose(flatter, tf.image.adjust_contrast(FLOATS, 0.6), atol=1e-5)


SEED_ORDERS = (
    ("brightness", "saturation", "hue", "contrast"),
    ("saturation", "brightness", "contrast", "hue"),
    ("contrast", "hue", "brightness", "saturation"),
    ("hue", "saturation", "contrast", "brightness"),
)
SEED_RANGES = {"brightness": (-32 / 255, 32 / 255), "saturation": (0.5, 1.5), "hue": (-0.2, 0.2), "contrast": (0.5, 1.5)}
TF_OPS = {
    "brightness": tf.image.adjust_brightness,
    "saturation": tf.image.adjust_saturation,
    "hue": tf.image.adjust_hue,
    "contrast": tf.image.adjust_contrast,
}


def test_the_seeds_colours_equal_tensorflows():
    orders = set()
    for example in range(40):
        sample = {"image": IMAGE}
        out = run_in_order(seed(300)[4:], sample, keyed_generator(0, 0, example))["image"]
        rng = keyed_generator(0, 0, example)
        expected, order = tf.constant(IMAGE / np.float32(255)), rng.integers(4)
        for kind in SEED_ORDERS[order]:
            expected = TF_OPS[kind](expected, rng.uniform(*SEED_RANGES[kind]))
        assert abs(out - 255 * np.clip(expected, 0, 1)).max() < 0.51, example
        orders.add(int(order))
    assert orders == {0, 1, 2, 3}


def test_uint8_to_float_and_back_is_exact():
    there = colour_float.to_unit_range({"image": IMAGE}, RNG)
    assert there["image"].dtype == np.float32
    assert there["image"].max() <= 1
    np.testing.assert_array_equal(colour_float.to_uint8(there, RNG)["image"], IMAGE)
    beyond = np.array([[[-0.5, 0.5, 1.5]]], np.float32)
    np.testing.assert_array_equal(colour_float.to_uint8({"image": beyond}, RNG)["image"], [[[0, 128, 255]]])
