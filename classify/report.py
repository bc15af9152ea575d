"""A classifier's numbers as a table, as JSON, and its confusion matrix and predictions as pictures."""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from classify.metrics import class_accuracies, precision_at_1
from engine.drawing import BLACK, WHITE, contact_sheet, drawable_name, ink_on, text_width, write_text

_CELL, _FONT_SIZE, _PAD = 44, 14, 6
_SHOWN_SIDE = 128
_RIGHT, _WRONG = (0, 120, 0), (200, 0, 0)


def compute_metrics(confusion: np.ndarray, class_names: Sequence[str]) -> dict[str, Any]:
    """confusion [C, C] -> {"examples", "precision_at_1", "classes": {name: {"accuracy", "examples"}}, "confusion"}."""
    counts = confusion.sum(axis=1)
    rows = zip(class_names, class_accuracies(confusion), counts, strict=True)
    return {
        "examples": int(confusion.sum()),
        "precision_at_1": precision_at_1(confusion),
        "classes": {name: {"accuracy": accuracy, "examples": int(count)} for name, accuracy, count in rows},
        "confusion": confusion.tolist(),
    }


def format_table(metrics: dict[str, Any]) -> str:
    """One line a class: its accuracy, examples, and what it is most often taken for."""
    names = list(metrics["classes"])
    width = max(len("class"), *map(len, names))
    lines = [f"{'class':{width}}  accuracy  examples  most often taken for"]
    for label, (name, row) in enumerate(metrics["classes"].items()):
        accuracy = "n/a" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
        taken_for = _worst_mistake(metrics["confusion"][label], label, names)
        lines.append(f"{name:{width}}  {accuracy:>8}  {row['examples']:>8}  {taken_for}".rstrip())
    return "\n".join(lines)


def _worst_mistake(row: Sequence[int], label: int, names: Sequence[str]) -> str:
    count, other = max((count, other) for other, count in enumerate(row) if other != label)
    return f"{names[other]} ({count})" if count else ""


def draw_confusion(confusion: np.ndarray, class_names: Sequence[str]) -> np.ndarray:
    """The matrix as a picture [H, W, 3] uint8: rows are the true classes, columns the predicted ones.

    A cell is as dark as its share of the row; the number in it is the count.
    """
    names = [drawable_name(label, name) for label, name in enumerate(class_names)]
    margin = max(text_width(name, _FONT_SIZE) for name in names) + 2 * _PAD
    size = _CELL * len(names)
    canvas = np.full((margin + size, margin + size, 3), WHITE, np.uint8)
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    for row, name in enumerate(names):
        top = margin + row * _CELL
        write_text(canvas, name, _PAD, top + (_CELL - _FONT_SIZE) // 2, _FONT_SIZE)
        _write_upwards(canvas, name, left=top + (_CELL - _FONT_SIZE) // 2, bottom=margin - _PAD)
        for column in range(len(names)):
            _draw_cell(canvas, top, margin + column * _CELL, int(confusion[row, column]), float(shares[row, column]))
    return canvas


def _write_upwards(canvas: np.ndarray, text: str, left: int, bottom: int) -> None:
    strip = np.full((_FONT_SIZE + 4, text_width(text, _FONT_SIZE) + 2, 3), WHITE, np.uint8)
    write_text(strip, text, 0, 0, _FONT_SIZE)
    turned = cv2.rotate(strip, cv2.ROTATE_90_COUNTERCLOCKWISE)
    height, width = turned.shape[:2]
    canvas[bottom - height : bottom, left : left + width] = turned


def _draw_cell(canvas: np.ndarray, top: int, left: int, count: int, share: float) -> None:
    color = tuple(round(255 - share * (255 - dark)) for dark in (20, 60, 140))
    canvas[top + 1 : top + _CELL, left + 1 : left + _CELL] = color
    text = str(count) if count else ""
    font_size = _FONT_SIZE if len(text) < 5 else _FONT_SIZE - 4
    across = left + (_CELL - text_width(text, font_size)) // 2
    write_text(canvas, text, across, top + (_CELL - font_size) // 2, font_size, ink_on(color))


def draw_predictions(
    images: Sequence[np.ndarray],
    predictions: Sequence[int],
    class_names: Sequence[str],
    *,
    scores: Sequence[float] | None = None,
    truths: Sequence[int] | None = None,
    columns: int = 6,
) -> np.ndarray:
    """A sheet of the pictures [H, W, 3] uint8, below each the class it was taken for.

    Given scores, they stand behind the names; given the true classes, right ones are green, wrong ones red.

    Raises:
        ValueError: there are no pictures.
    """
    names = [drawable_name(label, name) for label, name in enumerate(class_names)]
    tiles = []
    for number, (image, prediction) in enumerate(zip(images, predictions, strict=True)):
        text, color = names[prediction], BLACK
        if scores is not None:
            text = f"{text} {scores[number]:.2f}"
        if truths is not None:
            truth = truths[number]
            color, text = (_RIGHT, text) if truth == prediction else (_WRONG, f"{text}, is {names[truth]}")
        tiles.append(_captioned(image, text, color))
    return contact_sheet(tiles, columns)


def _captioned(image: np.ndarray, text: str, color: tuple[int, int, int]) -> np.ndarray:
    scale = _SHOWN_SIDE / max(image.shape[:2])
    size = [max(1, round(side * scale)) for side in (image.shape[1], image.shape[0])]
    # Few pixels are shown as they are, not blurred.
    shown = cv2.resize(image, size, interpolation=cv2.INTER_NEAREST if scale > 2 else cv2.INTER_AREA)
    width = max(_SHOWN_SIDE, text_width(text, _FONT_SIZE) + _PAD)
    tile = np.full((_SHOWN_SIDE + _FONT_SIZE + _PAD, width, 3), WHITE, np.uint8)
    top, left = (_SHOWN_SIDE - shown.shape[0]) // 2, (width - shown.shape[1]) // 2
    tile[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    write_text(tile, text, (width - text_width(text, _FONT_SIZE)) // 2, _SHOWN_SIDE + 2, _FONT_SIZE, color)
    return tile
