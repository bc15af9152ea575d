"""Names what pictures show.

    python -m classify.predict PICTURE_OR_FOLDER... --checkpoint_dir=RUN

Prints a line for each picture: the file and its most probable classes. With --output_dir also predictions.json and a
sheet of the pictures. An input that cannot be read is named, the others are done, and the exit code is 1.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from classify import nets, report
from classify.classifier import Classifier
from engine import devices, flags, images
from engine.errors import UserError
from engine.files import write_json
from engine.flags import flag
from engine.picture_files import list_pictures, read_pictures
from engine.progress import progress, say

# More would make a sheet that nobody looks at.
_ON_THE_SHEET = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    checkpoint_dir: str = flag("/tmp/cifar10_train", "checkpoint: a folder (its best one, or newest) or a prefix")
    output_dir: str = flag("", "folder for predictions.json and predictions.jpg (default: none are written)")
    top_k: int = flag(3, "classes to name for each picture", minimum=1)
    model_name: str | None = flag(None, "the net, for a checkpoint that does not say", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes, for a checkpoint that does not say", minimum=2)
    batch_size: int = flag(32, "pictures at a time", minimum=1)
    gpu_memory_fraction: float | None = flag(None, "cap on each GPU's memory (default: grows as needed)", above=0, maximum=1)


def main(config: Config, inputs: Sequence[str]) -> int:
    """Returns the exit code: 1 when an input could not be read."""
    if not inputs:
        raise UserError("no picture given: name pictures or folders of pictures")
    devices.prepare(seed=0, gpu_memory_fraction=config.gpu_memory_fraction)
    files, unread = list_pictures(inputs)
    classifier = Classifier(config.checkpoint_dir, model_name=config.model_name, num_classes=config.num_classes)
    listed, shown = [], []
    for file, image, probabilities in _classified(classifier, files, unread, config.batch_size):
        best = np.argsort(-probabilities, kind="stable")[: config.top_k]
        predictions = [{"label": classifier.class_names[k], "score": round(float(probabilities[k]), 4)} for k in best]
        print(f"{file}: " + ", ".join(f"{entry['label']} {entry['score']:.3f}" for entry in predictions))
        listed.append({"file": str(file), "predictions": predictions})
        if config.output_dir and len(shown) < _ON_THE_SHEET:
            shown.append((image, best[0], probabilities[best[0]]))
    if config.output_dir:
        _write(pathlib.Path(config.output_dir), listed, shown, classifier.class_names)
    for file, reason in unread.items():
        say(f"not read: {file}: {reason}")
    return 1 if unread else 0


def _classified(
    classifier: Classifier, files: Sequence[pathlib.Path], unread: dict[pathlib.Path, str], batch_size: int
) -> Iterator[tuple[pathlib.Path, np.ndarray, np.ndarray]]:
    """file, picture [H, W, 3] uint8 and probabilities [C]; what cannot be read goes into `unread`."""
    pictures = read_pictures(progress(files, "classifying", total=len(files), unit="picture"), unread)
    while batch := list(itertools.islice(pictures, batch_size)):
        inputs = np.stack([classifier.resize(image) for _, image in batch])
        for (file, image), probabilities in zip(batch, classifier.classify(inputs).numpy(), strict=True):
            yield file, image, probabilities


def _write(
    folder: pathlib.Path,
    listed: Sequence[dict[str, Any]],
    shown: Sequence[tuple[np.ndarray, int, float]],
    class_names: Sequence[str],
) -> None:
    """shown: picture [H, W, 3] uint8, best class and its score."""
    write_json(folder / "predictions.json", listed)
    if shown:
        pictures, labels, scores = zip(*shown, strict=True)
        images.write_jpeg(folder / "predictions.jpg", report.draw_predictions(pictures, labels, class_names, scores=scores))
    say(f"the results are in {folder}")


if __name__ == "__main__":
    flags.run(Config, main, positional="PICTURE_OR_FOLDER")
