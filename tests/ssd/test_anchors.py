import numpy as np
import pytest

from ssd.anchors import (
    SSD_300_COCO,
    SSD_300_VOC,
    SSD_512_COCO,
    SSD_512_VOC,
    AnchorLayer,
    AnchorSpec,
    make_anchors,
    ssd_layer,
)


def xyxy(anchors: np.ndarray) -> np.ndarray:
    cy, cx, h, w = anchors.astype(np.float64).T
    return np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], axis=-1)


# First and last anchor (xmin, ymin, xmax, ymax), and the share in percent that crosses the border.
GOLDEN = [
    (SSD_300_VOC, 8732, [-0.036667, -0.036667, 0.063333, 0.063333], [0.188873, -0.122254, 0.811127, 1.122254], 32.9),
    (SSD_300_COCO, 8732, [-0.021667, -0.021667, 0.048333, 0.048333], [0.192409, -0.115183, 0.807591, 1.115183], 25.5),
    (SSD_512_VOC, 24564, [-0.026367, -0.026367, 0.041992, 0.041992], [0.182354, -0.135291, 0.817646, 1.135291], 22.3),
    (SSD_512_COCO, 24564, [-0.011719, -0.011719, 0.027344, 0.027344], [0.182354, -0.135291, 0.817646, 1.135291], 16.8),
]


@pytest.mark.parametrize(("spec", "count", "first", "last", "crossing"), GOLDEN)
def test_anchors_of_the_original(spec, count, first, last, crossing):
    anchors = make_anchors(spec)
    assert anchors.dtype == np.float32
    assert anchors.shape == (count, 4)
    boxes = xyxy(anchors)
    np.testing.assert_allclose(boxes[[0, -1]], [first, last], atol=1e-6)
    assert round(100 * np.mean((boxes[:, :2] < 0).any(axis=1) | (boxes[:, 2:] > 1).any(axis=1)), 1) == crossing


def test_anchors_per_layer_and_last_centers():
    ends = np.cumsum([5776, 2166, 600, 150, 36, 4])
    last_of_layers = make_anchors(SSD_300_VOC)[ends - 1]
    for axis in (0, 1):
        np.testing.assert_allclose(last_of_layers[:, axis], [1.0, 0.98667, 1.01333, 0.96, 0.83333, 0.5], atol=1e-5)
    assert [layer.map_size**2 * len(layer.shapes) for layer in SSD_512_VOC.layers] == [16384, 6144, 1536, 384, 96, 16, 4]


def test_kinds_of_a_cell():
    anchors = make_anchors(AnchorSpec(100, (ssd_layer(1, 100, 40, 90, (4, 9)),)))
    expected = [[0.4, 0.4], [0.6, 0.6], [0.2, 0.8], [0.8, 0.2], [0.4 / 3, 1.2], [1.2, 0.4 / 3]]  # (h, w): the wide kind first
    np.testing.assert_allclose(anchors[:, 2:], expected, atol=1e-6)


def test_order_is_layer_row_column_kind():
    spec = AnchorSpec(160, (AnchorLayer(2, 80, ((16, 32), (48, 8))), AnchorLayer(1, 160, ((80, 160),))))
    expected = [
        *([0.25, 0.25, 0.1, 0.2], [0.25, 0.25, 0.3, 0.05], [0.25, 0.75, 0.1, 0.2], [0.25, 0.75, 0.3, 0.05]),
        *([0.75, 0.25, 0.1, 0.2], [0.75, 0.25, 0.3, 0.05], [0.75, 0.75, 0.1, 0.2], [0.75, 0.75, 0.3, 0.05]),
        [0.5, 0.5, 0.5, 1.0],
    ]
    np.testing.assert_allclose(make_anchors(spec), expected, atol=1e-7)
