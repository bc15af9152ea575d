import numpy as np
import pytest

from ssd.boxes import center_to_yxyx, clip_boxes, pairwise_iou, yxyx_to_center
from tests import oracles


def random_boxes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    low = rng.uniform(-0.2, 0.8, (*shape, 2))
    return np.concatenate([low, low + rng.uniform(0.01, 0.6, (*shape, 2))], axis=-1).astype(np.float32)


def test_center_form_of_a_known_box():
    np.testing.assert_allclose(yxyx_to_center([[0.1, 0.2, 0.3, 0.8]]), [[0.2, 0.5, 0.2, 0.6]], atol=1e-7)
    np.testing.assert_allclose(center_to_yxyx([[0.2, 0.5, 0.2, 0.6]]), [[0.1, 0.2, 0.3, 0.8]], atol=1e-7)


@pytest.mark.parametrize("shape", [(0,), (7,), (2, 3, 5)])
def test_center_form_and_back(shape):
    boxes = random_boxes(np.random.default_rng(0), shape)
    there = yxyx_to_center(boxes)
    assert there.shape == boxes.shape
    np.testing.assert_allclose(center_to_yxyx(there), boxes, atol=1e-6)


def test_iou_of_known_boxes():
    boxes = np.float32([[0, 0, 0.5, 0.5], [0.6, 0.6, 0.6, 0.6]])
    others = np.float32([[0, 0, 0.5, 0.5], [0.25, 0, 0.75, 0.5], [0.5, 0, 1, 0.5], [0.6, 0.6, 0.6, 0.6]])
    np.testing.assert_allclose(pairwise_iou(boxes, others), [[1, 1 / 3, 0, 0], [0, 0, 0, 0]], atol=1e-7)


def test_iou_against_the_literal_one():
    rng = np.random.default_rng(1)
    boxes, others = random_boxes(rng, (2, 30)), random_boxes(rng, (2, 40))
    expected = [[[oracles.iou(a, b) for b in others[k].tolist()] for a in boxes[k].tolist()] for k in range(2)]
    np.testing.assert_allclose(pairwise_iou(boxes, others), expected, atol=1e-6)


def test_iou_with_no_boxes():
    assert pairwise_iou(np.zeros((0, 4), np.float32), np.zeros((3, 4), np.float32)).shape == (0, 3)


def test_clipping_cuts_at_the_image():
    np.testing.assert_array_equal(clip_boxes([[-1.0, 0.25, 0.5, 3.0]]), [[0, 0.25, 0.5, 1]])
