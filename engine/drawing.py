"""Text, colours and sheets of pictures: what pictures for people are made of. Images are [H, W, 3] uint8 RGB."""

import colorsys
import functools
from collections.abc import Sequence

import cv2
import numpy as np

GOLDEN_RATIO = 0.618034
FONT_WEIGHT = 500
GAP = 4
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


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


def write_text(canvas: np.ndarray, text: str, left: int, top: int, font_size: int, color: tuple[int, int, int] = BLACK) -> None:
    """Writes a line of text into the canvas, its upper left corner at the given pixel."""
    cv2.putText(canvas, text, (left, top + round(0.85 * font_size)), color, _font(), font_size, FONT_WEIGHT)


def ink_on(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns black or white, whichever is read more easily on a colour."""
    return BLACK if np.dot(color, (0.299, 0.587, 0.114)) > 128 else WHITE


def text_width(text: str, font_size: int) -> int:
    """Returns the width in pixels of a line of text; `font_size` is the height of a line in pixels."""
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
