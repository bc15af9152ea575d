"""A run's folder: config.json, metrics.jsonl, TensorBoard's events."""

import json
import pathlib
from typing import Any

import tensorflow as tf

from engine.files import write_json, write_text, writing

_HISTOGRAM = 1_000_000


class RunLog:
    """Writes a run's options once and its numbers and pictures as it goes; `step` is where it starts or goes on.

    One that does not write, since another process does, is silent.
    """

    def __init__(self, folder: str | pathlib.Path, config: dict[str, Any], *, step: int, writes: bool = True):
        self.folder, self._writes = pathlib.Path(folder), writes
        self._metrics = self.folder / "metrics.jsonl"
        self._writer = tf.summary.create_noop_writer()
        if not writes:
            return
        write_json(self.folder / "config.json", config)
        self._forget_after(step)
        self._writer = tf.summary.create_file_writer(str(self.folder))

    def _forget_after(self, step: int) -> None:
        """Drops the lines of steps that a killed run had done after its last checkpoint: they are done again."""
        if self._metrics.is_file():
            lines = self._metrics.read_text("utf-8").splitlines(keepends=True)
            write_text(self._metrics, "".join(line for line in lines if _step_of(line) <= step))

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """A line of metrics.jsonl, and a point on each of TensorBoard's curves."""
        if not self._writes:
            return
        with writing(self._metrics), self._metrics.open("a", encoding="utf-8") as metrics:
            metrics.write(json.dumps({"step": step, **values}) + "\n")
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)

    def histograms(self, step: int, values: dict[str, Any]) -> None:
        """Distributions, and beside each the fraction of zeros in it."""
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.histogram(name, _some(value))
                tf.summary.scalar(f"{name}/sparsity", tf.nn.zero_fraction(value))

    def images(self, step: int, name: str, images: Any) -> None:
        """images: [N, H, W, 3] uint8."""
        with self._writer.as_default(step):
            tf.summary.image(name, images, max_outputs=len(images))

    def flush(self) -> None:
        self._writer.flush()


def _some(values: Any) -> tf.Tensor:
    """At most `_HISTOGRAM` of the values, evenly spaced: TensorFlow takes 240 bytes for each, VGG-16's fc6 has 100 million."""
    values = tf.reshape(values, [-1])
    return values[:: -(-len(values) // _HISTOGRAM) or 1]


def _step_of(line: str) -> float:
    """The step of a line of metrics.jsonl; beyond all others for a line that was cut short."""
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError):
        return float("inf")
