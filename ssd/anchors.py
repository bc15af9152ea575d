"""Anchors (the paper's default boxes): where they stand and what shapes they have. No TensorFlow here.

Layouts and sizes are those of the Caffe release of SSD (arXiv:1512.02325), which differ from the paper's
linear formula: centres follow explicit steps and may lie outside the image, and nothing is clipped.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np


@dataclass(frozen=True)
class AnchorLayer:
    """The anchors of one square feature map.

    Attributes:
        map_size: cells along each side.
        step: pixels of the input image from one cell's centre to the next.
        shapes: (height, width) in pixels of each kind, in the order of the head's channels.
    """

    map_size: int
    step: float
    shapes: tuple[tuple[float, float], ...]

    def centers(self) -> np.ndarray:
        """Where the cells' centres are along each side, in pixels: float64 [map_size]."""
        return (np.arange(self.map_size) + 0.5) * self.step


@dataclass(frozen=True)
class AnchorSpec:
    """All anchors of a net: the side of its square input image in pixels, and its feature maps in order."""

    image_size: int
    layers: tuple[AnchorLayer, ...]


def ssd_layer(map_size: int, step: float, min_size: float, max_size: float, ratios: tuple[float, ...]) -> AnchorLayer:
    """A layer with SSD's kinds, sizes in pixels: two squares of sides min and sqrt(min * max), then r and 1/r for each ratio r.

    A kind of ratio r is min * sqrt(r) wide and min / sqrt(r) high (section 2.2 of the paper).
    """
    middle_size = sqrt(min_size * max_size)
    shapes = [(min_size, min_size), (middle_size, middle_size)]
    for ratio in ratios:
        flat = (min_size / sqrt(ratio), min_size * sqrt(ratio))
        shapes += [flat, flat[::-1]]
    return AnchorLayer(map_size, step, tuple(shapes))


def make_anchors(spec: AnchorSpec) -> np.ndarray:
    """Every anchor of a net.

    Returns:
        float32 [A, 4] (cy, cx, h, w) as fractions of the image, ordered by layer, row, column, kind. Not clipped.
    """
    layers = [_layer_anchors(layer, spec.image_size) for layer in spec.layers]
    return np.concatenate(layers).astype(np.float32)


def _layer_anchors(layer: AnchorLayer, image_size: int) -> np.ndarray:
    centers = layer.centers() / image_size
    shapes = np.array(layer.shapes, np.float64) / image_size
    grid = np.empty((layer.map_size, layer.map_size, len(shapes), 4))  # [row, column, kind, 4]
    grid[..., 0] = centers[:, None, None]
    grid[..., 1] = centers[None, :, None]
    grid[..., 2:] = shapes
    return grid.reshape(-1, 4)


def _ssd_300(sizes: tuple[int, ...]) -> AnchorSpec:
    ratios = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
    return _ssd_spec(300, (38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300), sizes, ratios)


def _ssd_512(sizes: tuple[int, ...]) -> AnchorSpec:
    ratios = ((2,), (2, 3), (2, 3), (2, 3), (2, 3), (2,), (2,))
    return _ssd_spec(512, (64, 32, 16, 8, 4, 2, 1), (8, 16, 32, 64, 128, 256, 512), sizes, ratios)


def _ssd_spec(
    image_size: int,
    map_sizes: tuple[int, ...],
    steps: tuple[int, ...],
    sizes: tuple[int, ...],
    ratios: tuple[tuple[int, ...], ...],
) -> AnchorSpec:
    """Each layer's max size is the next layer's min size, so `sizes` has one entry more than there are layers."""
    rows = zip(map_sizes, steps, sizes[:-1], sizes[1:], ratios, strict=True)
    return AnchorSpec(image_size, tuple(ssd_layer(*row) for row in rows))


# At 512 the release's scripts compute fractions (35.84, 76.8, ...), but its PriorBox layer stores and uses integers.
SSD_300_VOC = _ssd_300((30, 60, 111, 162, 213, 264, 315))
SSD_300_COCO = _ssd_300((21, 45, 99, 153, 207, 261, 315))
SSD_512_VOC = _ssd_512((35, 76, 153, 230, 307, 384, 460, 537))
SSD_512_COCO = _ssd_512((20, 51, 133, 215, 296, 378, 460, 542))
