"""Measures the speed of the project's parts on this machine.

python tools/benchmark.py convert --pictures 1000 --workers 2
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

_ROUNDS = 3


def convert(arguments: argparse.Namespace) -> dict[str, float]:
    """The converter, as a command with its start, against one process that only reads and decodes the same pictures.

    Both run in turns, so that whatever else the machine does falls on both.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "voc"
        _make_data_set(root, arguments.pictures)
        decoding, converting = [], []
        for _ in range(_ROUNDS):
            decoding.append(_seconds(lambda: _decode_all(root)))
            converting.append(_seconds(lambda: _convert_all(root, Path(folder) / "records", arguments.workers)))
    decode_seconds, convert_seconds = statistics.median(decoding), statistics.median(converting)
    return {
        "pictures": arguments.pictures,
        "workers": arguments.workers,
        "decode_seconds": decode_seconds,
        "convert_seconds": convert_seconds,
        "ratio": convert_seconds / decode_seconds,
    }


def _make_data_set(root: Path, pictures: int) -> None:
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


def _decode_all(root: Path) -> None:
    for path in sorted((root / "JPEGImages").iterdir()):
        cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)


def _convert_all(root: Path, output: Path, workers: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("pascalvoc_to_tfrecords.py"))]
    flags = {"dataset_dir": root, "output_dir": output, "output_name": "benchmark", "workers": workers}
    subprocess.run([*command, *(f"--{name}={value}" for name, value in flags.items())], check=True, capture_output=True)


def _seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _convert_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)


# Name of a subcommand -> (its flags, the measurement: flags to figures).
BENCHMARKS = {"convert": (_convert_flags, convert)}


def main() -> None:
    """Runs one benchmark and prints its figures, a line each or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, (add_flags, measure) in BENCHMARKS.items():
        command = commands.add_parser(name, description=measure.__doc__)
        command.add_argument("--json", action="store_true", help="print JSON")
        add_flags(command)
    arguments = parser.parse_args()
    figures = BENCHMARKS[arguments.benchmark][1](arguments)
    lines = (f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}" for name, value in figures.items())
    print(json.dumps(figures) if arguments.json else "\n".join(lines))


if __name__ == "__main__":
    main()
