"""From decoded pictures to what a net is trained or evaluated on.

A recipe has two sides: `augment` makes a batch to train on, with random numbers that belong to (seed, epoch,
example); `resize` makes one picture to evaluate on. Pictures are RGB in 0-255; the net normalises them itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from classify.preprocessing import cifar10, inception, vgg
from classify.preprocessing.geometry import warp
from engine.augmentation.ops import Op, keyed_generator, run_in_order
from engine.errors import UserError

# The input pipeline keeps every core busy with a batch of its own; OpenCV's threads would only fight for the same cores.
cv2.setNumThreads(1)


Augment = Callable[[Sequence[np.ndarray], int, int, Sequence[int], Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class Recipe:
    """How pictures become input.

    Attributes:
        augment: (images, each [H, W, 3] uint8; S; seed; epochs [B]; examples [B]) -> [B, S, S, 3] of type `dtype`.
        resize: (image [H, W, 3] uint8, S) -> [S, S, 3] uint8.
        dtype: uint8, or float32 where rounding and clipping would change what the recipe means.
    """

    augment: Augment
    resize: Callable[[np.ndarray, int], np.ndarray]
    dtype: type = np.uint8


def each(recipe: Callable[[int], list[Op]]) -> Augment:
    """A recipe that is a list of ops on one picture, as one on a batch."""

    def augment(
        images: Sequence[np.ndarray], size: int, seed: int, epochs: Sequence[int], examples: Sequence[int]
    ) -> np.ndarray:
        ops = recipe(size)
        keyed = zip(images, epochs, examples, strict=True)
        return np.stack(
            [
                run_in_order(ops, {"image": image}, keyed_generator(seed, int(epoch), int(example)))["image"]
                for image, epoch, example in keyed
            ]
        )

    return augment


def no_augmentation(size: int) -> list[Op]:
    """The picture warped to the net's input."""
    return [lambda sample, rng: sample | {"image": warp(sample["image"], size)}]


RECIPES: dict[str, Recipe] = {
    "cifar10": Recipe(cifar10.augment, cifar10.resize, np.float32),
    "crop_flip": Recipe(cifar10.crop_and_flip, cifar10.resize),
    "inception": Recipe(each(inception.inception), inception.resize),
    "vgg": Recipe(each(vgg.vgg), vgg.resize),
    "none": Recipe(each(no_augmentation), warp),
}


def find(recipe: str) -> Recipe:
    """The recipe called so; `UserError` listing the known ones when there is none."""
    if recipe not in RECIPES:
        raise UserError(f"--recipe={recipe}: must be one of {', '.join(RECIPES)}")
    return RECIPES[recipe]


def augment(
    images: Sequence[np.ndarray], recipe: str, size: int, *, seed: int, epochs: Sequence[int], examples: Sequence[int]
) -> np.ndarray:
    """A batch to train on, [B, size, size, 3]; each picture the same whenever its (seed, epoch, example) is the same."""
    return find(recipe).augment(images, size, seed, epochs, examples)
