"""Window, zoom out, crop, resize, flip: boxes and pixels move together."""

from functools import partial

import cv2
import numpy as np
import pytest

from engine.augmentation.ops import keyed_generator, maybe, one_of, run_in_order
from ssd.preprocessing.geometry import CANVAS_RGB, crop, expand, flip, look_through, render, resize, shrink, window_of
from ssd.preprocessing.paper import INTERPOLATIONS, paper
from ssd.preprocessing.seed import seed
from tests.oracles import zoomed_crop

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (60, 80, 3), np.uint8)


def sample_of(image: np.ndarray, *boxes: tuple) -> dict[str, np.ndarray]:
    return {"image": image, "boxes": np.array(boxes, np.float32).reshape(-1, 4), "labels": np.arange(len(boxes))}


WINDOWS = {
    "whole": (0, 0, 60, 80),
    "inside": (7, 11, 44, 53),
    "around": (-31, -50, 139, 200),
    "across a corner": (-20, 40, 33, 130),
    "one pixel of the image": (59, 79, 120, 160),
    "one pixel": (5, 5, 6, 6),
    "beside the image": (60, 0, 90, 50),
    "far off": (-100, 200, -50, 260),
}


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_rendering_equals_paste_crop_resize(window, interpolation):
    expected = zoomed_crop(NOISE, window, 48, interpolation, CANVAS_RGB)
    np.testing.assert_array_equal(render(NOISE, window, 48, interpolation), expected)
    cropped = crop(sample_of(NOISE) | {"window": window}, RNG)
    np.testing.assert_array_equal(render(cropped["image"], cropped["window"], 48, interpolation), expected)


def test_crop_keeps_no_more_pixels_than_the_window_shows():
    cropped = crop(sample_of(NOISE) | {"window": (-20, 40, 33, 130)}, RNG)
    np.testing.assert_array_equal(cropped["image"], NOISE[:33, 40:])
    assert cropped["window"] == (-20, 0, 33, 90)


def test_a_box_through_a_window_by_hand():
    sample = sample_of(NOISE, (0.5, 0.25, 0.75, 0.5))  # pixels 30..45, 20..40
    seen = look_through(sample, (-60, 0, 60, 40))
    np.testing.assert_allclose(seen["boxes"], [[90 / 120, 0.5, 105 / 120, 1]], rtol=1e-6)
    again = look_through(seen, (0, 0, 60, 80))
    np.testing.assert_allclose(again["boxes"], sample["boxes"], rtol=1e-6)


def test_a_box_is_clipped_and_unwanted_rows_go():
    sample = sample_of(NOISE, (0, 0, 1, 1), (0.5, 0.5, 0.6, 0.6)) | {"name": np.array("a"), "points": np.zeros((2, 5))}
    seen = look_through(sample, (30, 40, 60, 80), keep=np.array([True, False]))
    np.testing.assert_array_equal(seen["boxes"], [[0, 0, 1, 1]])
    np.testing.assert_array_equal(seen["labels"], [0])
    assert seen["points"].shape == (1, 5)
    assert seen["name"] == "a"


def test_expand_draws_ratio_and_offsets_uniformly():
    sample = sample_of(NOISE, (0, 0, 1, 1))
    windows = np.array([expand(sample, keyed_generator(0, 0, i), max_ratio=4.0)["window"] for i in range(2000)])
    heights, widths = windows[:, 2] - windows[:, 0], windows[:, 3] - windows[:, 1]
    assert heights.min() >= 60
    assert heights.max() < 240
    assert abs(heights / 60 - widths / 80).max() < 1 / 60  # one ratio for both sides, whole pixels
    assert np.mean(heights / 60) == pytest.approx(2.5, abs=0.06)
    assert (windows[:, :2] <= 0).all()
    assert (windows[:, 2:] >= (60, 80)).all()
    room = heights > 90
    assert np.mean(-windows[room, 0] / (heights[room] - 60)) == pytest.approx(0.5, abs=0.03)


def test_expand_moves_the_box_with_the_image():
    out = expand(sample_of(NOISE, (0, 0, 1, 1)), keyed_generator(0, 0, 3), max_ratio=4.0)
    ymin, xmin, ymax, xmax = out["window"]
    height, width = ymax - ymin, xmax - xmin
    expected = [-ymin / height, -xmin / width, (60 - ymin) / height, (80 - xmin) / width]
    np.testing.assert_allclose(out["boxes"], [expected], rtol=1e-6)


def test_flip_by_hand_and_twice():
    sample = sample_of(NOISE, (0, 0, 1, 1), (0.1, 0.2, 0.3, 0.6), (0, 79 / 80, 1, 1), (0, 0, 1, 1 / 80))
    once = flip(sample, RNG)
    np.testing.assert_allclose(once["boxes"][1], [0.1, 0.4, 0.3, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(once["image"], NOISE[:, ::-1])
    assert once["boxes"].min() >= 0
    assert once["boxes"].max() <= 1
    twice = flip(once, RNG)
    np.testing.assert_allclose(twice["boxes"], sample["boxes"], atol=1e-6)
    np.testing.assert_array_equal(twice["image"], NOISE)
    assert flip(sample_of(NOISE), RNG)["boxes"].shape == (0, 4)


def test_shrink_only_what_is_too_large():
    assert shrink(sample_of(NOISE), RNG, longest_side=80)["image"] is NOISE
    small = shrink(sample_of(NOISE), RNG, longest_side=40)["image"]
    np.testing.assert_array_equal(small, cv2.resize(NOISE, (40, 30), interpolation=cv2.INTER_AREA))
    assert shrink(sample_of(np.zeros((1, 1000, 3), np.uint8)), RNG, longest_side=100)["image"].shape == (1, 100, 3)


def test_resize_picks_every_interpolation_and_forgets_the_window():
    sample = sample_of(NOISE) | {"window": (-5, -5, 70, 90)}
    expected = {render(NOISE, sample["window"], 24, interpolation).tobytes() for interpolation in INTERPOLATIONS}
    outs = [resize(sample, keyed_generator(0, 0, i), size=24, interpolations=INTERPOLATIONS) for i in range(60)]
    assert {out["image"].tobytes() for out in outs} == expected
    assert len(expected) == 5
    assert "window" not in outs[0]
    assert window_of(outs[0]) == (0, 0, 24, 24)


def test_maybe_keeps_its_probability():
    def mark(sample: dict, rng: np.random.Generator) -> dict:
        return sample | {"marked": True}

    rng = keyed_generator(1, 2, 3)
    marked = sum("marked" in maybe(0.3, mark)({}, rng) for _ in range(3000))
    assert marked == pytest.approx(900, abs=100)


def test_one_of_runs_whole_orders_equally_often():
    def add(letter: str, sample: dict, rng: np.random.Generator) -> dict:
        return {"word": sample["word"] + letter}

    a, b, c = (partial(add, letter) for letter in "abc")
    rng = keyed_generator(0, 0, 0)
    words = [one_of([a, b, c], [c, b, a])({"word": ""}, rng)["word"] for _ in range(1000)]
    assert set(words) == {"abc", "cba"}
    assert words.count("abc") == pytest.approx(500, abs=65)


CLASS_COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255]], np.uint8)
PAINTED_BOXES = np.array([[1, 2, 11, 14], [15, 10, 58, 30], [15, 31, 50, 77]])  # pixels; the last two are one apart


def painted_sample() -> dict[str, np.ndarray]:
    image = np.zeros((60, 80, 3), np.uint8)
    for (ymin, xmin, ymax, xmax), colour in zip(PAINTED_BOXES, CLASS_COLOURS, strict=True):
        image[ymin:ymax, xmin:xmax] = colour
    return sample_of(image, *(PAINTED_BOXES / (60, 80, 60, 80)))


PATCHES = {"paper": paper(96)[2], "seed": seed(96)[0]}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_the_pixels_under_a_box_are_those_of_its_class(patch):
    ops = [maybe(0.5, partial(expand, max_ratio=4.0)), patch, crop]
    ops += [partial(resize, size=96, interpolations=INTERPOLATIONS), maybe(0.5, flip)]
    checked = np.zeros(3, int)
    for example in range(300):
        out = run_in_order(ops, painted_sample(), keyed_generator(0, 0, example))
        for box, label in zip(out["boxes"] * 96, out["labels"], strict=True):
            if (box[2:] - box[:2]).min() < 6:  # interpolation blurs what is smaller
                continue
            inner = np.rint([box[0] + 2, box[1] + 2, box[2] - 2, box[3] - 2]).astype(int)
            mean = out["image"][inner[0] : inner[2], inner[1] : inner[3]].mean(axis=(0, 1))
            assert mean[label] > 200, (example, label, mean)
            assert np.delete(mean, label).max() < 40, (example, label, mean)
            checked[label] += 1
    assert (checked > [10, 100, 100]).all()


def test_the_paper_zooms_out_half_of_the_time_and_up_to_four_times():
    zoom_out = paper(300)[1]
    outs = [zoom_out(sample_of(NOISE), keyed_generator(0, 0, i)) for i in range(1000)]
    assert sum("window" in out for out in outs) == pytest.approx(500, abs=65)
    heights = [bottom - top for top, _, bottom, _ in map(window_of, outs)]
    assert 3.9 < max(heights) / 60 < 4


@pytest.mark.parametrize("mirror", [paper(300)[-1], seed(300)[3]])
def test_both_recipes_mirror_half_of_the_time(mirror):
    outs = [mirror(sample_of(NOISE), keyed_generator(0, 0, i))["image"] for i in range(1000)]
    assert sum(np.array_equal(out, NOISE[:, ::-1]) for out in outs) == pytest.approx(500, abs=65)
    assert sum(np.array_equal(out, NOISE) for out in outs) == pytest.approx(500, abs=65)


def test_no_part_of_the_paper_needs_a_large_canvas():
    picture = np.zeros((900, 1200, 3), np.uint8)
    sample = run_in_order(paper(100)[:1], sample_of(picture), RNG)
    assert sample["image"].shape == (300, 400, 3)
