"""From the pixels of an annotation to coordinates of the upright picture in [0, 1]."""

import dataclasses

import numpy as np

# How far a stated size may be off before it is taken for anything but a slip.
_SLIP_PIXELS = 2


@dataclasses.dataclass(frozen=True)
class Frame:
    """What an annotation's coordinates are measured in: their full width and height, and whether before the EXIF turn.

    `fit` says how it was found: "exact", "scaled" (the picture was resized after labelling) or "mismatch".
    """

    width: float
    height: float
    is_stored: bool
    fit: str


def find_frame(size: tuple[float, float] | None, height: int, width: int, orientation: int) -> Frame:
    """The frame of an annotation with `<size>` (width, height), of a picture that displays as `height` x `width`.

    The picture is right, not `<size>`, with two exceptions: a size of the same shape but another scale gives the scale, and
    one that fits the picture as stored, before a quarter turn by `orientation` (5-8), means boxes drawn on that.
    Where both fit (a half turn, a square picture) the boxes are taken as displayed.
    """
    displayed = Frame(width, height, is_stored=False, fit="exact")
    if size is None:
        return displayed
    frames = [displayed]
    if orientation >= 5:
        frames.append(Frame(height, width, is_stored=True, fit="exact"))
    for tolerance in (0, _SLIP_PIXELS):
        for frame in frames:
            if abs(size[0] - frame.width) <= tolerance and abs(size[1] - frame.height) <= tolerance:
                return frame
    for frame in frames:
        if _is_same_shape(size, (frame.width, frame.height)):
            return Frame(*size, frame.is_stored, fit="scaled")
    return dataclasses.replace(displayed, fit="mismatch")


def _is_same_shape(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether one size can be the other one resized, each side rounded to a whole pixel."""
    return abs(a[0] * b[1] - a[1] * b[0]) <= max(sum(a), sum(b)) / 2


@dataclasses.dataclass(frozen=True)
class Placement:
    """`box` is float32 (ymin, xmin, ymax, xmax) in [0, 1], or None when nothing is left of it, with the reason in `problem`."""

    box: tuple[float, float, float, float] | None
    problem: str = ""
    is_swapped: bool = False
    is_clipped: bool = False


def place(box: tuple[float, float, float, float], frame: Frame, orientation: int) -> Placement:
    """Places (xmin, ymin, xmax, ymax), in units of `frame`, on the upright picture: corners put in order, clipped."""
    xmin, ymin, xmax, ymax = box
    is_swapped = xmin > xmax or ymin > ymax
    if xmin == xmax or ymin == ymax:
        return Placement(None, "box without area", is_swapped)
    a = _turned(xmin / frame.width, ymin / frame.height, orientation if frame.is_stored else 1)
    b = _turned(xmax / frame.width, ymax / frame.height, orientation if frame.is_stored else 1)
    (left, right), (top, bottom) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    placed = tuple(_clipped(value) for value in (top, left, bottom, right))
    if placed[0] >= placed[2] or placed[1] >= placed[3]:
        return Placement(None, "box outside the picture", is_swapped)
    return Placement(placed, "", is_swapped, is_clipped=min(left, top) < 0 or max(right, bottom) > 1)


def _turned(x: float, y: float, orientation: int) -> tuple[float, float]:
    """A point of the stored picture, in [0, 1], after the quarter turn of EXIF orientations 5-8; 1 leaves it."""
    return {1: (x, y), 5: (y, x), 6: (1 - y, x), 7: (1 - y, 1 - x), 8: (y, 1 - x)}[orientation]


def _clipped(value: float) -> float:
    # Rounded as the record will round it: a sliver must not lose its area there.
    return float(np.float32(min(max(value, 0.0), 1.0)))
