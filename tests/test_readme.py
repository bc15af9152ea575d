"""The README keeps what it promises: links lead somewhere, flags exist, nothing is left to fill in."""

import dataclasses
import re

import pytest

import classify.evaluate
import classify.predict
import classify.train
from ssd import detect, evaluate, export, train
from tests.conftest import ROOT
from tools import benchmark, fit_anchors, images_to_tfrecords, make_sample_voc, pascalvoc_to_tfrecords

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = {
    "train_ssd.sh": train,
    "ssd.train": train,
    "ssd.evaluate": evaluate,
    "ssd.detect": detect,
    "ssd.export": export,
    "classify.train": classify.train,
    "classify.evaluate": classify.evaluate,
    "classify.predict": classify.predict,
    "fit_anchors.py": fit_anchors,
    "images_to_tfrecords.py": images_to_tfrecords,
    "make_sample_voc.py": make_sample_voc,
    "pascalvoc_to_tfrecords.py": pascalvoc_to_tfrecords,
    "benchmark.py": benchmark,
}


def commands():
    """(command, its flags) of every line of the README and the Makefile that runs one of ours."""
    text = README + (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in text.splitlines():
        for name in COMMANDS:
            if re.search(rf"(python|/)[^`]*{re.escape(name)} .*--", line):
                yield name, re.findall(r"--(\w+)", line.partition(name)[2])
                break


def test_flags_exist():
    found = list(commands())
    assert {"ssd.train", "ssd.evaluate", "ssd.detect", "train_ssd.sh", "pascalvoc_to_tfrecords.py"} <= {
        name for name, _ in found
    }
    for name, flags in found:
        known = {field.name for field in dataclasses.fields(COMMANDS[name].Config)} | {"flagfile", "help"}
        assert set(flags) <= known, name


def test_flags_named_in_the_text_exist():
    known = {field.name for module in COMMANDS.values() for field in dataclasses.fields(module.Config)}
    assert set(re.findall(r"`--(\w+)", README)) <= known | {"help", "flagfile"}


def test_links_and_recipes_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"recipes/\w+\.flags", README):
        assert (ROOT / target).is_file(), target


def test_nothing_is_left_to_fill_in():
    assert not re.search(r"@[A-Z]+@|\bTODO\b|\?\?\?", README)


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.flags")), ids=lambda path: path.stem)
def test_every_recipe_stands_in_the_readme(recipe):
    assert f"recipes/{recipe.name}" in README
