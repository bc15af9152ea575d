"""Which anchors a net uses: a set of its table by name, or one from a file, which its checkpoints carry along.

A file is JSON: {"model_name": NET, "image_size": S, "layers": [{"map_size": M, "step": T, "shapes": [[height, width], ...]},
...]}, in pixels of the net's input. It replaces the shapes of the net's table, not the layout: maps, steps and the number
of kinds at a cell are what the net's heads are built for.
"""

import hashlib
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.progress import say
from ssd import nets
from ssd.anchors import AnchorLayer, AnchorSpec

DEFAULT = "voc"
# Keys of a checkpoint's manifest.
NAME, LAYOUT = "anchor_set", "anchor_layout"


class AnchorSet(NamedTuple):
    """Anchors and what they are called: as in the net's table, else "custom-" and a digest of their shapes."""

    name: str
    spec: AnchorSpec


def find(net_name: str, asked: str) -> AnchorSet:
    """The anchors that a flag asks for, by name or by file.

    Raises:
        UserError: there is no such set and no such file, or the file is none of anchors for this net.
    """
    if asked in nets.find(net_name).anchors:
        return AnchorSet(asked, nets.anchor_spec(net_name, asked))
    try:
        text = pathlib.Path(asked).read_text(encoding="utf-8")
        return custom(from_json(json.loads(text), net_name, source=f"--anchor_set={asked}"))
    except OSError as error:
        known = ", ".join(nets.find(net_name).anchors)
        raise UserError(f"--anchor_set={asked}: must be one of {known} or a file of anchors ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"--anchor_set={asked}: not a JSON file ({error})") from None


def of_checkpoint(stored: StoredWeights, net_name: str, asked: str | None) -> AnchorSet:
    """The anchors that a checkpoint was trained with; of one that does not say, those that the flag asks for.

    Raises:
        UserError: neither says them, or they disagree.
    """
    if NAME not in stored.manifest and asked is not None:
        return find(net_name, asked)
    said = _said(stored, net_name)
    if asked is not None and find(net_name, asked).name != said.name:
        raise UserError(f"--anchor_set={asked}: {stored.prefix} was trained with {said.name}")
    return said


def of_run(net_name: str, asked: str | None, stored: StoredWeights | None, *, is_resumed: bool) -> AnchorSet:
    """The anchors of a run: those asked for, else those of the checkpoint that it starts from, else the default.

    Args:
        stored: the checkpoint that the run starts from.
        is_resumed: whether that is the run's own, which needs no file any more.
    """
    if is_resumed and asked is not None and LAYOUT in stored.manifest and _is_gone(net_name, asked):
        say(f"note: --anchor_set={asked} is not there any more; the anchors in {stored.prefix} are used")
        asked = None
    if asked is not None:
        return find(net_name, asked)
    if stored is None or stored.manifest.get("model_name") != net_name or NAME not in stored.manifest:
        return find(net_name, DEFAULT)
    return _said(stored, net_name)


def custom(spec: AnchorSpec) -> AnchorSet:
    """Anchors that the net's table lacks, under a name that tells them from all others in a short message."""
    shapes = json.dumps([layer.shapes for layer in spec.layers])
    return AnchorSet(f"custom-{hashlib.sha256(shapes.encode()).hexdigest()[:8]}", spec)


def to_manifest(anchor_set: AnchorSet, net_name: str) -> dict[str, Any]:
    """What a checkpoint's manifest says of its anchors: their name, and all of them where the net's table lacks them."""
    known = anchor_set.name in nets.find(net_name).anchors
    return {NAME: anchor_set.name} | ({} if known else {LAYOUT: to_json(anchor_set.spec, net_name)})


def to_json(spec: AnchorSpec, net_name: str) -> dict[str, Any]:
    """Anchors as the content of a file."""
    layers = [
        {"map_size": layer.map_size, "step": layer.step, "shapes": [list(shape) for shape in layer.shapes]}
        for layer in spec.layers
    ]
    return {"model_name": net_name, "image_size": spec.image_size, "layers": layers}


def from_json(content: Any, net_name: str, *, source: str) -> AnchorSpec:
    """The inverse of `to_json`. Raises `UserError` that names `source` for what are no anchors for this net."""
    expected = to_json(nets.anchor_spec(net_name, DEFAULT), net_name)
    if not isinstance(content, dict) or not expected.keys() <= content.keys():
        raise UserError(f"{source}: not of the form {{{', '.join(expected)}}} that tools/fit_anchors.py writes")
    for key in ("model_name", "image_size"):
        if content[key] != expected[key]:
            raise UserError(f"{source}: its {key} is {content[key]}, that of {net_name} is {expected[key]}")
    layers = content["layers"]
    if not isinstance(layers, list) or _maps(layers) != _maps(expected["layers"]):
        raise UserError(f"{source}: its maps are not those of {net_name}, of (map_size, step) {_maps(expected['layers'])}")
    shapes = [_shapes(*pair, source=source) for pair in zip(layers, expected["layers"], strict=True)]
    maps = _maps(expected["layers"])
    return AnchorSpec(expected["image_size"], tuple(AnchorLayer(*place, s) for place, s in zip(maps, shapes, strict=True)))


def _maps(layers: list[Any]) -> list[tuple[Any, Any]]:
    return [(layer.get("map_size"), layer.get("step")) if isinstance(layer, dict) else (None, None) for layer in layers]


def _shapes(layer: Mapping, expected: Mapping, *, source: str) -> tuple[tuple[float, float], ...]:
    shapes, kinds, side = layer.get("shapes"), len(expected["shapes"]), expected["map_size"]
    if not isinstance(shapes, list) or len(shapes) != kinds:
        found = len(shapes) if isinstance(shapes, list) else "no"
        raise UserError(f"{source}: {found} shapes at a cell of the {side}x{side} map, where the net's head has {kinds}")
    for shape in shapes:
        if not (isinstance(shape, list) and len(shape) == 2 and all(map(_is_length, shape))):
            raise UserError(f"{source}: {shape} of the {side}x{side} map is no [height, width] in pixels above 0")
    return tuple((float(height), float(width)) for height, width in shapes)


def _is_length(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _said(stored: StoredWeights, net_name: str) -> AnchorSet:
    """What a checkpoint's manifest says."""
    if LAYOUT in stored.manifest:
        return custom(from_json(stored.manifest[LAYOUT], net_name, source=stored.prefix))
    name = stored.told(NAME, None)
    if name not in nets.find(net_name).anchors:
        raise UserError(f"{stored.prefix}: was trained with the anchors {name}, which it does not hold")
    return find(net_name, name)


def _is_gone(net_name: str, asked: str) -> bool:
    return asked not in nets.find(net_name).anchors and not pathlib.Path(asked).exists()
