"""Fits a net's anchors to the objects of a data set, and tells how the net's own sets and the fitted one suit them.

    python tools/fit_anchors.py --dataset_dir=DATA --dataset_split_name=train --model_name=ssd_tiny --output_file=anchors.json

Objects count as the net sees them: in the picture stretched to its square input, before augmentation. The fitted set has
the feature maps and the kinds at a cell of the net's own, so that the net stays as it is; `ssd.train` takes the file as
--anchor_set=anchors.json. The table goes to stdout.
"""

import dataclasses
import pathlib

import numpy as np

from engine import flags
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.progress import progress, say
from ssd import anchor_fit, anchor_sets, coverage, dataset, nets
from ssd.anchors import AnchorSpec
from ssd.coverage import Coverage
from ssd.dataset import Objects
from ssd.report import column_widths, line_up

_THRESHOLD = 0.5
# Sides of the squares that part small from medium and medium from large objects, as COCO has them.
_MEDIUM, _LARGE = 32, 96


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    dataset_dir: str = flag("", "folder with the TFRecord files", required=True)
    dataset_name: str = flag("", "name of the data set in that folder (default: the only one there)")
    dataset_split_name: str = flag("train", "split whose objects are fitted to")
    labels_offset: int = flag(0, "subtracted from every label in the records")
    model_name: str = flag("ssd_300_vgg", "the net", choices=tuple(nets.NETS))
    output_file: str = flag("", "JSON file to write; one that exists is refused", required=True)


def main(config: Config) -> None:
    output_file = pathlib.Path(config.output_file)
    if output_file.exists():
        raise UserError(f"--output_file={output_file}: exists already; choose another file")
    split = dataset.open_split(config.dataset_dir, config.dataset_name, config.dataset_split_name)
    objects = _read(config, split)
    if not len(objects.labels):
        raise UserError(f"--dataset_split_name={split.split}: {split.name} has no objects there to fit anchors to")
    specs = dict(nets.find(config.model_name).anchors)
    measured = {name: _measure(spec, objects) for name, spec in specs.items()}
    best = min(measured, key=lambda name: np.count_nonzero(measured[name].uncovered))
    sizes = (objects.boxes[:, 2:] - objects.boxes[:, :2]) * specs[best].image_size
    fitted = anchor_fit.fit(specs[best], sizes)
    measured["fitted"] = _measure(fitted, objects)
    class_names = split.names(int(objects.labels.max()) + 1)
    groups = _groups(objects.labels, sizes, class_names)
    print(f"objects of {split.name} {split.split} without an anchor at IoU {coverage.shown_iou(_THRESHOLD)}:")
    print(_table(measured, groups, num_pictures=len(split.records)))
    print(_shapes(fitted))
    if measured["fitted"].uncovered.sum() >= measured[best].uncovered.sum():
        say(f"note: the fitted set leaves no fewer objects without an anchor than {best}")
    write_json(output_file, anchor_sets.to_json(fitted, config.model_name))
    print(f"{output_file}: {anchor_sets.custom(fitted).name}; ssd.train takes it as --anchor_set={output_file}")


def _read(config: Config, split: dataset.Split) -> Objects:
    total = len(split.records)
    numbers = progress(range(total), "reading", total=total, unit="picture")
    return split.objects(numbers, num_classes=np.iinfo(np.int64).max, labels_offset=config.labels_offset)


def _measure(spec: AnchorSpec, objects: Objects) -> Coverage:
    return coverage.measure(spec, objects.boxes, objects.pictures, _THRESHOLD)


def _groups(labels: np.ndarray, sizes: np.ndarray, class_names: tuple[str, ...]) -> list[tuple[str, np.ndarray]]:
    """The rows of the table: a name, and which objects [N] bool it is about."""
    areas = sizes.prod(axis=1)
    is_small, is_large = areas < _MEDIUM**2, areas > _LARGE**2
    return [
        ("all", np.ones(len(labels), bool)),
        *((name, labels == label) for label, name in enumerate(class_names, start=1)),
        (f"small (under {_MEDIUM}x{_MEDIUM} pixels of the net's input)", is_small),
        ("medium", ~is_small & ~is_large),
        (f"large (over {_LARGE}x{_LARGE})", is_large),
    ]


def _table(measured: dict[str, Coverage], groups: list[tuple[str, np.ndarray]], *, num_pictures: int) -> str:
    columns = measured.values()
    rows = [["", "objects", *measured]]
    for name, group in groups:
        rows.append([name, f"{group.sum():,}", *(_share(found.uncovered[group]) for found in columns)])
    positives = (found.num_positives(every_object=True) / num_pictures for found in columns)
    rows.append(["mean of the best IoU", "", *(f"{found.best_ious.mean():.3f}" for found in columns)])
    rows.append(["positives a picture", "", *(f"{number:.1f}" for number in positives)])
    widths = column_widths(rows)
    return "\n".join(line_up(cells, widths) for cells in rows)


def _share(uncovered: np.ndarray) -> str:
    return f"{uncovered.sum():,} ({100 * uncovered.mean():.1f} %)" if len(uncovered) else "0 (n/a)"


def _shapes(spec: AnchorSpec) -> str:
    """A line for each feature map: the shapes at its cells."""
    lines = ["fitted shapes, height x width (ratio of width to height) in pixels of the net's input:"]
    for layer in spec.layers:
        shapes = (f"{height:g}x{width:g} ({width / height:.2f})" for height, width in layer.shapes)
        lines.append(f"  {layer.map_size}x{layer.map_size} map: {', '.join(shapes)}")
    return "\n".join(lines)


if __name__ == "__main__":
    flags.run(Config, main)
