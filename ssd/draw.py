"""Draws boxes with names on pictures."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from engine.drawing import class_color, drawable_name, ink_on, text_width, write_text

MIN_THICKNESS = 2
MIN_FONT_SIZE = 11


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
    bar_width = text_width(label.text, font_size) + 2 * pad
    ymin, xmin = label.corners[:2].tolist()
    top = ymin - bar_height if ymin >= bar_height else max(0, min(ymin, canvas.shape[0] - bar_height))
    left = max(0, min(xmin, canvas.shape[1] - bar_width))
    cv2.rectangle(canvas, (left, top), (left + bar_width - 1, top + bar_height - 1), label.color, cv2.FILLED)
    write_text(canvas, label.text, left + pad, top + pad, font_size, ink_on(label.color))
