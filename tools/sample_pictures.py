"""Pictures for the sample data set: discs, squares and triangles on gradients, stripes, clouds or clutter.

Figures are vivid and backgrounds muted, so that a small net learns to find them from a few hundred pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

NAMES = ("disc", "square", "triangle")
# Figures stand, a little tilted: shapes at any angle need far more pictures to learn from.
UPRIGHT = {"disc": 0.0, "square": np.pi / 4, "triangle": -np.pi / 2}
MAX_TILT = np.pi / 12
SIDES = (240, 500)  # pixels
EMPTY_SHARE = 0.05  # of the pictures, without any figure
MAX_FIGURES = 6
DIAMETERS = (0.2, 0.6)  # of the circle around a figure, as a part of the picture's shorter side
MAX_SHARED = 0.1  # the part of the smaller of two boxes that both may share
CROWDED_SHARE = 0.06  # of the figures, which may share up to MAX_SHARED_CROWDED
MAX_SHARED_CROWDED = 0.6
FAINT_SHARE = 0.05  # of the figures, nearly transparent and marked difficult
FAINT_OPACITY = 0.3
MIN_VISIBLE = 0.7  # a figure of which others hide more is marked difficult
SHADOW_REACH = 16  # pixels beyond a figure
# Masks are drawn larger, so that edges come out smooth.
SUPERSAMPLING = 4

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Shape:
    """Where a figure is: `centre` (y, x) and `radius` of the circle around it in pixels, `angle` in radians."""

    name: str
    centre: tuple[float, float]
    radius: float
    angle: float


@dataclass(frozen=True)
class Figure:
    """An object in a picture; `box` (ymin, xmin, ymax, xmax) in pixels, the last two one past its last pixel."""

    shape: Shape
    box: Box
    difficult: bool


@dataclass(frozen=True)
class Picture:
    """`image` [H, W, 3] uint8 RGB and its figures, the last one on top."""

    image: np.ndarray
    figures: tuple[Figure, ...]


def draw_picture(rng: np.random.Generator) -> Picture:
    """A random picture; the same one for the same state of the generator."""
    height, width = (int(side) for side in rng.integers(*SIDES, 2, endpoint=True))
    image = draw_background(rng, height, width)
    shapes = place_shapes(rng, height, width)
    masks = [draw_mask(shape, height, width) for shape in shapes]
    boxes = [tight_box(mask) for mask in masks]
    faint = (rng.random(len(shapes)) < FAINT_SHARE).tolist()
    for mask, box, is_faint in zip(masks, boxes, faint, strict=True):
        paint(rng, image, mask * (FAINT_OPACITY if is_faint else 1), box)
    difficult = [is_faint or visible_share(masks, index) < MIN_VISIBLE for index, is_faint in enumerate(faint)]
    return Picture(image, tuple(map(Figure, shapes, boxes, difficult)))


def place_shapes(rng: np.random.Generator, height: int, width: int) -> list[Shape]:
    """None to MAX_FIGURES shapes wholly within the picture that hardly cover one another."""
    shapes: list[Shape] = []
    if rng.random() < EMPTY_SHARE:
        return shapes
    for _ in range(rng.integers(1, MAX_FIGURES, endpoint=True)):
        limit = MAX_SHARED_CROWDED if rng.random() < CROWDED_SHARE else MAX_SHARED
        candidates = (random_shape(rng, height, width) for _ in range(30))
        fitting = (c for c in candidates if all(shared_part(c, other) <= limit for other in shapes))
        if shape := next(fitting, None):
            shapes.append(shape)
    return shapes


def random_shape(rng: np.random.Generator, height: int, width: int) -> Shape:
    """A shape whose circle lies within the picture."""
    radius = rng.uniform(*DIAMETERS) * min(height, width) / 2
    centre = (rng.uniform(radius, height - radius), rng.uniform(radius, width - radius))
    name = NAMES[rng.integers(len(NAMES))]
    return Shape(name, centre, radius, UPRIGHT[name] + rng.uniform(-MAX_TILT, MAX_TILT))


def outline(shape: Shape) -> np.ndarray:
    """The shape's corners [K, 2] (y, x); a disc has 90."""
    corners = {"disc": 90, "square": 4, "triangle": 3}[shape.name]
    angles = shape.angle + np.arange(corners) * 2 * np.pi / corners
    return np.array(shape.centre) + shape.radius * np.stack([np.sin(angles), np.cos(angles)], axis=1)


def shared_part(first: Shape, second: Shape) -> float:
    """The area that the boxes of two shapes have in common, as a part of the smaller box."""
    corners = [outline(first), outline(second)]
    low = np.array([points.min(axis=0) for points in corners])  # [2, (y, x)]
    high = np.array([points.max(axis=0) for points in corners])
    common = np.maximum(high.min(axis=0) - low.max(axis=0), 0).prod()
    return common / (high - low).prod(axis=1).min()


def draw_mask(shape: Shape, height: int, width: int) -> np.ndarray:
    """The covered part [H, W] float32 in 0..1 of each pixel."""
    corners = outline(shape)
    top, left = np.floor(corners.min(axis=0)).astype(int)
    bottom, right = np.minimum(np.ceil(corners.max(axis=0)).astype(int), (height, width))
    large = np.zeros(((bottom - top) * SUPERSAMPLING, (right - left) * SUPERSAMPLING), np.uint8)
    # OpenCV wants (x, y), and counts from the centre of the first pixel.
    points = np.rint((corners - (top, left))[:, ::-1] * SUPERSAMPLING - 0.5).astype(np.int32)
    cv2.fillPoly(large, [points], 255)
    mask = np.zeros((height, width), np.float32)
    mask[top:bottom, left:right] = cv2.resize(large, (right - left, bottom - top), interpolation=cv2.INTER_AREA)
    return mask / 255


def tight_box(mask: np.ndarray) -> Box:
    """The box around the pixels that are covered by half or more."""
    rows, columns = np.nonzero(mask >= 0.5)
    return int(rows.min()), int(columns.min()), int(rows.max()) + 1, int(columns.max()) + 1


def visible_share(masks: Sequence[np.ndarray], index: int) -> float:
    """The part of one mask that no later mask covers."""
    mask = masks[index]
    above = np.maximum.reduce([np.zeros_like(mask), *masks[index + 1 :]])
    return float((mask * (1 - above)).sum() / mask.sum())


def paint(rng: np.random.Generator, image: np.ndarray, mask: np.ndarray, box: Box) -> None:
    """Draws a figure of a random vivid colour into the image: a soft shadow, a shaded body, a dark rim."""
    ymin, xmin, ymax, xmax = box
    area = (slice(max(ymin - SHADOW_REACH, 0), ymax + SHADOW_REACH), slice(max(xmin - SHADOW_REACH, 0), xmax + SHADOW_REACH))
    mask = mask[area]
    colour = hsv_to_rgb(rng.uniform(0, 360), rng.uniform(0.7, 1), rng.uniform(0.75, 1))
    shadow = cv2.GaussianBlur(cv2.warpAffine(mask, np.float32([[1, 0, 3], [0, 1, 4]]), mask.shape[::-1]), (0, 0), 3)
    shade = np.linspace(1.15, 0.75, len(mask), dtype=np.float32)[:, None]
    rim = mask - cv2.erode(mask, np.ones((5, 5), np.uint8))
    body = colour * (shade * (1 - 0.55 * rim))[..., None]
    ground = image[area] * (1 - 0.35 * shadow)[..., None]
    image[area] = to_uint8(ground + (body - ground) * mask[..., None])


def draw_background(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A muted picture [H, W, 3] uint8: two colours mixed by a random pattern, and a little noise."""
    pattern = (gradient, stripes, clouds, clutter)[rng.integers(4)]
    share = pattern(rng, height, width)[..., None]
    value = rng.uniform(0.35, 0.9)
    first, second = (
        hsv_to_rgb(rng.uniform(0, 360), rng.uniform(0.05, 0.35), value + step) for step in (-0.12, rng.uniform(0.02, 0.1))
    )
    noise = rng.standard_normal((height, width, 1), np.float32) * np.float32(rng.uniform(1, 8))
    return to_uint8(first + (second - first) * share.astype(np.float32) + noise)


def gradient(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A pattern [H, W] in 0..1 that grows in a random direction."""
    ramp = along_direction(rng, height, width)
    return (ramp - ramp.min()) / np.ptp(ramp)


def stripes(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A pattern [H, W] in 0..1 of waves in a random direction."""
    return 0.5 + 0.5 * np.sin(along_direction(rng, height, width) * 2 * np.pi / rng.uniform(12, 60))


def clouds(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A pattern [H, W] in 0..1 of smooth blots."""
    coarse = rng.random((int(rng.integers(3, 9)), int(rng.integers(3, 9))))
    return np.clip(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), 0, 1)


def clutter(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A pattern [H, W] in 0..1 of thin lines over a gradient."""
    pattern = gradient(rng, height, width).astype(np.float32)
    for _ in range(rng.integers(15, 40)):
        start = rng.uniform(0, 1, 2) * (width, height)
        end = start + rng.uniform(-80, 80, 2)
        cv2.line(pattern, np.intp(start).tolist(), np.intp(end).tolist(), rng.random(), int(rng.integers(1, 4)), cv2.LINE_AA)
    return pattern


def along_direction(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Each pixel's place [H, W] in pixels along a random direction."""
    angle = rng.uniform(0, 2 * np.pi)
    return np.arange(height)[:, None] * np.sin(angle) + np.arange(width) * np.cos(angle)


def hsv_to_rgb(hue: float, saturation: float, value: float) -> np.ndarray:
    """An RGB colour [3] float32 in 0-255; hue in degrees, the rest in 0..1."""
    pixel = np.float32([[[hue, saturation, value]]])
    return cv2.cvtColor(pixel, cv2.COLOR_HSV2RGB)[0, 0] * 255


def to_uint8(image: np.ndarray) -> np.ndarray:
    """Values rounded and saturated."""
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)
