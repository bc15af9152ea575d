"""Small Pascal-VOC folders by code, their conversion, and the records read back with TensorFlow's own reader."""

import json
import os
from pathlib import Path

import cv2
import numpy as np
import tensorflow as tf

from tools.pascalvoc_to_tfrecords import Config, main

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "tools/pascalvoc_to_tfrecords.py"
CAT = ("cat", 10, 20, 60, 70)


def picture(width=120, height=80, ext=".jpg", value=90):
    """The bytes of a picture of one colour."""
    return cv2.imencode(ext, np.full((height, width, 3), value, np.uint8))[1].tobytes()


def size_tag(width, height, depth="<depth>3</depth>"):
    return f"<size><width>{width}</width><height>{height}</height>{depth}</size>"


def object_tag(name, xmin, ymin, xmax, ymax, extra=""):
    box = f"<xmin>{xmin}</xmin><ymin>{ymin}</ymin><xmax>{xmax}</xmax><ymax>{ymax}</ymax>"
    return f"<object><name>{name}</name>{extra}<bndbox>{box}</bndbox></object>"


def annotation(objects=(CAT,), *, filename="a.jpg", size="", extra=""):
    body = "".join(object_tag(*values, extra) for values in objects)
    return f"<annotation><filename>{filename}</filename>{size}{body}</annotation>"


def voc(root, stem="a", *, objects=(CAT,), ext=".jpg", image=None, xml=None, **kwargs):
    """Adds one picture and its annotation to the data set in `root`; `image` and `xml` give other contents, b"" included."""
    root = Path(root)
    for folder in ("Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if xml is None:
        xml = annotation(objects, **{"filename": stem + ext, "size": size_tag(120, 80)} | kwargs)
    (root / "JPEGImages" / (stem + ext)).write_bytes(picture(ext=ext.lower()) if image is None else image)
    (root / "Annotations" / f"{stem}.xml").write_bytes(xml if isinstance(xml, bytes) else xml.encode())
    return root


def split_file(root, name, text):
    folder = Path(root) / "ImageSets/Main"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_bytes(text.encode())


def label_file(path, *names):
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return str(path)


def config(root, out=None, **flags):
    """The converter's flags for `root`: records called `set` beside it, classes cat and dog, no second process."""
    root = Path(root)
    if "labels" not in flags:
        flags["labels"] = label_file(root.parent / "classes.txt", "cat", "dog")
    out = str(out or root.parent / "records")
    return Config(**{"dataset_dir": str(root), "output_dir": out, "output_name": "set", "workers": 1} | flags)


def convert(root, out=None, **flags):
    """Converts and gives the records of split `train` (or the one given)."""
    settings = config(root, out, **flags)
    main(settings)
    return read(settings.output_dir, flags.get("split") or "train")


def read(folder, split="train", name="set"):
    """All records of a split as dictionaries: key -> list of values."""
    paths = [os.path.join(folder, file) for file in sorted(os.listdir(folder)) if file.startswith(f"{name}_{split}_")]
    return [parse(record.numpy()) for path in paths for record in tf.data.TFRecordDataset(path)]


def parse(record):
    """One serialised Example as a dictionary with the short names of its keys."""
    features = tf.train.Example.FromString(record).features.feature
    values = {key: list(getattr(feature, feature.WhichOneof("kind")).value) for key, feature in features.items()}
    return {key.removeprefix("image/").removeprefix("object/bbox/"): value for key, value in values.items()}


def boxes(record):
    """[N, 4] (ymin, xmin, ymax, xmax)."""
    return np.stack([record[side] for side in ("ymin", "xmin", "ymax", "xmax")], axis=1)


def names(records):
    return [record["filename"][0].decode() for record in records]


def manifest(folder, name="set"):
    return json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8"))


def files(folder):
    """Everything below a folder with its contents."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def said(errors):
    """The lines that a command wrote on stderr, without the progress bar."""
    return [line.rstrip() for line in errors.splitlines() if line.strip() and "%|" not in line]
