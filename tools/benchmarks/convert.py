"""Time of the converter against the time that one process needs to read and decode the same pictures."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

_ROUNDS = 3
# The loop runs in a process of its own, as the converter does; it prints the seconds of the loop alone.
_DECODE_LOOP = """
import pathlib, sys, time
import cv2, numpy
paths = sorted(pathlib.Path(sys.argv[1]).iterdir())
start = time.perf_counter()
for path in paths:
    cv2.imdecode(numpy.frombuffer(path.read_bytes(), numpy.uint8), cv2.IMREAD_COLOR)
print(time.perf_counter() - start)
"""
_COMMAND = Path(__file__).parents[1] / "pascalvoc_to_tfrecords.py"


def benchmark_convert(pictures: int = 1000, workers: int = 2) -> dict[str, float]:
    """Runs both in turns, so that whatever else the machine does falls on both; the converter's time includes its start.

    Returns:
      Medians in seconds, {"decode": .., "convert": ..}, and the "ratio" of the second to the first.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "voc"
        make_data_set(root, pictures)
        decoding, converting = [], []
        for _ in range(_ROUNDS):
            decoding.append(_decode_all(root))
            converting.append(_convert_all(root, Path(folder) / "records", workers))
    decode, convert = statistics.median(decoding), statistics.median(converting)
    return {"decode": decode, "convert": convert, "ratio": convert / decode}


def make_data_set(root: Path, pictures: int) -> None:
    """JPEGs of 640x480 with the detail of photographs, about 100 KiB each, and three objects in each."""
    for name in ("Annotations", "JPEGImages"):
        (root / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    detail = rng.integers(-18, 18, (480, 640, 3))
    box = "<bndbox><xmin>{}</xmin><ymin>20</ymin><xmax>300.5</xmax><ymax>400</ymax></bndbox>"
    objects = "".join(f"<object><name>cat</name>{box.format(left)}</object>" for left in (10, 40, 70))
    for number in range(pictures):
        coarse = cv2.resize(rng.integers(0, 256, (12, 16, 3), np.uint8), (640, 480), interpolation=cv2.INTER_CUBIC)
        image = np.clip(coarse + np.roll(detail, number, axis=1), 0, 255).astype(np.uint8)
        _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 87])
        (root / "JPEGImages" / f"{number:06d}.jpg").write_bytes(encoded.tobytes())
        (root / "Annotations" / f"{number:06d}.xml").write_text(f"<annotation>{objects}</annotation>")


def _decode_all(root: Path) -> float:
    """Seconds of reading and decoding all pictures in one process."""
    command = [sys.executable, "-c", _DECODE_LOOP, root / "JPEGImages"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _convert_all(root: Path, output: Path, workers: int) -> float:
    """Seconds of the converter's process, from its start to its end."""
    flags = {"dataset_dir": root, "output_dir": output, "output_name": "benchmark", "workers": workers}
    command = [sys.executable, _COMMAND, *(f"--{name}={value}" for name, value in flags.items())]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start
