"""Numbers of a classifier, all from its confusion matrix."""

import numpy as np


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """labels [N], predictions [N] -> [C, C] int64: rows are the true classes, columns the predicted ones."""
    cells = np.bincount(labels * num_classes + predictions, minlength=num_classes**2)
    return cells.reshape(num_classes, num_classes)


def precision_at_1(confusion: np.ndarray) -> float:
    """Share of the examples whose highest score is that of their class; NaN without examples."""
    return float(np.trace(confusion) / confusion.sum()) if confusion.sum() else float("nan")


def class_accuracies(confusion: np.ndarray) -> list[float | None]:
    """For each class the share of its examples that are recognised; None for a class without examples."""
    return [float(row[label] / row.sum()) if row.sum() else None for label, row in enumerate(confusion)]
