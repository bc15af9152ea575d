"""Fitted anchors: k-means by hand and against the literal oracle, on the net's own layout."""

import numpy as np
import pytest

from ssd import anchor_fit
from ssd.anchors import SSD_300_COCO, AnchorLayer, AnchorSpec
from ssd.nets import tiny
from tests import oracles

TWO_MAPS = AnchorSpec(100, (AnchorLayer(4, 25, ((10, 10), (20, 20))), AnchorLayer(1, 100, ((60, 60), (40, 90)))))


def shapes(spec):
    return [layer.shapes for layer in spec.layers]


def test_ious_of_shapes_by_hand():
    found = anchor_fit.shape_ious(np.array([[10, 20], [5, 5]]), np.array([[10, 20], [20, 10], [10, 10], [50, 100]]))
    np.testing.assert_allclose(found, [[1, 1 / 3, 0.5, 0.04], [0.125, 0.125, 0.25, 0.005]])


def test_fit_by_hand():
    """Two small sizes pull the first kind, one the second; the only large one pulls 60x60; 40x90 has none and stays."""
    fitted = anchor_fit.fit(TWO_MAPS, np.array([[8, 6], [10, 8], [24, 20], [70, 72.04]]))
    assert shapes(fitted) == [((9, 7), (24, 20)), ((70, 72), (40, 90))]
    assert [(layer.map_size, layer.step) for layer in fitted.layers] == [(4, 25), (1, 100)]
    assert fitted.image_size == 100


@pytest.mark.parametrize("sizes", [np.zeros([0, 2]), np.array([[10.0, 10.0]])])
def test_without_objects_or_with_one_that_fits_already_nothing_moves(sizes):
    assert anchor_fit.fit(TWO_MAPS, sizes) == TWO_MAPS


def test_tiny_objects_keep_a_shape():
    fitted = anchor_fit.fit(TWO_MAPS, np.full([3, 2], 0.01))
    assert shapes(fitted)[0] == ((0.1, 0.1), (20, 20))


def test_each_map_against_the_oracle():
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(4), np.log(150), (300, 2)))
    fitted = anchor_fit.fit(tiny.ANCHORS, sizes)
    owners = [max(range(5), key=lambda m: max(oracles.shape_iou(s, a) for a in shapes(tiny.ANCHORS)[m])) for s in sizes]
    for number, layer in enumerate(tiny.ANCHORS.layers):
        own = [size.tolist() for size, owner in zip(sizes, owners, strict=True) if owner == number]
        np.testing.assert_allclose(shapes(fitted)[number], oracles.shape_k_means(own, layer.shapes), atol=0.0501)


def test_fitting_brings_shapes_nearer_whatever_the_order():
    rng = np.random.default_rng(1)
    sizes = rng.normal([40, 90], [6, 12], (500, 2)).clip(5)
    fitted = anchor_fit.fit(SSD_300_COCO, sizes)
    assert fitted == anchor_fit.fit(SSD_300_COCO, rng.permutation(sizes))

    def mean_iou(spec):
        return anchor_fit.shape_ious(sizes, np.concatenate(shapes(spec))).max(axis=1).mean()

    assert mean_iou(fitted) > mean_iou(SSD_300_COCO) + 0.05
