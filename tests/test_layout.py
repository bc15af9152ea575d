"""Holds the import rule: commands -> leaves -> engine -> libraries, and the libraries that few files may know."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
COMMANDS = {"ssd.train", "ssd.evaluate", "ssd.detect", "ssd.export", "classify.train", "classify.evaluate", "classify.predict"}
SOURCES = sorted(path for top in ("engine", "classify", "ssd", "tools") for path in (ROOT / top).rglob("*.py"))


def module_name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: pathlib.Path) -> set[str]:
    """Full names of everything that a file imports, at any depth of nesting."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def knows(path: pathlib.Path, library: str) -> bool:
    return any(name == library or name.startswith(library + ".") for name in imports(path))


def is_command(path: pathlib.Path) -> bool:
    return module_name(path) in COMMANDS or (path.parts[-2] == "tools" and path.stem != "__init__")


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_go_one_way(path):
    top = path.relative_to(ROOT).parts[0]
    if top == "engine":
        assert not any(knows(path, package) for package in ("classify", "ssd", "tools"))
    if top == "classify":
        assert not any(knows(path, package) for package in ("ssd", "tools"))
    if top == "ssd":
        assert not knows(path, "tools")
        crossing = {name for name in imports(path) if name.split(".")[0] == "classify"}
        assert not crossing or (path.parent.name == "nets" and all(name.startswith("classify.nets") for name in crossing))
    if not is_command(path):
        assert not any(knows(path, command) for command in COMMANDS), "a leaf imports a command"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_few_files_know_these_libraries(path):
    text, name = path.read_text(encoding="utf-8"), module_name(path)
    in_nets = path.parent.name == "nets"
    if not in_nets:
        assert not knows(path, "tf_slim")
    if not in_nets and name != "engine.slim_net":
        assert "compat.v1" not in text.replace("`tf.compat.v1", "")
    if name in ("ssd.metrics", "ssd.anchors", "ssd.anchor_fit", "ssd.coverage"):
        assert not knows(path, "tensorflow")
    if not name.startswith("tools"):
        assert not knows(path, "lxml")


def test_oracles_know_no_tensorflow():
    for path in (ROOT / "tests").rglob("oracles.py"):
        assert not knows(path, "tensorflow")


def test_every_file_has_its_docstring():
    missing = [module_name(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert missing == []


def test_no_file_of_odds_and_ends():
    assert not [path for path in SOURCES if path.stem in ("utils", "helpers", "misc", "common")]
