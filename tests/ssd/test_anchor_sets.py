"""Anchor sets by name, from a file and from a checkpoint; and files that are none."""

import dataclasses
import json
import re

import numpy as np
import pytest

from engine.checkpoints import StoredWeights
from engine.errors import UserError
from ssd import anchor_sets, nets
from ssd.anchors import make_anchors
from ssd.nets import tiny
from tests.engine.slim_files import write_slim


def content(factor=1.0):
    """The file of ssd_tiny's own anchors, or of larger ones."""
    layers = (
        dataclasses.replace(layer, shapes=tuple((factor * height, factor * width) for height, width in layer.shapes))
        for layer in tiny.ANCHORS.layers
    )
    return anchor_sets.to_json(dataclasses.replace(tiny.ANCHORS, layers=tuple(layers)), "ssd_tiny")


def written(path, what):
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return str(path)


def checkpoint(path, manifest):
    stored = StoredWeights(write_slim(path, {"ssd_tiny/w": np.zeros(1, np.float32)}))
    stored.manifest |= manifest
    return stored


def test_names_are_those_of_the_table():
    for name in ("voc", "coco"):
        assert anchor_sets.find("ssd_300_vgg", name) == (name, nets.anchor_spec("ssd_300_vgg", name))
        assert anchor_sets.to_manifest(anchor_sets.find("ssd_300_vgg", name), "ssd_300_vgg") == {"anchor_set": name}


@pytest.mark.parametrize("net_name", nets.NETS)
def test_every_set_of_every_net_goes_through_a_file(net_name):
    for spec in nets.NETS[net_name].anchors.values():
        content = json.loads(json.dumps(anchor_sets.to_json(spec, net_name)))
        assert anchor_sets.from_json(content, net_name, source="file") == spec


def test_a_file_replaces_the_shapes(tmp_path):
    found = anchor_sets.find("ssd_tiny", written(tmp_path / "a.json", content(1.5)))
    own, custom = make_anchors(tiny.ANCHORS), make_anchors(found.spec)
    np.testing.assert_allclose(custom, own * [1, 1, 1.5, 1.5], rtol=1e-6)
    assert re.fullmatch(r"custom-[0-9a-f]{8}", found.name)
    again = anchor_sets.find("ssd_tiny", written(tmp_path / "b.json", json.dumps(content(1.5), indent=3)))
    assert again == found
    assert anchor_sets.find("ssd_tiny", written(tmp_path / "c.json", content(1.6))).name != found.name


def test_the_manifest_holds_the_whole_layout(tmp_path):
    found = anchor_sets.find("ssd_tiny", written(tmp_path / "a.json", content(2)))
    manifest = json.loads(json.dumps(anchor_sets.to_manifest(found, "ssd_tiny")))
    assert manifest == {"anchor_set": found.name, "anchor_layout": content(2)}
    stored = checkpoint(tmp_path / "a.ckpt", manifest)
    (tmp_path / "a.json").unlink()
    assert anchor_sets.of_checkpoint(stored, "ssd_tiny", None) == found
    for asked in ("voc", written(tmp_path / "b.json", content(3))):
        with pytest.raises(UserError, match=f"--anchor_set={asked}: .*a.ckpt was trained with {found.name}$"):
            anchor_sets.of_checkpoint(stored, "ssd_tiny", asked)
    assert anchor_sets.of_checkpoint(stored, "ssd_tiny", written(tmp_path / "c.json", content(2))) == found


def test_a_checkpoint_that_does_not_say(tmp_path):
    stored = checkpoint(tmp_path / "a.ckpt", {})
    asked = written(tmp_path / "a.json", content(2))
    assert anchor_sets.of_checkpoint(stored, "ssd_tiny", "coco").name == "coco"
    assert anchor_sets.of_checkpoint(stored, "ssd_tiny", asked) == anchor_sets.find("ssd_tiny", asked)
    with pytest.raises(UserError, match="--anchor_set must be given"):
        anchor_sets.of_checkpoint(stored, "ssd_tiny", None)


def test_what_a_run_takes(tmp_path, capsys):
    asked = written(tmp_path / "a.json", content(2))
    custom = anchor_sets.find("ssd_tiny", asked)
    coco = checkpoint(tmp_path / "a.ckpt", {"model_name": "ssd_tiny", "anchor_set": "coco"})
    own = checkpoint(
        tmp_path / "b.ckpt", {"model_name": "ssd_tiny", "scope": "ssd_tiny", **anchor_sets.to_manifest(custom, "ssd_tiny")}
    )
    foreign = checkpoint(tmp_path / "c.ckpt", {})

    def name(asked, stored, *, is_resumed=False, net="ssd_tiny"):
        return anchor_sets.of_run(net, asked, stored, is_resumed=is_resumed).name

    assert [name(None, stored) for stored in (None, foreign, coco, own)] == ["voc", "voc", "coco", custom.name]
    assert [name("voc", stored) for stored in (None, coco, own)] == ["voc"] * 3
    assert name(None, coco, net="ssd_300_vgg") == "voc"
    assert name(asked, coco, is_resumed=True) == custom.name
    (tmp_path / "a.json").unlink()
    assert capsys.readouterr().err == ""
    assert name(asked, own, is_resumed=True) == custom.name
    assert f"--anchor_set={asked} is not there any more; the anchors in {own.prefix} are used" in capsys.readouterr().err
    for stored, is_resumed in ((own, False), (coco, True), (None, False)):
        with pytest.raises(UserError, match=r"a\.json: must be one of voc, coco or a file of anchors \(No such file"):
            name(asked, stored, is_resumed=is_resumed)


def changed(*path, to):
    """The file with one value replaced, or left out."""
    whole = content()
    *parents, last = path
    part = whole
    for key in parents:
        part = part[key]
    if to is None:
        del part[last]
    else:
        part[last] = to
    return whole


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("{", "not a JSON file"),
        ("\udcff", "not a JSON file"),
        ([1], "not of the form {model_name, image_size, layers}"),
        (changed("layers", to=None), "not of the form"),
        (changed("model_name", to="ssd_300_vgg"), "its model_name is ssd_300_vgg, that of ssd_tiny is ssd_tiny"),
        (changed("image_size", to=300), "its image_size is 300, that of ssd_tiny is 160"),
        (changed("layers", to=7), "its maps are not those of ssd_tiny"),
        (changed("layers", 4, to=None), r"its maps are not .* \(map_size, step\) \[\(20, 8\), \(10, 16\), \(5, 32\), "),
        (changed("layers", 0, to="x"), "its maps are not"),
        (changed("layers", 0, "map_size", to=19), "its maps are not"),
        (changed("layers", 3, "step", to=53), "its maps are not"),
        (changed("layers", 1, "shapes", 5, to=None), "5 shapes at a cell of the 10x10 map, where the net's head has 6"),
        (changed("layers", 1, "shapes", to=None), "no shapes at a cell of the 10x10 map"),
        (changed("layers", 2, "shapes", 0, to=[-3, 4]), r"\[-3, 4\] of the 5x5 map is no \[height, width\] in pixels above 0"),
        (changed("layers", 2, "shapes", 0, to=[3, 0]), r"\[3, 0\] of the 5x5 map"),
        (changed("layers", 2, "shapes", 0, to=[3, float("nan")]), r"\[3, nan\] of the 5x5 map"),
        (changed("layers", 2, "shapes", 0, to=[3, "4"]), r"\[3, '4'\] of the 5x5 map"),
        (changed("layers", 2, "shapes", 0, to=[3]), r"\[3\] of the 5x5 map"),
    ],
)
def test_files_that_are_none(tmp_path, what, named):
    path = tmp_path / "bad.json"
    if what == "\udcff":
        path.write_bytes(b"\xff\xfe")
    else:
        written(path, what)
    with pytest.raises(UserError, match=f"^--anchor_set={path}: {named}") as raised:
        anchor_sets.find("ssd_tiny", str(path))
    assert "\n" not in str(raised.value)


def test_a_layout_that_a_checkpoint_lost_or_that_is_damaged_is_named(tmp_path):
    stored = checkpoint(tmp_path / "b.ckpt", {"anchor_set": "custom-12345678"})
    with pytest.raises(UserError, match=r"b\.ckpt: was trained with the anchors custom-12345678, which it does not hold"):
        anchor_sets.of_checkpoint(stored, "ssd_tiny", None)
    stored = checkpoint(tmp_path / "a.ckpt", {"anchor_set": "custom-12345678", "anchor_layout": changed("layers", to=None)})
    with pytest.raises(UserError, match=r"a\.ckpt: not of the form"):
        anchor_sets.of_checkpoint(stored, "ssd_tiny", None)
