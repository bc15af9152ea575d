"""Augmentation: from a decoded picture and its boxes to what the net is trained on.

A recipe is a function from the net's input size to a list of small ops; `RECIPES` names them. All recipes
give uint8 images in RGB, 0-255: four times less to shuffle, batch and copy than float32. Means are
subtracted elsewhere.
"""

from collections.abc import Callable
from functools import partial

import cv2
import numpy as np
import tensorflow as tf

from engine.augmentation.ops import Op, Sample, keyed_generator, run_in_order
from engine.errors import UserError
from ssd.preprocessing.geometry import resize, resize_for_evaluation
from ssd.preprocessing.paper import paper
from ssd.preprocessing.seed import seed as seed_recipe

__all__ = ["RECIPES", "augment", "augment_numpy", "resize_for_evaluation"]

# The input pipeline keeps every core busy with a picture of its own; OpenCV's threads would only fight for the same cores.
cv2.setNumThreads(1)


def plain(size: int) -> list[Op]:
    """No augmentation: the picture warped to the net's input, as in evaluation."""
    return [partial(resize, size=size, interpolations=(cv2.INTER_LINEAR,))]


RECIPES: dict[str, Callable[[int], list[Op]]] = {"paper": paper, "seed": seed_recipe, "none": plain}


def augment(sample: dict, recipe: str, size: int, *, seed: int, epoch: int, example: int) -> dict:
    """One training sample made from a picture, the same whenever (seed, epoch, example) is the same.

    sample: "image" [H, W, 3] uint8 RGB; "boxes" [N, 4] float32 (ymin, xmin, ymax, xmax) in 0..1; "labels" [N]
    int64; any further array has one row per object and stays in step with the boxes; scalars are carried along.
    Returns a dict with the same names: "image" [size, size, 3] uint8, and rows for the objects still there,
    fewer or none. Given arrays or eager tensors it returns arrays; inside `tf.data.Dataset.map`, symbolic
    tensors with static shapes. Raises UserError for an unknown recipe.
    """
    if any(tf.is_symbolic_tensor(value) for value in (*sample.values(), seed, epoch, example)):
        return _augment_in_graph(sample, recipe, size, (seed, epoch, example))
    return augment_numpy(sample, recipe, size, seed=int(seed), epoch=int(epoch), example=int(example))


def augment_numpy(sample: dict, recipe: str, size: int, *, seed: int, epoch: int, example: int) -> Sample:
    """`augment` on arrays alone, for callers that are inside a `tf.numpy_function` already."""
    ops = _find_recipe(recipe)(size)
    sample = {name: np.asarray(value) for name, value in sample.items()}
    if sample["image"].dtype != np.uint8:
        raise ValueError(f"image must be uint8 in 0-255, not {sample['image'].dtype}")
    sample["boxes"] = sample["boxes"].astype(np.float32, copy=False)
    return run_in_order(ops, sample, keyed_generator(int(seed), int(epoch), int(example)))


def _find_recipe(name: str) -> Callable[[int], list[Op]]:
    if name not in RECIPES:
        raise UserError(f"recipe: unknown name {name!r}; known: {', '.join(RECIPES)}")
    return RECIPES[name]


def _augment_in_graph(sample: dict, recipe: str, size: int, key: tuple) -> dict:
    _find_recipe(recipe)
    tensors = {name: tf.convert_to_tensor(value) for name, value in sample.items()}
    tensors["boxes"] = tf.cast(tensors["boxes"], tf.float32)

    def hop(seed: int, epoch: int, example: int, *values: np.ndarray) -> list[np.ndarray]:
        arrays = dict(zip(tensors, values, strict=True))
        augmented = augment_numpy(arrays, recipe, size, seed=seed, epoch=epoch, example=example)
        return [augmented[name] for name in tensors]

    dtypes = [tensor.dtype for tensor in tensors.values()]
    outputs = tf.numpy_function(hop, [*key, *tensors.values()], dtypes, stateful=False)
    augmented = dict(zip(tensors, outputs, strict=True))
    for name, tensor in augmented.items():
        tensor.set_shape(_static_shape(name, tensors[name], size))
    return augmented


def _static_shape(name: str, before: tf.Tensor, size: int) -> tf.TensorShape:
    """The shape after augmentation: a scalar stays one, an object's row keeps its own shape, their number is open."""
    if name == "image":
        return tf.TensorShape([size, size, 3])
    if name == "boxes":
        return tf.TensorShape([None, 4])
    return before.shape if before.shape.rank == 0 else tf.TensorShape([None]).concatenate(before.shape[1:])
