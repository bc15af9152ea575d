"""From examples to batches of static shape: shuffled and augmented to train on; in order, once, to evaluate on.

A whole batch is one call into Python: a picture of CIFAR-10 takes less time than calling a function for it.
"""

import numpy as np
import tensorflow as tf

from classify import preprocessing
from classify.dataset import Examples
from engine.errors import UserError
from engine.pipelines import WHOLE, Share, in_python, ordered_examples, shuffled_examples


def training_batches(
    examples: Examples,
    *,
    image_size: int,
    batch_size: int,
    num_classes: int,
    recipe: str,
    seed: int,
    start: int = 0,
    share: Share = WHOLE,
    num_preprocessing_threads: int = 4,
) -> tf.data.Dataset:
    """Batches without end, from the `start`-th example on, the same for any number of threads and processes.

    Of every batch only `share` is read.

    Returns:
        {"image" [B, S, S, 3] RGB, B the size of the share, "label" [B] int64, "example" [B] int64, the number in the split}.
    """

    def read_and_augment(epochs: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images, labels = _read(examples, numbers, num_classes)
        return preprocessing.augment(images, recipe, image_size, seed=seed, epochs=epochs, examples=numbers), labels

    @tf.autograph.experimental.do_not_convert
    def to_batch(epochs: tf.Tensor, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        image, label = in_python(read_and_augment, [epochs, numbers], (preprocessing.find(recipe).dtype, tf.int64))
        return _batch(image, label, numbers, image_size)

    order = shuffled_examples(len(examples), seed=seed, start=start, batch_size=batch_size, share=share)
    order = order.batch(share.of(batch_size), drop_remainder=True)
    return order.map(to_batch, num_parallel_calls=num_preprocessing_threads, deterministic=True).prefetch(2)


def evaluation_batches(
    examples: Examples,
    *,
    image_size: int,
    batch_size: int,
    num_classes: int,
    recipe: str,
    num_examples: int | None = None,
    num_preprocessing_threads: int = 4,
) -> tf.data.Dataset:
    """The first `num_examples` (default: all) examples once, in order, as in training but not augmented.

    The last batch is filled up with black pictures of number -1.
    """
    resize = preprocessing.find(recipe).resize

    def read_and_resize(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        image, label = np.zeros([batch_size, image_size, image_size, 3], np.uint8), np.zeros([batch_size], np.int64)
        real = numbers[numbers >= 0]
        images, label[: len(real)] = _read(examples, real, num_classes)
        for row, picture in zip(image, images, strict=False):
            row[:] = resize(picture, image_size)
        return image, label

    @tf.autograph.experimental.do_not_convert
    def to_batch(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        image, label = in_python(read_and_resize, [numbers], (tf.uint8, tf.int64))
        return _batch(image, label, numbers, image_size)

    count = len(examples) if num_examples is None else num_examples
    order = ordered_examples(count, batch_size).batch(batch_size, drop_remainder=True)
    return order.map(to_batch, num_parallel_calls=num_preprocessing_threads, deterministic=True).prefetch(2)


def _read(examples: Examples, numbers: np.ndarray, num_classes: int) -> tuple[list[np.ndarray], np.ndarray]:
    read = [examples.read(int(number)) for number in numbers]
    labels = np.array([example.label for example in read], np.int64)
    wrong = (labels < 0) | (labels >= num_classes)
    if wrong.any():
        raise UserError(
            f"example {numbers[wrong][0]}: label {labels[wrong][0]} is not within 0 to {num_classes - 1}"
            f" (--num_classes={num_classes}); see --labels_offset"
        )
    return [example.image for example in read], labels


def _batch(image: tf.Tensor, label: tf.Tensor, numbers: tf.Tensor, image_size: int) -> dict[str, tf.Tensor]:
    batch_size = numbers.shape[0]
    return {
        "image": tf.ensure_shape(image, [batch_size, image_size, image_size, 3]),
        "label": tf.ensure_shape(label, [batch_size]),
        "example": numbers,
    }
