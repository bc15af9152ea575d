"""Reads a Pascal-VOC annotation. The only file of the project that parses XML."""

import dataclasses
import math
import re

from lxml import etree

from engine import images

_TRUE_WORDS = {"true", "yes", "y", "t"}
# In files that state another encoding than the one their byte order mark proves, the mark is right.
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class AnnotationError(Exception):
    """A file that is no annotation; the text is the reason, without the file's name."""


@dataclasses.dataclass(frozen=True)
class VocObject:
    """One `<object>`. `box` is (xmin, ymin, xmax, ymax) as written, in pixels; None, with `problem` set, if unusable."""

    name: str
    box: tuple[float, float, float, float] | None
    problem: str
    difficult: int
    truncated: int


@dataclasses.dataclass(frozen=True)
class Annotation:
    """`size` is (width, height) as written, None where it is missing or not positive."""

    filename: str
    size: tuple[float, float] | None
    objects: tuple[VocObject, ...]


def parse(data: bytes) -> Annotation:
    """The annotation in the bytes of an XML file, of whatever encoding it declares; AnnotationError if it is none.

    Tags are looked up by name among the direct children of their parent, whatever their order or namespace:
    a `<part>` of an object has a name and a box of its own.
    """
    root = _root(data)
    top = _children(root)
    size = _children(top.get("size"))
    width, height = _number(size, "width"), _number(size, "height")
    objects = tuple(_object(child) for child in root if _tag(child) == "object")
    return Annotation(_text(top, "filename"), (width, height) if width > 0 and height > 0 else None, objects)


def peek(data: bytes) -> tuple[str, list[str]]:
    """`<filename>` and the names of all objects that have one: what `parse` gives of them, in a fraction of the time."""
    root = _root(data)
    names = (_text(_children(child), "name") for child in root if _tag(child) == "object")
    return _text(_children(root), "filename"), [name for name in names if name]


def _root(data: bytes) -> etree._Element:
    if not data.strip():
        raise AnnotationError("empty file")
    if images.sniff(data) == "lfs":
        raise AnnotationError("Git LFS pointer, not the annotation itself (run 'git lfs pull')")
    # No entities and no network: an annotation from elsewhere must not read other files.
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(_decoded(data), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise AnnotationError(f"not readable as XML: {str(error).splitlines()[0]}") from error
    if _tag(root) != "annotation":
        raise AnnotationError(f"no annotation: its root is <{_tag(root)}>, not <annotation>")
    return root


def _decoded(data: bytes) -> bytes | str:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError as error:
                raise AnnotationError(f"not readable as XML: its byte order mark says {encoding}, its bytes do not") from error
            return re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    return data.lstrip()


def _object(element: etree._Element) -> VocObject:
    parts = _children(element)
    corners = _children(parts.get("bndbox"))
    box = tuple(_number(corners, tag) for tag in ("xmin", "ymin", "xmax", "ymax"))
    name = _text(parts, "name")
    if not name:
        problem = "object without a name"
    elif "bndbox" not in parts:
        problem = "object without <bndbox>"
    else:
        problem = "" if all(map(math.isfinite, box)) else "coordinates missing or not numbers"
    return VocObject(name, None if problem else box, problem, _flag(parts, "difficult"), _flag(parts, "truncated"))


def _tag(element: etree._Element) -> str:
    """Name without namespace; empty for comments and processing instructions, whose tag is a function."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _children(parent: etree._Element | None) -> dict[str, etree._Element]:
    """Direct children by name; the first of several counts."""
    return {} if parent is None else {_tag(child): child for child in reversed(parent)}


def _text(children: dict[str, etree._Element], tag: str) -> str:
    child = children.get(tag)
    if child is None:
        return ""
    # A comment inside splits the text into pieces.
    return ("".join(child.itertext(with_tail=False)) if len(child) else child.text or "").strip()


def _number(children: dict[str, etree._Element], tag: str) -> float:
    try:
        return float(_text(children, tag))
    except ValueError:
        return math.nan


def _flag(children: dict[str, etree._Element], tag: str) -> int:
    return int(tag in children and (_number(children, tag) > 0 or _text(children, tag).lower() in _TRUE_WORDS))
