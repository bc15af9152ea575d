"""The CIFAR-10 tutorial's input: random crop, flip, brightness and contrast; a batch at a time, in few large numpy calls.

The net standardises each picture afterwards, so values may leave 0-255 here and are not rounded.
"""

from collections.abc import Sequence

import numpy as np

from classify.preprocessing.geometry import central_crop, warp
from engine.augmentation.ops import keyed_uniforms

_BRIGHTNESS = 63.0
_CONTRAST = (0.2, 1.8)
# Random numbers of an example: row, column, mirrored; brightness, contrast.
_DRAWS = 5


def crop_and_flip(
    images: Sequence[np.ndarray], size: int, seed: int, epochs: Sequence[int], examples: Sequence[int]
) -> np.ndarray:
    """[B, size, size, 3] uint8: a random crop of 3/4 of each side, mirrored half the time."""
    whole = np.stack([_whole(image, size) for image in images])  # [B, W, W, 3]
    top, left, mirrored = keyed_uniforms(seed, epochs, examples, _DRAWS).T[:3]  # each [B]
    room = whole.shape[1] - size + 1
    crops = _crop(whole, (top * room).astype(int), (left * room).astype(int), size)
    crops[mirrored < 0.5] = crops[mirrored < 0.5][:, :, ::-1]
    return crops


def augment(images: Sequence[np.ndarray], size: int, seed: int, epochs: Sequence[int], examples: Sequence[int]) -> np.ndarray:
    """[B, size, size, 3] float32: the crop; then brightness + U(-63, 63); then each channel's distance from its mean times
    U(.2, 1.8)."""
    crops = crop_and_flip(images, size, seed, epochs, examples)
    brightness, contrast = keyed_uniforms(seed, epochs, examples, _DRAWS).T[3:]
    delta = (_BRIGHTNESS * (2 * brightness - 1)).astype(np.float32)[:, None]
    factor = (_CONTRAST[0] + (_CONTRAST[1] - _CONTRAST[0]) * contrast).astype(np.float32)[:, None]
    # (x + delta - mean) * factor + mean, where the mean has moved by delta as well: x * factor + a number a channel.
    offset = _channel_means(crops) * (1 - factor) + delta  # [B, 3]
    # Whole rows at a time: numpy is slow along an axis of three.
    augmented = crops.reshape(len(crops), size, size * 3) * factor[:, :, None]
    augmented += np.tile(offset, size)[:, None, :]
    return augmented.reshape(crops.shape)


def _channel_means(images: np.ndarray) -> np.ndarray:
    """images [B, S, S, 3] -> [B, 3] float32."""
    count, size = images.shape[:2]
    of_columns = images.reshape(count, size, size * 3).mean(axis=1, dtype=np.float32)
    return of_columns.reshape(count, size, 3).mean(axis=1)


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """The middle of the picture, [size, size, 3] uint8: of CIFAR-10's 32x32 pixels the central 24x24."""
    return central_crop(_whole(image, size), size, size)


def _whole(image: np.ndarray, size: int) -> np.ndarray:
    """The picture with a third more pixels a side than the net takes; CIFAR-10's own are as they are."""
    side = size * 4 // 3
    return image if image.shape[:2] == (side, side) else warp(image, side)


def _crop(images: np.ndarray, tops: np.ndarray, lefts: np.ndarray, size: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))  # [B, R, R, 3, size, size]
    # numpy lays the result out as the pictures were: this order of axes is contiguous.
    return windows[np.arange(len(images)), tops, lefts].transpose(0, 2, 3, 1)  # [B, size, size, 3]
