"""What TensorBoard shows beside the curves: pictures with what is taught and what is found; histograms."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from engine.loop import Batch
from engine.run_log import RunLog
from engine.slim_net import SlimNet
from ssd import encoding, nets, postprocess
from ssd.draw import draw_boxes

# A handful of pictures tells enough, and keeps the cost far below that of a train step.
_PICTURES = 4
_DETECTION = {"score_threshold": 0.3, "nms_threshold": 0.45, "top_k": 100, "keep_top_k": 50}


def make_summarise(
    net: SlimNet,
    losses: Callable[..., dict[str, tf.Tensor]],
    trainable: dict[str, tf.Variable],
    anchors: np.ndarray,
    net_name: str,
    class_names: Sequence[str],
    run_log: RunLog,
) -> Callable[[Batch, int], None]:
    """A function (batch, step) that writes pictures, and histograms of activations and gradients, of a part of the batch."""

    @tf.function(autograph=False)
    def look(batch: Batch) -> tuple:
        images = nets.normalise(batch["image"], net_name)
        with tf.GradientTape() as tape:
            # In training mode a look would move the batch-norm statistics, and the run would depend on the clock.
            loss = tf.add_n(list(losses(batch, is_training=False).values()))
        gradients = tape.gradient(loss, trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        outputs, activations = net.look_inside(images)
        found = postprocess.detect(*outputs, anchors, **_DETECTION)
        return found, activations, gradients, encoding.decode(batch["target_offsets"], anchors)

    def summarise(batch: Batch, step: int) -> None:
        part = {name: value[:_PICTURES] for name, value in batch.items()}
        (boxes, scores, labels, count), activations, gradients, taught_boxes = look(part)
        images = part["image"].numpy()
        taught, found = [], []
        for i, image in enumerate(images):
            positive = part["target_labels"][i].numpy() > 0
            taught.append(
                draw_boxes(image, taught_boxes[i].numpy()[positive], part["target_labels"][i].numpy()[positive], class_names)
            )
            n = int(count[i])
            found.append(draw_boxes(image, boxes[i, :n].numpy(), labels[i, :n].numpy(), class_names, scores[i, :n].numpy()))
        run_log.images(step, "ground_truth", np.stack(taught))
        run_log.images(step, "detections", np.stack(found))
        run_log.histograms(step, {f"activations/{name}": value for name, value in activations.items()})
        run_log.histograms(step, {f"gradients/{name}": value for name, value in gradients.items()})

    return summarise
