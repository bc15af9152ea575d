"""A trained net as a function from pictures to detections."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from engine import checkpoints
from engine.record_sets import name_labels
from engine.slim_net import SlimNet
from ssd import anchor_sets, nets, postprocess
from ssd.anchors import make_anchors


class Detector:
    """A net with its anchors and class names.

    Args:
        net: as `nets.make_net` makes it.
        image_size: height and width of the pictures it takes.
        class_names: of the labels 1, 2, ..., each of them.
        anchors: [A, 4].
        means: subtracted from R, G and B.
        score_threshold, nms_threshold, top_k, keep_top_k: see `ssd.postprocess.detect`.

    Attributes:
        image_size, class_names: as given.
        detect: images [B, S, S, 3] uint8 RGB -> boxes [B, K, 4], scores [B, K], labels [B, K], count [B], with the weights
            that the net holds when it is called.
    """

    def __init__(
        self,
        net: SlimNet,
        *,
        image_size: int,
        class_names: Sequence[str],
        anchors: np.ndarray,
        means: Sequence[float],
        score_threshold: float,
        nms_threshold: float,
        top_k: int,
        keep_top_k: int,
    ):
        self.image_size, self.class_names = image_size, tuple(class_names)
        self._net, self._anchors, self._means = net, anchors, means
        self._thresholds = {
            "score_threshold": score_threshold,
            "nms_threshold": nms_threshold,
            "top_k": top_k,
            "keep_top_k": keep_top_k,
        }
        pictures = tf.TensorSpec([None, image_size, image_size, 3], tf.uint8)
        self.detect = tf.function(self._detect, autograph=False, input_signature=[pictures])

    def _detect(self, images: tf.Tensor) -> tuple[tf.Tensor, ...]:
        class_logits, box_offsets = self._net(nets.normalise(images, self._means), is_training=False)
        return postprocess.detect(class_logits, box_offsets, self._anchors, **self._thresholds)


def load(
    checkpoint_path: str,
    *,
    model_name: str | None = None,
    num_classes: int | None = None,
    anchor_set: str | None = None,
    class_names: Sequence[str] = (),
    **thresholds: float,
) -> tuple[Detector, str]:
    """The detector of a checkpoint, the averages of its weights where it has them; and the checkpoint's prefix.

    Args:
        checkpoint_path: folder or prefix; see `checkpoints.find`.
        model_name, num_classes, anchor_set: what a checkpoint of ours says itself; needed for a foreign one.
        class_names: of the labels 1, 2, ..., for a checkpoint that does not name them.
        thresholds: as of `Detector`.

    Raises:
        UserError: no checkpoint there, one of another net than asked for, or one that does not tell its net.
    """
    stored = checkpoints.find(checkpoint_path)
    net_name, num_classes = stored.told("model_name", model_name), stored.told("num_classes", num_classes)
    spec, known = nets.find(net_name), stored.manifest.get("class_names", class_names)
    anchors = make_anchors(anchor_sets.of_checkpoint(stored, net_name, anchor_set).spec)
    net = nets.make_net(net_name, num_classes)
    checkpoints.load_weights(net, stored)
    detector = Detector(
        net,
        image_size=spec.image_size,
        class_names=name_labels(known[: num_classes - 1], range(1, num_classes)),
        anchors=anchors,
        means=stored.manifest.get("means", spec.means),
        **thresholds,
    )
    return detector, stored.prefix
