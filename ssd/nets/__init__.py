"""The detectors: adding one is a file beside this and a row in `NETS`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from engine.errors import UserError
from engine.slim_net import SlimNet
from engine.warm_start import TakeOverRule
from ssd import anchors
from ssd.anchors import AnchorSpec
from ssd.nets import lite, mobilenet, tiny, vgg, vgg_reduction

IMAGENET_MEANS = (123.0, 117.0, 104.0)


@dataclass(frozen=True)
class NetSpec:
    """A detector.

    Attributes:
        image_size: height and width of the pictures it takes.
        build: slim function (images [B, S, S, 3] float32 RGB less the means, num_classes, is_training)
            -> class_logits [B, A, C], box_offsets [B, A, 4] (cx, cy, w, h).
        anchors: its anchors by the name of the set.
        means: what is subtracted from R, G and B of pictures in 0-255, unless a checkpoint says otherwise.
        take_over: fills variables from a backbone's checkpoint that holds them under other names or shapes.
        xla_on_cpu: whether its train step is faster as one XLA program on a CPU (measured).
    """

    image_size: int
    build: Callable[..., tuple[tf.Tensor, tf.Tensor]]
    anchors: dict[str, AnchorSpec]
    means: tuple[float, float, float] = IMAGENET_MEANS
    take_over: TakeOverRule | None = None
    xla_on_cpu: bool = False


_VOC_AND_COCO = {"voc": anchors.SSD_300_VOC, "coco": anchors.SSD_300_COCO}
_VGG = {"take_over": vgg_reduction.take_over, "xla_on_cpu": True}

NETS: dict[str, NetSpec] = {
    "ssd_300_lite": NetSpec(300, lite.ssd_300_lite, _VOC_AND_COCO),
    "ssd_300_vgg": NetSpec(300, vgg.ssd_300_vgg, _VOC_AND_COCO, **_VGG),
    "ssd_300_vgg_bn": NetSpec(300, vgg.ssd_300_vgg_bn, _VOC_AND_COCO, xla_on_cpu=True),
    "ssd_320_mobilenet_v2": NetSpec(
        mobilenet.IMAGE_SIZE,
        mobilenet.ssd_320_mobilenet_v2,
        {"voc": mobilenet.ANCHORS_VOC, "coco": mobilenet.ANCHORS_COCO},
        means=mobilenet.MEANS,
        take_over=mobilenet.take_over,
    ),
    "ssd_512_vgg": NetSpec(512, vgg.ssd_512_vgg, {"voc": anchors.SSD_512_VOC, "coco": anchors.SSD_512_COCO}, **_VGG),
    "ssd_tiny": NetSpec(tiny.IMAGE_SIZE, tiny.ssd_tiny, {"voc": tiny.ANCHORS, "coco": tiny.ANCHORS}),
}


def find(net_name: str) -> NetSpec:
    """The net called `net_name`; `UserError` listing the known ones when there is none."""
    if net_name not in NETS:
        raise UserError(f"--model_name={net_name}: must be one of {', '.join(NETS)}")
    return NETS[net_name]


def anchor_spec(net_name: str, anchor_set: str) -> AnchorSpec:
    """The anchors of a net; `anchor_set` is "voc" or "coco"."""
    sets = find(net_name).anchors
    if anchor_set not in sets:
        raise UserError(f"--anchor_set={anchor_set}: must be one of {', '.join(sets)}")
    return sets[anchor_set]


def make_net(net_name: str, num_classes: int) -> SlimNet:
    """The net with its variables made; called with pictures it returns (class_logits, box_offsets)."""
    spec = find(net_name)

    def build(images: tf.Tensor, is_training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        return spec.build(images, num_classes, is_training)

    return SlimNet(net_name, build, [spec.image_size, spec.image_size, 3])


def normalise(images: tf.Tensor, means: Sequence[float]) -> tf.Tensor:
    """images [B, S, S, 3] RGB in 0-255 of any dtype -> float32 less the means of R, G and B."""
    return tf.cast(images, tf.float32) - tf.constant(means, tf.float32)
