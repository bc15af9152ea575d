"""The classifiers' nets, which the detectors stand on: adding one is a file beside this and a row in `NETS`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from classify.nets import cifar10, inception_v3, mobilenet_v2, vgg
from engine import optim
from engine.errors import UserError
from engine.slim_net import SlimNet


def standardise(images: tf.Tensor) -> tf.Tensor:
    """images [B, S, S, 3] -> each picture less its mean, over its standard deviation (at least 1 / sqrt(3 S^2))."""
    return tf.image.per_image_standardization(tf.cast(images, tf.float32))


def to_unit_range(images: tf.Tensor) -> tf.Tensor:
    """images in 0-255 -> float32 in [-1, 1]."""
    return tf.cast(images, tf.float32) / 127.5 - 1.0


def less_means(images: tf.Tensor) -> tf.Tensor:
    """images [B, S, S, 3] RGB in 0-255 -> float32 less ImageNet's means, as TF-slim's VGG has them."""
    return tf.cast(images, tf.float32) - tf.constant(vgg.IMAGENET_MEANS)


@dataclass(frozen=True)
class NetSpec:
    """A classifier.

    Attributes:
        scope: first part of its variables' names, as in TF-slim's checkpoints; "" for none.
        image_size: height and width of the pictures it was made for.
        build: slim function (images [B, S, S, 3] float32 normalised, num_classes, is_training)
            -> class_logits [B, C], and a tuple of auxiliary logits [B, C].
        normalise: images [B, S, S, 3] RGB in 0-255 of any dtype -> what `build` takes.
        recipe: the augmentation it is usually trained with.
        learning_rate, weight_decay: where to start when nothing is known of the data.
        is_decayed: whether weight decay applies to a variable, by name.
        smallest: smallest height and width of pictures that its layers work on.
        xla_on_cpu: whether its train step is faster as one XLA program on a CPU (measured).
    """

    scope: str
    image_size: int
    build: Callable[..., tuple[tf.Tensor, tuple[tf.Tensor, ...]]]
    normalise: Callable[[tf.Tensor], tf.Tensor]
    recipe: str
    learning_rate: float
    weight_decay: float
    is_decayed: Callable[[str], bool] = optim.is_weight
    smallest: int = 8
    xla_on_cpu: bool = False


# As TF-slim trains its nets with batch normalisation.
_like_inception = partial(NetSpec, normalise=to_unit_range, recipe="inception", learning_rate=0.045, weight_decay=0.00004)

NETS: dict[str, NetSpec] = {
    "cifar10": NetSpec(
        scope="",
        image_size=cifar10.IMAGE_SIZE,
        build=cifar10.cifar10,
        normalise=standardise,
        recipe="cifar10",
        learning_rate=0.1,
        weight_decay=0.004,
        is_decayed=cifar10.DECAYED.__contains__,
    ),
    "inception_v3": _like_inception("InceptionV3", 299, inception_v3.inception_v3, smallest=107),
    "mobilenet_v2": _like_inception("MobilenetV2", 224, mobilenet_v2.mobilenet_v2, is_decayed=mobilenet_v2.is_decayed),
    "mobilenet_v2_140": _like_inception(
        "MobilenetV2",
        224,
        partial(mobilenet_v2.mobilenet_v2, depth_multiplier=1.4),
        is_decayed=mobilenet_v2.is_decayed,
    ),
    "vgg_16": NetSpec(
        scope="vgg_16",
        image_size=224,
        build=vgg.vgg_16,
        normalise=less_means,
        recipe="vgg",
        learning_rate=0.001,
        weight_decay=0.0005,
    ),
}


def find(net_name: str) -> NetSpec:
    """The net called `net_name`; `UserError` listing the known ones when there is none."""
    if net_name not in NETS:
        raise UserError(f"--model_name={net_name}: must be one of {', '.join(NETS)}")
    return NETS[net_name]


def make_net(net_name: str, num_classes: int, image_size: int | None = None, compute_dtype: tf.DType = tf.float32) -> SlimNet:
    """The net with its variables made; called with normalised pictures it returns (class_logits, auxiliary_logits)."""
    spec = find(net_name)
    size = image_size or spec.image_size
    if size < spec.smallest:
        raise UserError(f"--train_image_size={size}: {net_name} takes pictures of {spec.smallest} pixels or more")

    def build(images: tf.Tensor, is_training: bool) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        return spec.build(images, num_classes, is_training)

    return SlimNet(spec.scope, build, [size, size, 3], compute_dtype)
