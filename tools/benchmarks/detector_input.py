"""Speed of what a detector is fed with: matching and encoding, augmentation, and the whole pipeline from records."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from engine import devices, images
from engine.flags import parse
from ssd import dataset, encoding, input_pipeline, nets, preprocessing
from ssd.anchors import make_anchors
from tools import pascalvoc_to_tfrecords
from tools.benchmarks.convert import make_data_set
from tools.benchmarks.timing import median_seconds

_OBJECTS = (2, 10, 50)
_SAMPLES, _BATCHES, _BATCH_SIZE = 40, 12, 32


def benchmark_encode(net_name: str) -> dict[str, float]:
    """Milliseconds a picture for matching and encoding 2, 10 and 50 objects, by the paper's rule."""
    devices.prepare(seed=0)
    anchors = make_anchors(nets.anchor_spec(net_name, "voc"))

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64)])
    def encode(boxes: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return encoding.encode(boxes, labels, anchors, matching="bipartite", match_threshold=0.5)

    figures, rng = {}, np.random.default_rng(0)
    for count in _OBJECTS:
        corners = np.sort(rng.random([count, 2, 2], np.float32), axis=1).reshape(count, 4)
        boxes, labels = tf.constant(corners), tf.ones([count], tf.int64)
        seconds = median_seconds(lambda boxes=boxes, labels=labels: encode(boxes, labels)[0].numpy(), rounds=20)
        figures[f"encode_{count}"] = 1000 * seconds
    return figures


def benchmark_augment(recipe: str, image_size: int) -> dict[str, float]:
    """Pictures a second from a JPEG of 640x480 to an augmented one, in one thread: {"augment"}."""
    with tempfile.TemporaryDirectory() as folder:
        make_data_set(Path(folder), 4)
        encoded = [path.read_bytes() for path in sorted((Path(folder) / "JPEGImages").iterdir())]
    boxes = np.array([[0.08, 0.05, 0.67, 0.47], [0.2, 0.3, 0.8, 0.6]], np.float32)

    def augment_some() -> None:
        for number in range(_SAMPLES):
            sample = {"image": images.decode(encoded[number % len(encoded)]), "boxes": boxes, "labels": np.array([1, 5])}
            preprocessing.augment_numpy(sample, recipe, image_size, seed=0, epoch=0, example=number)

    return {"augment": _SAMPLES / median_seconds(augment_some)}


def benchmark_input(net_name: str, recipe: str, workers: int, pictures: int = 200) -> dict[str, float]:
    """Pictures a second from records to encoded batches of the training pipeline, by `workers` threads: {"input"}."""
    devices.prepare(seed=0)
    with tempfile.TemporaryDirectory() as folder:
        make_data_set(Path(folder) / "voc", pictures)
        argv = [f"--dataset_dir={folder}/voc", f"--output_dir={folder}", "--output_name=made", "--workers=1"]
        pascalvoc_to_tfrecords.main(parse(pascalvoc_to_tfrecords.Config, ["convert", *argv])[0])
        batches = input_pipeline.training_batches(
            dataset.open_split(folder, "made", "train").records,
            make_anchors(nets.anchor_spec(net_name, "voc")),
            image_size=nets.find(net_name).image_size,
            batch_size=_BATCH_SIZE,
            num_classes=2,
            recipe=recipe,
            matching="bipartite",
            match_threshold=0.5,
            seed=0,
            num_preprocessing_threads=workers,
        )
        return {"input": _BATCH_SIZE / _seconds_a_batch(iter(batches))}


def _seconds_a_batch(batches: Iterator) -> float:
    for _ in itertools.islice(batches, 3):  # what was made ahead
        pass
    started = time.perf_counter()
    for _ in itertools.islice(batches, _BATCHES):
        pass
    return (time.perf_counter() - started) / _BATCHES
