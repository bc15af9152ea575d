"""Writes a trained SSD for others to use: its weights under their plain names, as TF-slim's code reads them.

    python -m ssd.export --checkpoint_path=RUN --output_dir=OUT --format=slim

OUT/NET.ckpt.* holds the weights (their moving averages where the run keeps them), OUT/NET.ckpt.json the net, its
anchors, classes and means, OUT/labels.txt the classes. `ssd.detect` and `ssd.evaluate` take OUT/NET.ckpt.
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from engine import checkpoints, flags, staging
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.files import writing
from engine.flags import flag
from engine.tfrecords import UNFINISHED
from ssd import anchor_sets, nets


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    checkpoint_path: str = flag("", "checkpoint: a folder (its best one, or newest) or a prefix", required=True)
    output_dir: str = flag("", "folder for the exported files; one that holds an export of this net is refused", required=True)
    format: str = flag("slim", "what is written: a checkpoint of plain variable names", choices=("slim",))


def main(config: Config) -> None:
    stored = checkpoints.find(config.checkpoint_path)
    description = describe(stored)
    weights = checkpoints.weights_to_use(stored)
    prefix = write_slim(pathlib.Path(config.output_dir), weights, description)
    averaged = any(name.endswith(f"/{checkpoints.AVERAGE}") for name in stored.shapes)
    print(f"{len(weights)} variables of {stored.prefix}{', their moving averages,' if averaged else ''} are in {prefix}")


def describe(stored: StoredWeights) -> dict[str, Any]:
    """What has to be known beside the weights: the manifest without what only training needs.

    Raises:
        UserError: the checkpoint does not say it.
    """
    said = stored.manifest
    if "anchor_set" not in said:
        raise UserError(f"{stored.prefix}: does not tell its net and classes as checkpoints of ssd.train do")
    spec = nets.find(said["model_name"])
    anchor_set = anchor_sets.of_checkpoint(stored, said["model_name"], None)
    kept = {name: said[name] for name in ("model_name", "num_classes", "class_names")}
    kept |= anchor_sets.to_manifest(anchor_set, said["model_name"])
    step = {"step": said.get("step", checkpoints.step_of(stored.prefix))}
    kept["scope"] = said.get("scope", said["model_name"])
    return kept | {"means": list(said.get("means", spec.means)), "image_size": spec.image_size} | step


def write_slim(output_dir: pathlib.Path, weights: dict[str, np.ndarray], description: dict[str, Any]) -> str:
    """Writes the export, whole or not at all, and returns the prefix of its checkpoint.

    Raises:
        UserError: there is one already, or it could not be written.
    """
    name = f"{description['model_name']}.ckpt"
    labels = "".join(f"{label}:{text}\n" for label, text in enumerate(description["class_names"], start=1))
    with staging.Staging(output_dir, name) as staged:
        checkpoints.write_plain(staged.folder / name, weights)
        with writing(output_dir):
            for file in list(staged.folder.iterdir()):
                file.rename(file.with_name(file.name + UNFINISHED))
        staged.write_text(f"{name}.json", json.dumps(description, indent=2, ensure_ascii=False) + "\n")
        staged.write_text("labels.txt", labels)
        with staging.locked(output_dir):
            _refuse_to_overwrite(output_dir, [file.name.removesuffix(UNFINISHED) for file in staged.folder.iterdir()])
            staged.publish(())
    return str(output_dir / name)


def _refuse_to_overwrite(output_dir: pathlib.Path, names: list[str]) -> None:
    if there := sorted(name for name in names if (output_dir / name).exists()):
        raise UserError(f"--output_dir={output_dir}: holds {', '.join(there)} already; choose another folder")


if __name__ == "__main__":
    flags.run(Config, main)
