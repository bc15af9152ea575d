"""From the detections of a whole split to the numbers of an evaluation: a dictionary and a table."""

import math
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from engine.errors import UserError
from ssd.coco_metrics import coco_average_precision
from ssd.metrics import Detections, GroundTruths, average_precision, mean_over_classes, num_counted, of_class, rank_hits

# Key in the metrics -> head of its column.
KINDS = {"voc2007": "VOC 2007", "voc2012": "VOC 2012", "coco": "COCO AP", "coco50": "AP50"}
COUNTS = {"ground_truths": "ground truths", "detections": "detections"}
# Finer than anybody reads; rounds away that pycocotools writes a perfect precision as 1 - 2e-16.
DECIMALS = 10


class Results:
    """Detections and ground truths of the images seen so far, as compact arrays: bytes per box, not objects."""

    def __init__(self) -> None:
        self.num_images = 0
        self._detections: list[Detections] = []
        self._ground_truths: list[GroundTruths] = []

    def add(
        self,
        *,
        boxes: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        true_boxes: np.ndarray,
        true_labels: np.ndarray,
        difficult: np.ndarray,
    ) -> None:
        """Adds one image. Each call is an image of its own, whatever its name.

        Args:
          boxes: [D, 4] detected boxes in pixels, (ymin, xmin, ymax, xmax).
          scores: [D].
          labels: [D], 1 is the first class. Rows of label 0 are padding and left out.
          true_boxes: [N, 4] labelled objects in pixels.
          true_labels: [N], likewise.
          difficult: [N] bool or 0/1.
        """
        found, real = np.asarray(labels) > 0, np.asarray(true_labels) > 0
        self._detections.append(Detections(self._image(found), *_compact(found, boxes, scores, labels)))
        rows = GroundTruths(self._image(real), *_compact(real, true_boxes, true_labels, difficult))
        self._ground_truths.append(rows._replace(difficult=rows.difficult.astype(bool)))
        self.num_images += 1

    def _image(self, kept: np.ndarray) -> np.ndarray:
        return np.full(np.count_nonzero(kept), self.num_images, np.int32)

    def detections(self) -> Detections:
        """Returns the rows of all images so far; `images` counts them from 0 in the order of `add`."""
        return Detections(*map(np.concatenate, zip(_NO_DETECTIONS, *self._detections, strict=True)))

    def ground_truths(self) -> GroundTruths:
        """Returns the rows of all images so far, likewise."""
        return GroundTruths(*map(np.concatenate, zip(_NO_GROUND_TRUTHS, *self._ground_truths, strict=True)))


_NO_DETECTIONS = Detections(np.zeros(0, np.int32), np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32))
_NO_GROUND_TRUTHS = GroundTruths(np.zeros(0, np.int32), np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.zeros(0, bool))


def _compact(kept: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Returns the kept rows as 32-bit copies, so that no batch stays alive behind them."""
    arrays = [np.asarray(column)[kept] for column in columns]
    return [array.astype(np.float32 if array.dtype.kind == "f" else np.int32) for array in arrays]


def compute_metrics(results: Results, class_names: Sequence[str]) -> dict:
    """Computes the content of `metrics.json`.

    Args:
      results: everything that counts, each image once.
      class_names: name of label 1, of label 2, ...

    Returns:
      {"images": number, "mAP": {kind: mean over the classes that have a value},
       "classes": {name: {kind: value, "ground_truths": number, "detections": number}}}, kinds as in `KINDS`.
      Values lie in [0, 1]; None stands where a class has no object to find. `ground_truths` leaves difficult objects
      out, as all the values do.

    Raises:
      UserError: an object has a label that no class name stands for.
    """
    detections, ground_truths = results.detections(), results.ground_truths()
    largest = max(ground_truths.labels.max(initial=0), detections.labels.max(initial=0))
    if largest > len(class_names):
        raise UserError(
            f"label {largest} has no class name: there are {len(class_names)} classes; were they written for other data?"
        )
    classes = {
        name: _class_metrics(of_class(detections, label), of_class(ground_truths, label))
        for label, name in enumerate(class_names, start=1)
    }
    means = {kind: mean_over_classes(row[kind] for row in classes.values()) for kind in KINDS}
    return {
        "images": results.num_images,
        "mAP": _for_json(means),
        "classes": {name: _for_json(row) for name, row in classes.items()},
    }


def _class_metrics(detections: Detections, ground_truths: GroundTruths) -> dict[str, float]:
    hits, num_objects = rank_hits(detections, ground_truths), num_counted(ground_truths)
    coco, coco50 = coco_average_precision(detections, ground_truths)
    return {
        "voc2007": average_precision(hits, num_objects, eleven_point=True),
        "voc2012": average_precision(hits, num_objects, eleven_point=False),
        "coco": coco,
        "coco50": coco50,
        "ground_truths": num_objects,
        "detections": len(detections.scores),
    }


def _for_json(row: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no NaN."""
    return {key: None if math.isnan(value) else round(value, DECIMALS) for key, value in row.items()}


def format_table(metrics: Mapping, settings: Mapping[str, object]) -> str:
    """Writes metrics, as `compute_metrics` returns them, as lines of text: a class a row, their mean, the settings.

    The settings belong to the numbers: another score threshold or keep_top_k gives another mAP.
    """
    head = ["class", *KINDS.values(), *COUNTS.values()]
    rows = [
        [name, *(_value(row[kind]) for kind in KINDS), *(str(row[count]) for count in COUNTS)]
        for name, row in metrics["classes"].items()
    ]
    totals = (str(sum(row[count] for row in metrics["classes"].values())) for count in COUNTS)
    mean = ["mean", *(_value(metrics["mAP"][kind]) for kind in KINDS), *totals]
    widths = column_widths([head, *rows, mean])
    rule = ["-" * width for width in widths]
    lines = [line_up(cells, widths) for cells in (head, rule, *rows, rule, mean)]
    noted = ", ".join(f"{name} {value}" for name, value in {"images": metrics["images"], **settings}.items())
    return "\n".join([*lines, noted])


def _value(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4f}"


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column of a table, in columns of the terminal."""
    return [max(map(_width, column)) for column in zip(*rows, strict=True)]


def line_up(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row of a table: the first cell starts its column, the others end theirs."""
    blanks = [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
    numbers = (blank + cell for cell, blank in zip(cells[1:], blanks[1:], strict=True))
    return "  ".join([cells[0] + blanks[0], *numbers])


def _width(text: str) -> int:
    """Columns that a terminal gives the text: East Asian characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)
