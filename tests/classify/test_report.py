import json

import numpy as np
import pytest

from classify import report

NAMES = ("cat", "dog", "猫")
CONFUSION = np.array([[8, 2, 0], [1, 3, 0], [0, 0, 0]])


def test_numbers_and_table():
    metrics = report.compute_metrics(CONFUSION, NAMES)
    assert metrics["examples"] == 14
    assert metrics["precision_at_1"] == pytest.approx(11 / 14)
    assert metrics["classes"]["dog"] == {"accuracy": 0.75, "examples": 4}
    assert metrics["classes"]["猫"] == {"accuracy": None, "examples": 0}
    json.dumps(metrics, allow_nan=False)
    table = report.format_table(metrics).splitlines()
    assert table[1].split() == ["cat", "0.800", "10", "dog", "(2)"]
    assert table[3].split() == ["猫", "n/a", "0"]


def test_the_confusion_matrix_is_darkest_on_a_perfect_diagonal():
    picture = report.draw_confusion(np.diag([5, 5, 5]), NAMES)
    assert picture.shape[0] == picture.shape[1]
    size = report._CELL
    corners = [picture[-size * (3 - i) + 3, -size * (3 - j) + 3].tolist() for i in range(3) for j in range(3)]
    assert [color == [20, 60, 140] for color in corners] == [i == j for i in range(3) for j in range(3)]
    assert report.draw_confusion(np.array([[123456, 1], [0, 9]]), ["a", "a very long class name"]).shape[2] == 3


def test_predictions_name_what_is_wrong_in_red():
    images = [np.full((32, 32, 3), 128, np.uint8), np.full((400, 20, 3), 128, np.uint8), np.full((1, 1, 3), 128, np.uint8)]
    # One name begins with another one; one cannot be drawn.
    names = ("cat", "catfish", "\U0001f98a")

    def sheet(predictions, truths):
        return report.draw_predictions(images, predictions, names, truths=truths, columns=2)

    def reddish(picture):
        return ((picture[..., 0] > 150) & (picture[..., 1] < 60)).any()

    assert not reddish(sheet([0, 1, 2], [0, 1, 2]))
    assert reddish(sheet([0, 1, 2], [0, 0, 2]))
    assert reddish(sheet([0, 1, 1], [0, 1, 2]))
    # The stand-in is the class's, wherever the picture stands on the sheet.
    named = report.draw_predictions(images[:2], [0, 2], (*names[:2], "class 2"), scores=[0.5, 0.9])
    np.testing.assert_array_equal(named, report.draw_predictions(images[:2], [0, 2], names, scores=[0.5, 0.9]))
    assert (named != report.draw_predictions(images[:2], [0, 1], names, scores=[0.5, 0.9])).any()
