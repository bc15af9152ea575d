"""What an SSD takes from another checkpoint beyond variables of the same name and shape."""

from collections.abc import Sequence

import numpy as np

from engine.checkpoints import StoredWeights
from engine.warm_start import TakeOver, TakeOverRule
from ssd import nets
from ssd.nets import vgg_reduction


def take_over_rule(net_name: str, class_names: Sequence[str]) -> TakeOverRule:
    """The rule of a net whose labels 1, 2, ... mean `class_names`: its backbone's own, then the heads class by class."""
    backbone = nets.find(net_name).take_over

    def rule(stored: StoredWeights, scope: str, name: str, shape: tuple[int, ...]) -> TakeOver | None:
        found = backbone(stored, scope, name, shape) if backbone else None
        return found or _head(stored, f"{scope}/{name}", shape, class_names)

    return rule


def means_of(net_name: str, stored: StoredWeights | None, scope: str) -> tuple[float, ...]:
    """What a run that starts from `stored` subtracts from its pictures: what those weights were trained with.

    The published SSDs and TF-slim's VGG-16 differ by up to .68. The weights stay bit for bit what they were; moving the
    difference into the first bias would not be exact at the borders, where the padding is 0 after the subtraction.
    """
    if stored is None:
        return nets.find(net_name).means
    if vgg_reduction.holds_vgg_16(stored, scope):
        return vgg_reduction.MEANS
    return tuple(stored.manifest.get("means", nets.find(net_name).means))


def _head(stored: StoredWeights, source: str, shape: tuple[int, ...], class_names: Sequence[str]) -> TakeOver | None:
    """The rule of a head's variables, its last axis laid out [K, 4] or [K, C], in checkpoints that tell their classes."""
    layer = source.split("/")[-2]
    if layer not in ("conv_loc", "conv_cls") or "anchor_set" not in stored.manifest or source not in stored.shapes:
        return None
    there, stored_names = stored.shapes[source], stored.manifest["class_names"]
    if shape[:-1] != there[:-1]:
        return None
    classes, stored_classes = (len(class_names) + 1, len(stored_names) + 1) if layer == "conv_cls" else (4, 4)
    kinds = shape[-1] // classes
    if kinds != there[-1] // stored_classes:
        return TakeOver(f"{there[-1] // stored_classes} kinds of anchors at a cell in the checkpoint, {kinds} here", None)
    if layer == "conv_loc" or list(class_names) == list(stored_names):
        return None
    pairs = _agreeing(class_names, stored_names)

    def fill(initial: np.ndarray) -> np.ndarray:
        filled = initial.reshape(*shape[:-1], kinds, classes).copy()  # [..., K, C]
        stored_values = stored.read(source).reshape(*shape[:-1], kinds, stored_classes)
        filled[..., list(pairs)] = stored_values[..., list(pairs.values())]
        return filled.reshape(shape)

    return TakeOver(_by_class(class_names, pairs), fill)


def _agreeing(class_names: Sequence[str], stored_names: Sequence[str]) -> dict[int, int]:
    """Label here -> label in the checkpoint, of the background and of every name that both have."""
    labels = {name: label for label, name in enumerate(stored_names, start=1)}
    return {0: 0} | {label: labels[name] for label, name in enumerate(class_names, start=1) if name in labels}


def _by_class(class_names: Sequence[str], pairs: dict[int, int]) -> str:
    taken = ["background", *(name for label, name in enumerate(class_names, start=1) if label in pairs)]
    fresh = [name for label, name in enumerate(class_names, start=1) if label not in pairs]
    return f"by class: {', '.join(taken)}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")
