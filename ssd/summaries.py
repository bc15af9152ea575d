"""What TensorBoard shows beside the curves: pictures with what is taught and what is found; histograms."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import tensorflow as tf

from engine.loop import Batch
from engine.run_log import RunLog
from engine.slim_net import SlimNet
from engine.summaries import make_look
from ssd import encoding, nets, postprocess
from ssd.draw import draw_boxes

_DETECTION = {"score_threshold": 0.3, "nms_threshold": 0.45, "top_k": 100, "keep_top_k": 50}


def make_summarise(
    net: SlimNet,
    losses: Callable[..., dict[str, tf.Tensor]],
    trainable: dict[str, tf.Variable],
    anchors: np.ndarray,
    means: Sequence[float],
    class_names: Sequence[str],
    run_log: RunLog,
) -> Callable[[Batch, int], None]:
    """A function (batch, step) that writes pictures, and histograms of activations and gradients, of a part of the batch."""
    look = make_look(net, partial(nets.normalise, means=means), losses, trainable, run_log)

    @tf.function(autograph=False)
    def boxes_of(outputs: tuple, target_offsets: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return encoding.decode(target_offsets, anchors), *postprocess.detect(*outputs, anchors, **_DETECTION)

    def summarise(batch: Batch, step: int) -> None:
        part, outputs = look(batch, step)
        found = [tensor.numpy() for tensor in boxes_of(outputs, part["target_offsets"])]
        taught_pictures, found_pictures = [], []
        for image, target, taught, boxes, scores, labels, count in zip(
            part["image"].numpy(), part["target_labels"].numpy(), *found, strict=True
        ):
            positive = target > 0
            taught_pictures.append(draw_boxes(image, taught[positive], target[positive], class_names))
            found_pictures.append(draw_boxes(image, boxes[:count], labels[:count], class_names, scores[:count]))
        run_log.images(step, "ground_truth", np.stack(taught_pictures))
        run_log.images(step, "detections", np.stack(found_pictures))

    return summarise
