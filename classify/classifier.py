"""A trained net as a function from pictures to class probabilities."""

import numpy as np
import tensorflow as tf

from classify import nets, preprocessing
from classify.dataset import name_classes
from engine import checkpoints


class Classifier:
    """The net of a checkpoint with its class names; the moving averages of the weights where the checkpoint has them.

    Args:
        checkpoint_path: folder (its newest checkpoint) or prefix.
        model_name, num_classes: what a checkpoint of ours says itself; needed for a foreign one.

    Attributes:
        checkpoint: its prefix.
        class_names: of the classes 0, 1, ...
        image_size: height and width of the pictures the net takes.
        recipe: name of the recipe that makes them.
        labels_offset: what was subtracted from the records' labels in training.

    Raises:
        UserError: no checkpoint there, one of another net than asked for, or one that does not tell its net.
    """

    def __init__(self, checkpoint_path: str, *, model_name: str | None = None, num_classes: int | None = None):
        stored = checkpoints.find(checkpoint_path)
        self.checkpoint = stored.prefix
        self.model_name = stored.told("model_name", model_name)
        self.num_classes = stored.told("num_classes", num_classes)
        spec = nets.find(self.model_name)
        self.class_names = name_classes(stored.manifest.get("class_names", ()), self.num_classes)
        self.image_size = stored.manifest.get("image_size", spec.image_size)
        self.recipe = stored.manifest.get("recipe", spec.recipe)
        self.labels_offset = stored.manifest.get("labels_offset", 0)
        self._net, self._normalise = nets.make_net(self.model_name, self.num_classes, self.image_size), spec.normalise
        checkpoints.load_weights(self._net, stored)
        pictures = tf.TensorSpec([None, self.image_size, self.image_size, 3], tf.uint8)
        self.classify = tf.function(self._classify, autograph=False, input_signature=[pictures])

    def resize(self, image: np.ndarray) -> np.ndarray:
        """image [H, W, 3] uint8 RGB -> [S, S, 3] uint8, what `classify` takes."""
        return preprocessing.find(self.recipe).resize(image, self.image_size)

    def _classify(self, images: tf.Tensor) -> tf.Tensor:
        """images [B, S, S, 3] uint8 RGB -> probabilities [B, C]."""
        class_logits, _ = self._net(self._normalise(images), is_training=False)
        return tf.nn.softmax(class_logits)
