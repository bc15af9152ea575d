import itertools

import numpy as np
import pytest

from engine.drawing import class_color, contact_sheet, drawable_name, ink_on, text_width, write_text


def test_names_the_font_lacks_get_a_stand_in():
    for name in ["cat", "café", "猫", "Tie Fighter", "3024", "what?"]:
        assert drawable_name(3, name) == name
    for name in ["\U0001f98a", "cat \U0001f98a", "a\nb", "tab\t", "\ud800", "", " ", "\0"]:
        assert drawable_name(3, name) == "class 3"


def test_text_is_written_where_it_should_be():
    canvas = np.full((40, 120, 3), 255, np.uint8)
    write_text(canvas, "HHH", left=10, top=5, font_size=20)
    rows, columns = np.nonzero((canvas != 255).any(axis=2))
    assert 5 <= rows.min() < rows.max() < 25
    assert 10 <= columns.min() < columns.max() <= 10 + text_width("HHH", 20)


def test_ink_can_be_read_on_its_ground():
    assert [ink_on(color) for color in ((255, 255, 255), (0, 255, 0), (0, 0, 255), (10, 10, 10))] == [
        (0, 0, 0),
        (0, 0, 0),
        (255, 255, 255),
        (255, 255, 255),
    ]


def test_colors_are_stable_and_distinct():
    assert class_color(1) == class_color(1)
    colors = np.array([class_color(label) for label in range(1, 81)])
    assert len({tuple(color) for color in colors.tolist()}) == 80
    for number, distance in [(20, 75), (80, 20)]:
        assert min(np.abs(a - b).sum() for a, b in itertools.combinations(colors[:number], 2)) > distance


def test_contact_sheet_centres_pictures_in_equal_cells():
    large, small = np.full((50, 80, 3), 10, np.uint8), np.full((20, 30, 3), 20, np.uint8)
    sheet = contact_sheet([large, small, large], columns=2)
    assert sheet.shape == (2 * 54 + 4, 2 * 84 + 4, 3)
    assert (sheet[4:54, 4:84] == 10).all()
    assert (sheet[58:108, 4:84] == 10).all()
    assert (sheet[19:39, 113:143] == 20).all()
    assert (sheet[58:108, 88:168] == 255).all()
    assert contact_sheet([small], columns=4).shape == (28, 38, 3)


def test_contact_sheet_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one image"):
        contact_sheet([], columns=2)
