import itertools

import numpy as np
import pytest

from engine.drawing import class_color
from ssd.draw import draw_boxes

NAMES = ["RBC", "WBC", "Platelets"]
GRAY = 90


def gray(height=400, width=600):
    return np.full((height, width, 3), GRAY, np.uint8)


def draw(image, boxes, labels=None, names=NAMES, scores=None):
    boxes = np.array(boxes, np.float32).reshape(-1, 4)
    labels = np.ones(len(boxes), int) if labels is None else np.array(labels)
    return draw_boxes(image, boxes, labels, names, None if scores is None else np.array(scores))


def changed(image):
    """Bounding rows and columns (first y, first x, last y, last x) of what is not gray."""
    rows, columns = np.nonzero((image != GRAY).any(axis=2))
    return rows.min(), columns.min(), rows.max(), columns.max()


def in_color(image, label):
    return (image == class_color(label)).all(axis=2)


def test_box_lies_where_it_should():
    drawn = in_color(draw(gray(), [[0.5, 0.25, 0.75, 0.5]]), 1)
    ymin, xmin, ymax, xmax = 200, 150, 299, 300
    assert drawn[ymin + 10 : ymax - 10, xmin].all()
    assert drawn[ymin + 10 : ymax - 10, xmax].all()
    assert drawn[ymax, xmin:xmax].all()
    assert not drawn[ymin + 10 : ymax - 10, xmin + 10 : xmax - 10].any()
    assert not drawn[ymax + 5 :].any()


def test_input_stays_as_it_was():
    image = gray()
    image.setflags(write=False)
    result = draw(image, [[0.1, 0.1, 0.9, 0.9]], scores=[0.5])
    assert (image == GRAY).all()
    assert result.dtype == np.uint8
    assert result.shape == image.shape
    assert (result != GRAY).any()


@pytest.mark.parametrize("scores", [None, np.zeros(0)])
def test_nothing_to_draw(scores):
    assert (draw(gray(), [], scores=scores) == GRAY).all()


def test_odd_boxes_are_harmless():
    odd = [
        [0.3, 0.3, 0.3, 0.3],
        [0.6, 0.6, 0.4, 0.4],
        [-1, -1, 2, 2],
        [0, 0, 0, 0],
        [1, 1, 1, 1],
        [5, 5, 6, 6],
        [1e30, 0, 1, 1],
    ]
    for size in [(400, 600), (8, 8), (1, 1), (1, 500)]:
        assert draw(gray(*size), odd, scores=np.linspace(0, 1, len(odd))).shape == (*size, 3)
    unusable = [[np.nan, 0, 1, 1], [0, 0, np.inf, 1]]
    assert (draw(gray(), unusable) == GRAY).all()


def test_padding_is_not_drawn():
    assert (draw(gray(), [[0.1, 0.1, 0.9, 0.9]], labels=[0], scores=[0.9]) == GRAY).all()


def test_label_stands_above_the_box_or_inside_at_the_border():
    middle = changed(draw(gray(), [[0.5, 0.25, 0.75, 0.5]]))
    assert 160 < middle[0] < 190
    top = draw(gray(), [[0.0, 0.25, 0.75, 0.5]])
    assert changed(top)[0] == 0
    assert in_color(top, 1)[10, 152:160].any()
    right = draw(gray(), [[0.5, 0.98, 0.75, 1.0]], scores=[0.5])
    assert changed(right)[1] < 560
    assert (right[170:198, 560:] != right[170, 599]).any()


def test_label_is_readable():
    """Text is black on bright colours and white on dark ones."""
    for label in range(1, 40):
        names = ["WWWW"] * 40
        result = draw(gray(), [[0.5, 0.25, 0.75, 0.5]], labels=[label], names=names)
        luminance = np.dot(class_color(label), (0.299, 0.587, 0.114))
        ink = 0 if luminance > 128 else 255
        assert (result == ink).all(axis=2).any()
        assert abs(luminance - ink) > 100


def test_scores_and_names_are_written():
    box = [[0.5, 0.25, 0.75, 0.5]]
    pictures = [
        draw(gray(), box),
        draw(gray(), box, scores=[0.5]),
        draw(gray(), box, scores=[0.9]),
        draw(gray(), box, names=["WBC"]),
        draw(gray(), box, names=["猫"]),
    ]
    assert all((a != b).any() for a, b in itertools.combinations(pictures, 2))


def test_best_score_lies_on_top():
    boxes = [[0.5, 0.25, 0.75, 0.5]] * 2
    one_way = draw(gray(), boxes, labels=[1, 2], scores=[0.9, 0.1])
    other_way = draw(gray(), boxes[::-1], labels=[2, 1], scores=[0.1, 0.9])
    np.testing.assert_array_equal(one_way, other_way)
    assert in_color(one_way, 1)[250, 150]


def test_lines_grow_with_the_picture():
    def thickness(size):
        return in_color(draw(gray(size, size), [[0.5, 0.5, 0.9, 0.9]]), 1)[int(0.8 * size), : int(0.7 * size)].sum()

    assert 1 < thickness(300) < thickness(1500) < 15


def test_names_the_font_lacks_are_drawn_all_the_same():
    for name in ["\U0001f98a", "a\nb", "\ud800", "", "\0"]:
        assert (draw(gray(), [[0.5, 0.25, 0.75, 0.5]], names=[name]) != GRAY).any()
