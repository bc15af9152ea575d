"""TF-slim's VGG-16, a classifier, as the start of an SSD: its fully connected layers become conv6 and conv7.

fc6 sees 7x7 cells; every third of its rows and columns at rate 6 sees as far (section 3.1 of arXiv:1512.02325, after
arXiv:1412.7062). Of fc6's and fc7's 4,096 channels every fourth stays.
"""

from classify.nets import vgg
from engine.checkpoints import StoredWeights
from engine.warm_start import TakeOver

# What TF-slim's VGG-16 was trained with, subtracted from R, G and B.
MEANS = vgg.IMAGENET_MEANS

_ALL, _THIRD, _FOURTH = slice(None), slice(None, None, 3), slice(None, None, 4)
_STAGES = [name for name, _, _ in vgg.STAGES]
# Variable of the SSD: (variable of VGG-16, what is kept of each of its axes).
_REDUCED = {
    "conv6/weights": ("fc6/weights", (_THIRD, _THIRD, _ALL, _FOURTH)),
    "conv6/biases": ("fc6/biases", (_FOURTH,)),
    "conv7/weights": ("fc7/weights", (_ALL, _ALL, _FOURTH, _FOURTH)),
    "conv7/biases": ("fc7/biases", (_FOURTH,)),
}


def holds_vgg_16(stored: StoredWeights, scope: str) -> bool:
    """Whether the net called `scope` in a checkpoint is VGG-16 with its fully connected layers."""
    return f"{scope}/fc6/weights" in stored.shapes


def take_over(stored: StoredWeights, scope: str, name: str, shape: tuple[int, ...]) -> TakeOver | None:
    """The `TakeOverRule` of the SSDs on VGG-16.

    conv1_1 to conv5_3 are read by their names, conv6 and conv7 reduced, the layers above start fresh. None for
    everything in other checkpoints, and where fc6 and fc7 do not yield `shape`.
    """
    if not holds_vgg_16(stored, scope):
        return None
    if name not in _REDUCED:
        return None if name.split("/", maxsplit=1)[0] in _STAGES else TakeOver("no layer of VGG-16", None)
    layer, kept = _REDUCED[name]
    source = f"{scope}/{layer}"
    there = stored.shapes.get(source, ())
    if len(there) != len(kept) or shape != tuple(len(range(n)[part]) for n, part in zip(there, kept, strict=True)):
        return None
    return TakeOver(f"sub-sampled from {source} {there}", lambda _: stored.read(source)[kept])
