"""A run's folder: config.json, metrics.jsonl, TensorBoard's events."""

import json
import pathlib
from typing import Any

import tensorflow as tf

from engine.files import write_json


class RunLog:
    """Writes a run's options once and its numbers and pictures as it goes."""

    def __init__(self, folder: str | pathlib.Path, config: dict[str, Any]):
        self.folder = pathlib.Path(folder)
        write_json(self.folder / "config.json", config)
        self._writer = tf.summary.create_file_writer(str(self.folder))
        self._metrics = (self.folder / "metrics.jsonl").open("a", encoding="utf-8")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """A line of metrics.jsonl, and a point on each of TensorBoard's curves."""
        self._metrics.write(json.dumps({"step": step, **values}) + "\n")
        self._metrics.flush()
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)

    def histograms(self, step: int, values: dict[str, Any]) -> None:
        """Distributions, and beside each the fraction of zeros in it."""
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.histogram(name, value)
                tf.summary.scalar(f"{name}/sparsity", tf.nn.zero_fraction(value))

    def images(self, step: int, name: str, images: Any) -> None:
        """images: [N, H, W, 3] uint8."""
        with self._writer.as_default(step):
            tf.summary.image(name, images, max_outputs=len(images))

    def flush(self) -> None:
        self._writer.flush()
