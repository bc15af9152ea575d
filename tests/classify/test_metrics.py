import numpy as np
import pytest

from classify.metrics import class_accuracies, confusion_matrix, precision_at_1


def test_by_hand():
    labels, predictions = np.array([0, 0, 0, 1, 1, 3]), np.array([0, 0, 1, 1, 0, 2])
    confusion = confusion_matrix(labels, predictions, 4)
    assert confusion.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]
    assert precision_at_1(confusion) == pytest.approx(3 / 6)
    assert class_accuracies(confusion) == [pytest.approx(2 / 3), 0.5, None, 0.0]


def test_the_last_of_a_thousand_is_wrong():
    labels = np.arange(1000) % 10
    predictions = labels.copy()
    predictions[-1] = 0
    assert precision_at_1(confusion_matrix(labels, predictions, 10)) == 0.999


def test_without_examples():
    confusion = confusion_matrix(np.zeros(0, int), np.zeros(0, int), 3)
    assert np.isnan(precision_at_1(confusion))
    assert class_accuracies(confusion) == [None, None, None]
