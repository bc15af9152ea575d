"""From records to batches of static shape: shuffled, augmented and encoded to train on; in order, once, to evaluate on."""

import numpy as np
import tensorflow as tf

from engine.pipelines import WHOLE, Share, in_python, ordered_examples, read_records, shuffled_examples
from engine.record_fields import decode
from engine.record_reader import RecordFiles
from ssd import encoding, preprocessing
from ssd.dataset import parse_record


def training_batches(
    records: RecordFiles,
    anchors: np.ndarray,
    *,
    image_size: int,
    batch_size: int,
    num_classes: int,
    recipe: str,
    matching: str,
    match_threshold: float,
    seed: int,
    start: int = 0,
    share: Share = WHOLE,
    labels_offset: int = 0,
    num_readers: int = 4,
    num_preprocessing_threads: int = 4,
) -> tf.data.Dataset:
    """Batches without end, from the `start`-th example on.

    The order of the examples and their augmentation depend on the seed alone, not on the number of threads or processes,
    and a batch may reach into the next epoch: no example is dropped. Of every batch only `share` is read.

    Returns:
        {"image" [B, S, S, 3] RGB 0-255, B the size of the share, "target_labels" [B, A] int64, "target_offsets" [B, A, 4],
        "target_ious" [B, A], "example" [B] int64, the number of the record}.
    """

    def read_and_augment(epoch: int, example: int, record: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parsed = parse_record(record, number=example, num_classes=num_classes, labels_offset=labels_offset)
        sample = {"image": decode(parsed.encoded, parsed.filename), "boxes": parsed.boxes, "labels": parsed.labels}
        sample = preprocessing.augment_numpy(sample, recipe, image_size, seed=seed, epoch=epoch, example=example)
        return sample["image"], sample["boxes"], sample["labels"]

    @tf.autograph.experimental.do_not_convert
    def to_example(epoch: tf.Tensor, example: tf.Tensor, record: tf.Tensor) -> dict[str, tf.Tensor]:
        image, boxes, labels = in_python(read_and_augment, [epoch, example, record], (tf.uint8, tf.float32, tf.int64))
        boxes, labels = tf.ensure_shape(boxes, [None, 4]), tf.ensure_shape(labels, [None])
        target_labels, target_offsets, target_ious = encoding.encode(
            boxes, labels, anchors, matching=matching, match_threshold=match_threshold
        )
        return {
            "image": tf.ensure_shape(image, [image_size, image_size, 3]),
            "target_labels": target_labels,
            "target_offsets": target_offsets,
            "target_ious": target_ious,
            "example": example,
        }

    examples = shuffled_examples(len(records), seed=seed, start=start, batch_size=batch_size, share=share)
    examples = read_records(examples, records.read, num_parallel_reads=num_readers)
    examples = examples.map(to_example, num_parallel_calls=num_preprocessing_threads, deterministic=True)
    return examples.batch(share.of(batch_size), drop_remainder=True).prefetch(2)


def evaluation_batches(
    records: RecordFiles, *, image_size: int, batch_size: int, num_preprocessing_threads: int = 4
) -> tf.data.Dataset:
    """Every example once, in order.

    Returns:
        {"image" [B, S, S, 3] uint8, "example" [B] int64}; the last batch is filled up with black pictures of
        number -1, so that every batch has the same shape.
    """

    def read_and_resize(example: int) -> np.ndarray:
        if example < 0:
            return np.zeros([image_size, image_size, 3], np.uint8)
        parsed = parse_record(records.read(example), number=example, num_classes=np.iinfo(np.int64).max)
        return preprocessing.resize_for_evaluation(decode(parsed.encoded, parsed.filename), image_size)

    @tf.autograph.experimental.do_not_convert
    def to_example(example: tf.Tensor) -> dict[str, tf.Tensor]:
        image = in_python(read_and_resize, [example], tf.uint8)
        return {"image": tf.ensure_shape(image, [image_size, image_size, 3]), "example": example}

    examples = ordered_examples(len(records), batch_size)
    examples = examples.map(to_example, num_parallel_calls=num_preprocessing_threads, deterministic=True)
    return examples.batch(batch_size, drop_remainder=True).prefetch(2)
