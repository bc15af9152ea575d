"""Anchors of a net's layout fitted to the objects of a data set. No TensorFlow here."""

import dataclasses

import numpy as np

from ssd.anchors import AnchorSpec

_MAX_ROUNDS = 300
_DECIMALS = 1  # tenths of a pixel: finer than any net sees


def shape_ious(sizes: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """IoU of boxes and anchors of one centre: [N, K] of sizes [N, 2] and shapes [K, 2], both (height, width)."""
    common = np.minimum(sizes[:, None], shapes).prod(axis=2)
    return common / (sizes.prod(axis=1)[:, None] + shapes.prod(axis=1) - common)


def fit(spec: AnchorSpec, sizes: np.ndarray) -> AnchorSpec:
    """The layout of `spec` with shapes that fit objects of these sizes.

    An object belongs to the feature map whose shapes in `spec` fit it best, so that large objects stay with coarse maps.
    Those of a map are clustered by k-means with the distance 1 - IoU (YOLO9000, arXiv:1612.08242, section 2), which starts
    from the map's shapes: nothing is random, and a kind that no object is nearest to stays as it was.

    Args:
        spec: the anchors to start from.
        sizes: [N, 2] (height, width) above 0, in pixels of the net's input.
    """
    sizes = np.asarray(sizes, np.float64)
    best = np.stack([shape_ious(sizes, np.array(layer.shapes)).max(axis=1) for layer in spec.layers])  # [layers, N]
    owners = best.argmax(axis=0)
    layers = (
        dataclasses.replace(layer, shapes=_cluster(sizes[owners == number], layer.shapes))
        for number, layer in enumerate(spec.layers)
    )
    return AnchorSpec(spec.image_size, tuple(layers))


def _cluster(sizes: np.ndarray, shapes: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """The centres that k-means comes to from `shapes`; a mean that rounds to nothing keeps a tenth of a pixel."""
    centers, nearest = np.array(shapes, np.float64), None
    for _ in range(_MAX_ROUNDS):
        before, nearest = nearest, shape_ious(sizes, centers).argmax(axis=1)
        if before is not None and (nearest == before).all():
            break
        for kind in np.unique(nearest):
            centers[kind] = sizes[nearest == kind].mean(axis=0)
    return tuple((height, width) for height, width in np.maximum(centers.round(_DECIMALS), 10**-_DECIMALS).tolist())
