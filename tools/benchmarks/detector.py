"""Speed of a detector on pictures held in memory: forward alone, detection with decoding and suppression, a train step."""

import resource
import time
from functools import partial

import numpy as np
import tensorflow as tf

from engine import devices, optim
from engine.loop import Batch, make_train_step
from engine.slim_net import SlimNet
from engine.train_state import TrainState
from ssd import encoding, nets
from ssd.anchors import make_anchors
from ssd.detector import Detector
from ssd.evaluation import THRESHOLDS
from ssd.losses import multibox_loss
from tools.benchmarks.timing import median_seconds

_CLASSES = 21
# Two objects a picture, (ymin, xmin, ymax, xmax).
_BOXES = np.array([[0.13, 0.1, 0.73, 0.67], [0.33, 0.33, 0.97, 0.93]], np.float32)
_LABELS = np.array([1, 5])


def benchmark_forward(net_name: str, batch_size: int) -> dict[str, float]:
    """Seconds a picture from pixels to class scores and box offsets: {"forward"}."""
    net, images = _made(net_name, batch_size)
    means = nets.find(net_name).means

    @tf.function(autograph=False)
    def forward() -> tf.Tensor:
        class_logits, box_offsets = net(nets.normalise(images, means), is_training=False)
        return tf.reduce_sum(class_logits) + tf.reduce_sum(box_offsets)

    return {"forward": median_seconds(lambda: float(forward())) / batch_size}


def benchmark_detect(net_name: str, batch_size: int) -> dict[str, float]:
    """Seconds a picture with decoding and suppression under evaluation's thresholds: one at a time, and in a batch."""
    net, images = _made(net_name, batch_size)
    spec = nets.find(net_name)
    detector = Detector(
        net,
        image_size=spec.image_size,
        class_names=[str(label) for label in range(1, _CLASSES)],
        anchors=make_anchors(nets.anchor_spec(net_name, "voc")),
        means=spec.means,
        **THRESHOLDS,
    )

    def seconds(count: int) -> float:
        some = images[:count]

        def detect() -> np.ndarray:
            return detector.detect(some)[-1].numpy()

        return median_seconds(detect) / count

    return {f"detect_{count}": seconds(count) for count in sorted({1, batch_size})}


def benchmark_step(net_name: str, batch_size: int, xla: str) -> dict[str, float]:
    """A train step with the paper's losses and momentum, as `python -m ssd.train` makes it.

    Returns:
        "step", seconds a picture; "first_step", seconds of the step that compiles; "peak_mib", this process's memory.
    """
    net, images = _made(net_name, batch_size)
    state = TrainState(net, net.trainable_by_name, optim.make_optimizer("momentum", 1e-4), None, {})
    train_step = make_train_step(
        state,
        partial(_losses, net, net_name),
        weight_decay=0.0005,
        bias_learning_rate_factor=1.0,
        clip_gradient_norm=None,
        xla=devices.use_xla(xla, faster_on_cpu=nets.find(net_name).xla_on_cpu),
    )
    batch = _encoded(net_name, images)
    started = time.perf_counter()
    float(train_step(batch)["loss"])
    first = time.perf_counter() - started
    seconds = median_seconds(lambda: float(train_step(batch)["loss"]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"step": seconds / batch_size, "first_step": first, "peak_mib": peak}


def _made(net_name: str, batch_size: int) -> tuple[SlimNet, tf.Tensor]:
    """The net, and noise for pictures [B, S, S, 3] uint8."""
    devices.prepare(seed=0)
    size = nets.find(net_name).image_size
    noise = np.random.default_rng(0).integers(0, 256, [batch_size, size, size, 3], dtype=np.uint8)
    return nets.make_net(net_name, _CLASSES), tf.constant(noise)


def _encoded(net_name: str, images: tf.Tensor) -> Batch:
    anchors = make_anchors(nets.anchor_spec(net_name, "voc"))
    targets = encoding.encode(_BOXES, _LABELS, anchors, matching="bipartite", match_threshold=0.5)
    count = len(images)
    labels, offsets, ious = (tf.repeat(target[None], count, axis=0) for target in targets)
    return {
        "image": images,
        "target_labels": labels,
        "target_offsets": offsets,
        "target_ious": ious,
        "example": tf.range(count, dtype=tf.int64),
    }


def _losses(net: SlimNet, net_name: str, batch: Batch) -> dict[str, tf.Tensor]:
    class_logits, box_offsets = net(nets.normalise(batch["image"], nets.find(net_name).means), is_training=True)
    targets = (batch[name] for name in ("target_labels", "target_offsets", "target_ious"))
    return multibox_loss(class_logits, box_offsets, *targets, mining="image", normalizer="positives", min_negatives_per_image=3)
