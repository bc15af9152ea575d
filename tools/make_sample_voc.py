"""Draws a small Pascal-VOC data set: discs, squares and triangles on busy backgrounds, with tight boxes.

    python tools/make_sample_voc.py --output_dir DIR [--train 200] [--val 50] [--seed 0]

writes DIR/Annotations/*.xml, DIR/JPEGImages/*.jpg and DIR/ImageSets/Main/{train,val}.txt. Picture i of a split
depends on the seed, the split and i alone. Boxes are pixel corners: xmin and ymin of the first pixel, xmax and
ymax one past the last, so that a full-width object has xmin 0 and xmax the picture's width.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from engine import flags, images
from engine.errors import UserError
from engine.files import writing
from engine.flags import flag
from engine.progress import progress
from tools.sample_pictures import Picture, draw_picture

SPLITS = ("train", "val")


@dataclass(frozen=True, kw_only=True)
class Config:
    output_dir: str = flag("", "folder to make; must not hold anything yet", required=True)
    train: int = flag(200, "pictures to train on", minimum=0)
    val: int = flag(50, "pictures to evaluate on", minimum=0)
    seed: int = flag(0, "everything drawn depends on it", minimum=0)


def main(config: Config) -> None:
    """Writes the data set, whole or not at all; raises UserError for a folder in use or one that cannot be written."""
    target = Path(config.output_dir).resolve()
    _check(target)
    # Written beside its place and moved there at the end: an interrupted run leaves no half a data set.
    unfinished = target.with_name(f".{target.name}.unfinished")
    with writing(target):
        shutil.rmtree(unfinished, ignore_errors=True)
        for folder in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (unfinished / folder).mkdir(parents=True)
        for number, split in enumerate(SPLITS):
            _write_split(config, unfinished, target.name, number, split)
        unfinished.replace(target)
    print(f"{target}: {config.train} training and {config.val} validation pictures")


def _write_split(config: Config, root: Path, folder: str, number: int, split: str) -> None:
    names = [f"{split}_{index:05d}" for index in range(getattr(config, split))]
    for index, name in enumerate(progress(names, split, total=len(names), unit="picture")):
        rng = np.random.default_rng([config.seed, number, index])
        write_picture(root, folder, name, draw_picture(rng))
    (root / f"ImageSets/Main/{split}.txt").write_text("".join(f"{name}\n" for name in names))


def _check(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"--output_dir={target}: exists and is not an empty folder; nothing was written")


def write_picture(root: Path, folder: str, name: str, picture: Picture) -> None:
    """One JPEG and its VOC annotation."""
    path = root / f"JPEGImages/{name}.jpg"
    images.write_jpeg(path, picture.image)
    tree = ElementTree.ElementTree(annotation(folder, path.name, picture))
    ElementTree.indent(tree)
    tree.write(root / f"Annotations/{name}.xml")


def annotation(folder: str, filename: str, picture: Picture) -> ElementTree.Element:
    """The VOC annotation of a picture."""
    height, width, depth = picture.image.shape
    root = ElementTree.Element("annotation")
    _add(root, folder=folder, filename=filename)
    _add(ElementTree.SubElement(root, "source"), database="Drawn sample")
    _add(ElementTree.SubElement(root, "size"), width=width, height=height, depth=depth)
    _add(root, segmented=0)
    for figure in picture.figures:
        ymin, xmin, ymax, xmax = figure.box
        element = ElementTree.SubElement(root, "object")
        _add(element, name=figure.shape.name, pose="Unspecified", truncated=0, difficult=int(figure.difficult))
        _add(ElementTree.SubElement(element, "bndbox"), xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax)
    return root


def _add(parent: ElementTree.Element, **texts: object) -> None:
    for tag, text in texts.items():
        ElementTree.SubElement(parent, tag).text = str(text)


if __name__ == "__main__":
    flags.run(Config, main)
