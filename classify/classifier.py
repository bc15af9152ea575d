"""A trained net as a function from pictures to class probabilities."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from classify import nets, preprocessing
from engine import checkpoints
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.record_sets import name_labels
from engine.slim_net import SlimNet

# What in a manifest decides whether another checkpoint's weights mean the same.
_DECIDE_KIND = ("model_name", "class_names", "image_size", "recipe", "labels_offset")


def make_classify(
    net: SlimNet, normalise: Callable[[tf.Tensor], tf.Tensor], image_size: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    """images [B, S, S, 3] uint8 RGB -> probabilities [B, C], with the weights that the net holds when it is called."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, image_size, image_size, 3], tf.uint8)])
    def classify(images: tf.Tensor) -> tf.Tensor:
        class_logits, _ = net(normalise(images), is_training=False)
        return tf.nn.softmax(class_logits)

    return classify


class Classifier:
    """The net of a checkpoint with its class names; the moving averages of the weights where the checkpoint has them.

    Args:
        checkpoint_path: folder or prefix; see `checkpoints.find`.
        model_name, num_classes: what a checkpoint of ours says itself; needed for a foreign one.

    Attributes:
        checkpoint: its prefix.
        class_names: of the classes 0, 1, ...
        image_size: height and width of the pictures the net takes.
        recipe: name of the recipe that makes them.
        labels_offset: what was subtracted from the records' labels in training.
        classify: images [B, S, S, 3] uint8 RGB -> probabilities [B, C].

    Raises:
        UserError: no checkpoint there, one of another net than asked for, or one that does not tell its net.
    """

    def __init__(self, checkpoint_path: str, *, model_name: str | None = None, num_classes: int | None = None):
        stored = checkpoints.find(checkpoint_path)
        self.model_name = stored.told("model_name", model_name)
        self.num_classes = stored.told("num_classes", num_classes)
        spec = nets.find(self.model_name)
        self.class_names = name_labels(stored.manifest.get("class_names", ()), range(self.num_classes))
        self.image_size = stored.manifest.get("image_size", spec.image_size)
        self.recipe = stored.manifest.get("recipe", spec.recipe)
        self._manifest = stored.manifest
        self.labels_offset = stored.manifest.get("labels_offset", 0)
        self._net = nets.make_net(self.model_name, self.num_classes, self.image_size)
        self.classify = make_classify(self._net, spec.normalise, self.image_size)
        self._load(stored)

    def load(self, checkpoint_path: str) -> None:
        """Other weights for the same net: from a later checkpoint of the run. `UserError` for one of another run's kind."""
        stored = checkpoints.find(checkpoint_path)
        if any(stored.manifest.get(key) != self._manifest.get(key) for key in _DECIDE_KIND):
            raise UserError(f"{stored.prefix}: of another net, classes or recipe than {self.checkpoint}")
        self._load(stored)

    def _load(self, stored: StoredWeights) -> None:
        checkpoints.load_weights(self._net, stored)
        self.checkpoint = stored.prefix

    def resize(self, image: np.ndarray) -> np.ndarray:
        """image [H, W, 3] uint8 RGB -> [S, S, 3] uint8, what `classify` takes."""
        return preprocessing.find(self.recipe).resize(image, self.image_size)
