"""Small folders of class folders by code, their conversion, and the records read back with TensorFlow's own reader."""

import zlib
from pathlib import Path

import cv2
import numpy as np

from tests.tools.voc_folder import ROOT, read
from tools.images_to_tfrecords import Config, main

COMMAND = ROOT / "tools/images_to_tfrecords.py"


def picture(number=0, ext=".jpg"):
    """The bytes of a picture 40 wide and 30 high, another one for each number."""
    pixels = np.random.default_rng(number).integers(0, 256, (3, 4, 3), np.uint8)
    return cv2.imencode(ext, cv2.resize(pixels, (40, 30)))[1].tobytes()


def put(root, *paths, data=None):
    """Adds files to `root`: pictures, each with its own pixels, or `data`."""
    for path in paths:
        target = Path(root) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture(zlib.crc32(path.encode()), target.suffix.lower()) if data is None else data)
    return Path(root)


def classes(root, split="", **counts):
    """Adds `count` pictures for each class: `cat/000.jpg` and so on."""
    for name, count in counts.items():
        put(root, *(f"{split}/{name}/{number:03d}.jpg".lstrip("/") for number in range(count)))
    return Path(root)


def config(root, out=None, **flags):
    """The converter's flags for `root`: records called `set` beside it, everything in split train, no second process."""
    out = str(out or Path(root).parent / "records")
    settings = {"dataset_dir": str(root), "output_dir": out, "output_name": "set", "workers": 1, "validation_fraction": 0.0}
    return Config(**settings | flags)


def convert(root, out=None, **flags):
    """Converts and gives the records: split -> file name -> record."""
    settings = config(root, out, **flags)
    main(settings)
    return by_name(settings.output_dir)


def by_name(folder, name="set"):
    splits = sorted({path.name.split("_")[1] for path in Path(folder).glob(f"{name}_*.tfrecord")})
    return {split: {record["filename"][0].decode(): record for record in read(folder, split, name)} for split in splits}


def labels_of(records):
    """File name -> label."""
    return {name: record["class/label"][0] for name, record in records.items()}
