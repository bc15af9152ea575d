"""Draws boxes with names on pictures, and puts pictures side by side."""

import colorsys
import functools
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

GOLDEN_RATIO = 0.618034
MIN_THICKNESS = 2
MIN_FONT_SIZE = 11
FONT_WEIGHT = 500
GAP = 4
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


class _Label(NamedTuple):
    text: str
    color: tuple[int, int, int]
    corners: np.ndarray  # [4] int, box that it belongs to


def draw_boxes(
    image: np.ndarray, boxes: np.ndarray, labels: np.ndarray, class_names: Sequence[str], scores: np.ndarray | None = None
) -> np.ndarray:
    """Returns a copy of an image with named boxes drawn on it.

    Args:
      image: [H, W, 3] uint8, RGB.
      boxes: [N, 4] (ymin, xmin, ymax, xmax) in [0, 1]. What lies outside is drawn at the border; boxes that are not
        finite are left out.
      labels: [N] int, 1 is the first class. Rows of label 0 are padding and left out.
      class_names: name of label 1, of label 2, ...
      scores: [N], for detections: written after the names, and the best ones lie on top. None for ground truths.
    """
    canvas = np.array(image, np.uint8, order="C")
    height, width = canvas.shape[:2]
    scale = np.sqrt(height * width)
    corners, rows = _pixel_corners(boxes, labels, scores, height, width)
    found = [_label(corners[row], int(labels[row]), class_names, None if scores is None else scores[row]) for row in rows]
    for label in found:
        _draw_box(canvas, label, thickness=max(MIN_THICKNESS, round(scale / 250)))
    for label in found:
        _draw_label(canvas, label, font_size=max(MIN_FONT_SIZE, round(scale / 40)))
    return canvas


def contact_sheet(images: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Returns one picture [H, W, 3] uint8 with the images row by row, each centred in a cell of the largest one's size.

    Raises:
      ValueError: there are no images.
    """
    if not images:
        raise ValueError("a contact sheet needs at least one image")
    columns = min(columns, len(images))
    cell_height = max(image.shape[0] for image in images) + GAP
    cell_width = max(image.shape[1] for image in images) + GAP
    rows = -(-len(images) // columns)
    sheet = np.full((rows * cell_height + GAP, columns * cell_width + GAP, 3), WHITE, np.uint8)
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        height, width = image.shape[:2]
        top = GAP + row * cell_height + (cell_height - GAP - height) // 2
        left = GAP + column * cell_width + (cell_width - GAP - width) // 2
        sheet[top : top + height, left : left + width] = image
    return sheet


def class_color(label: int) -> tuple[int, int, int]:
    """Returns the RGB colour of a class: always the same, and unlike that of its neighbours.

    Hues one golden ratio apart never come near each other soon; three brightnesses tell later ones apart.
    """
    hue = (label * GOLDEN_RATIO) % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, (0.95, 0.65, 0.95)[label % 3], (1.0, 1.0, 0.72)[label % 3])
    return round(255 * red), round(255 * green), round(255 * blue)


@functools.lru_cache(maxsize=4096)
def drawable_name(label: int, name: str) -> str:
    """Returns the name, or "class 3" where the font lacks one of its characters."""
    # `isprintable` first: OpenCV crashes on lone surrogates and breaks lines at control characters.
    if name.strip() and name.isprintable() and all(map(_has_glyph, name)):
        return name
    return f"class {label}"


def _pixel_corners(
    boxes: np.ndarray, labels: np.ndarray, scores: np.ndarray | None, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns corners [N, 4] int inside the picture, and the rows to draw, best score last."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    drawn = np.isfinite(boxes).all(axis=1) & (np.asarray(labels) > 0)
    last_pixel = np.array([height, width, height, width]) - 1
    corners = np.round(np.clip(np.where(drawn[:, None], boxes, 0), 0, 1) * last_pixel).astype(int)
    order = np.arange(len(boxes)) if scores is None else np.argsort(scores, kind="stable")
    return corners, order[drawn[order]]


def _label(corners: np.ndarray, label: int, class_names: Sequence[str], score: float | None) -> _Label:
    name = drawable_name(label, class_names[label - 1])
    return _Label(name if score is None else f"{name} {score:.2f}", class_color(label), corners)


def _draw_box(canvas: np.ndarray, label: _Label, thickness: int) -> None:
    ymin, xmin, ymax, xmax = label.corners.tolist()
    cv2.rectangle(canvas, (xmin, ymin), (xmax, ymax), label.color, thickness)


def _draw_label(canvas: np.ndarray, label: _Label, font_size: int) -> None:
    """Writes the text on a filled bar: above the box, or inside it where the picture ends; never past its right border."""
    pad = max(2, font_size // 5)
    bar_height = font_size + 2 * pad
    bar_width = _text_width(label.text, font_size) + 2 * pad
    ymin, xmin = label.corners[:2].tolist()
    top = ymin - bar_height if ymin >= bar_height else max(0, min(ymin, canvas.shape[0] - bar_height))
    left = max(0, min(xmin, canvas.shape[1] - bar_width))
    cv2.rectangle(canvas, (left, top), (left + bar_width - 1, top + bar_height - 1), label.color, cv2.FILLED)
    ink = BLACK if np.dot(label.color, (0.299, 0.587, 0.114)) > 128 else WHITE
    baseline = top + pad + round(0.85 * font_size)
    cv2.putText(canvas, label.text, (left + pad, baseline), ink, _font(), font_size, FONT_WEIGHT)


def _text_width(text: str, font_size: int) -> int:
    _, _, width, _ = cv2.getTextSize((0, 0), text, (0, 0), _font(), font_size, FONT_WEIGHT)
    return width


@functools.cache
def _font() -> cv2.FontFace:
    return cv2.FontFace("sans")


def _has_glyph(char: str) -> bool:
    """OpenCV draws a question mark for what its font lacks."""
    return char == "?" or not np.array_equal(_drawn(char), _drawn("?"))


def _drawn(char: str) -> np.ndarray:
    canvas = np.zeros((32, 48), np.uint8)
    cv2.putText(canvas, char, (8, 24), WHITE, _font(), 16)
    return canvas
