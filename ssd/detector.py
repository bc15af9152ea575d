"""A trained net as a function from pictures to detections."""

from collections.abc import Sequence

import tensorflow as tf

from engine import checkpoints
from engine.record_sets import name_labels
from ssd import anchor_sets, nets, postprocess
from ssd.anchors import make_anchors


class Detector:
    """The net of a checkpoint with its anchors and class names.

    Args:
        checkpoint_path: folder (its newest checkpoint) or prefix.
        model_name, num_classes, anchor_set: what a checkpoint of ours says itself; needed for a foreign one.
        class_names: of the labels 1, 2, ..., for a checkpoint that does not name them.
        score_threshold, nms_threshold, top_k, keep_top_k: see `ssd.postprocess.detect`.

    Attributes:
        image_size: height and width of the pictures it takes.
        class_names: of the labels 1, 2, ...

    Raises:
        UserError: no checkpoint there, one of another net than asked for, or one that does not tell its net.
    """

    def __init__(
        self,
        checkpoint_path: str,
        *,
        model_name: str | None = None,
        num_classes: int | None = None,
        anchor_set: str | None = None,
        class_names: Sequence[str] = (),
        score_threshold: float,
        nms_threshold: float,
        top_k: int,
        keep_top_k: int,
    ):
        stored = checkpoints.find(checkpoint_path)
        self.model_name = stored.told("model_name", model_name)
        self.num_classes = stored.told("num_classes", num_classes)
        self.checkpoint = stored.prefix
        self.image_size = nets.find(self.model_name).image_size
        known = stored.manifest.get("class_names", class_names)
        self.class_names = name_labels(known[: self.num_classes - 1], range(1, self.num_classes))
        self._anchors = make_anchors(anchor_sets.of_checkpoint(stored, self.model_name, anchor_set).spec)
        self._means = stored.manifest.get("means", nets.find(self.model_name).means)
        self._thresholds = {
            "score_threshold": score_threshold,
            "nms_threshold": nms_threshold,
            "top_k": top_k,
            "keep_top_k": keep_top_k,
        }
        self._net = nets.make_net(self.model_name, self.num_classes)
        checkpoints.load_weights(self._net, stored)
        pictures = tf.TensorSpec([None, self.image_size, self.image_size, 3], tf.uint8)
        self.detect = tf.function(self._detect, autograph=False, input_signature=[pictures])

    def _detect(self, images: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """images [B, S, S, 3] uint8 RGB -> boxes [B, K, 4], scores [B, K], labels [B, K], count [B]."""
        class_logits, box_offsets = self._net(nets.normalise(images, self._means), is_training=False)
        return postprocess.detect(class_logits, box_offsets, self._anchors, **self._thresholds)
