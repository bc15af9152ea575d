"""What stands in annotation files in the wild, converted as it should be."""

import numpy as np
import pytest

from engine.errors import UserError
from tests.tools.voc_folder import CAT, annotation, boxes, convert, names, object_tag, said, size_tag, voc

CAT_BOX = [20 / 80, 10 / 120, 70 / 80, 60 / 120]
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9901\n"


def test_optional_tags_may_be_missing(tmp_path):
    (record,) = convert(voc(tmp_path / "d", objects=(CAT, ("dog", 1, 2, 3, 4))))
    assert record["difficult"] == record["truncated"] == [0, 0]
    assert record["label"] == [1, 2]
    assert record["label_text"] == [b"cat", b"dog"]


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("0", 0), ("", 0), ("true", 1), ("Unspecified", 0), ("0.4", 1), (" 1\n", 1)]
)
def test_difficult_and_truncated(tmp_path, text, value):
    extra = f"<difficult>{text}</difficult><truncated>{text}</truncated>"
    (record,) = convert(voc(tmp_path / "d", extra=extra))
    assert record["difficult"] == record["truncated"] == [value]


def test_pictures_without_objects(tmp_path, capsys):
    voc(tmp_path / "d", objects=())
    voc(tmp_path / "d", "b")
    background, other = convert(tmp_path / "d")
    assert [background[key] for key in ("xmin", "ymin", "xmax", "ymax", "label", "label_text", "difficult", "truncated")] == [
        []
    ] * 8
    assert other["label"] == [1]
    assert "2 pictures (1 without objects)" in capsys.readouterr().err
    assert names(convert(tmp_path / "d", skip_empty=True)) == ["b.jpg"]


@pytest.mark.parametrize(
    "size",
    [
        "",
        "<size_part><width>1</width><height>1</height></size_part>",
        size_tag(0, 0),
        size_tag(-5, 80),
        size_tag("nan", "inf"),
        size_tag(120, 80, "<depth/>"),
        size_tag(120, 80, ""),
        size_tag(120, 80, "<depth>4</depth>"),
        size_tag(121, 79),
    ],
)
def test_the_picture_tells_its_size(tmp_path, size, capsys):
    (record,) = convert(voc(tmp_path / "d", size=size))
    assert (record["width"], record["height"], record["channels"], record["shape"]) == ([120], [80], [3], [80, 120, 3])
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)
    assert "<size>" not in capsys.readouterr().err


def test_size_of_another_scale_scales_the_boxes(tmp_path, capsys):
    root = voc(tmp_path / "d", objects=[("cat", 20, 40, 120, 140)], size=size_tag(240, 160))
    (record,) = convert(root)
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)
    assert record["width"] == [120]
    assert "boxes scaled by <size>: 1" in capsys.readouterr().err


def test_unrelated_size_is_told_with_both_sizes(tmp_path, capsys):
    (record,) = convert(voc(tmp_path / "d", size=size_tag(500, 375)))
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)
    line = said(capsys.readouterr().err)[0]
    assert all(part in line for part in ("a.xml", "500x375", "120x80"))


def test_tags_in_any_order(tmp_path):
    box = "<bndbox><xmin>10</xmin><xmax>60</xmax><ymin>20</ymin><!-- c --><ymax>70</ymax><depth>1</depth></bndbox>"
    xml = f"<annotation>{size_tag(120, 80)}<object><occluded>0</occluded>{box}<name>cat</name></object></annotation>"
    (record,) = convert(voc(tmp_path / "d", xml=xml))
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)


def test_parts_of_an_object_are_not_objects(tmp_path):
    part = f"<part>{object_tag('head', 1, 1, 5, 5)[8:-9]}</part>"
    xml = f"<annotation><object>{part}{object_tag(*CAT)[8:]}</annotation>"
    (record,) = convert(voc(tmp_path / "d", xml=xml))
    assert record["label_text"] == [b"cat"]
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)


@pytest.mark.parametrize(
    "xml",
    [
        b"\xef\xbb\xbf" + annotation().encode(),
        f'<?xml version="1.0" encoding="gbk"?>{annotation(extra="<f>图片</f>")}'.encode("gbk"),
        f'<?xml version="1.0" encoding="iso-8859-1"?>{annotation(extra="<f>é</f>")}'.encode("latin-1"),
        annotation().encode("utf-16"),
        f'<?xml version="1.0" encoding="utf-8"?>{annotation()}'.encode("utf-16"),
        annotation().replace("><", ">\r\n<").encode(),
        b'\n <?xml version="1.0"?>' + annotation().encode(),
        annotation().replace("<annotation>", '<annotation xmlns="http://x">').encode(),
        annotation().replace("<annotation>", "<!-- made by hand --><annotation><!-- x -->").encode(),
    ],
)
def test_encodings_and_namespaces(tmp_path, xml):
    (record,) = convert(voc(tmp_path / "d", xml=xml))
    np.testing.assert_allclose(boxes(record), [CAT_BOX], atol=1e-7)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (annotation().encode()[:-30], "not readable as XML"),
        (annotation().encode() * 2, "not readable as XML"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "<html>"),
        (POINTER, "Git LFS pointer"),
        (b"<project version='4'><component/></project>", "<project>"),
        (annotation().encode("gbk") + "图".encode("gbk"), "not readable as XML"),
        (b"\xff\xfe\x00", "byte order mark"),
    ],
)
def test_what_is_no_annotation_is_named_and_skipped(tmp_path, capsys, content, reason):
    voc(tmp_path / "d", "a", xml=content)
    voc(tmp_path / "d", "b")
    voc(tmp_path / "d", "c")
    assert names(convert(tmp_path / "d")) == ["b.jpg", "c.jpg"]
    errors = capsys.readouterr().err
    line = said(errors)[0]
    assert line.startswith("a.xml: ")
    assert reason in line
    assert "skipped: unusable annotation: 1 (a.xml)" in errors


def test_other_xml_in_the_folder_is_no_picture(tmp_path, capsys):
    root = voc(tmp_path / "d")
    (root / "Annotations/workspace.xml").write_text("<project/>")
    (root / "Annotations/._a.xml").write_bytes(b"\0\5\26\7")
    (root / "Annotations/.idea").mkdir()
    assert names(convert(root)) == ["a.jpg"]
    errors = capsys.readouterr().err
    assert errors.startswith("workspace.xml: no annotation: its root is <project>")
    assert "._a" not in errors


def test_entities_do_not_read_other_files(tmp_path):
    (tmp_path / "secret").write_text("cat")
    entity = f'<!DOCTYPE annotation [<!ENTITY e SYSTEM "{tmp_path}/secret">]>'
    xml = entity + annotation(objects=[("&e;", 10, 20, 60, 70)])
    with pytest.raises(UserError, match="unknown classes: '&e;'"):
        convert(voc(tmp_path / "d", xml=xml))


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("<object><bndbox/></object>", "object without a name"),
        ("<object><name> </name></object>", "object without a name"),
        ("<object><name>cat</name></object>", "object without &lt;bndbox&gt;"),
        (object_tag("cat", 1, 2, "x", 4), "coordinates missing or not numbers"),
        (object_tag("cat", 1, 2, "", 4), "coordinates missing or not numbers"),
        (object_tag("cat", "nan", 2, 3, 4), "coordinates missing or not numbers"),
        (object_tag("cat", 1, 2, "inf", 4), "coordinates missing or not numbers"),
        (object_tag("cat", 1, 2, "1e999", 4), "coordinates missing or not numbers"),
    ],
)
def test_objects_that_lack_something_are_dropped(tmp_path, capsys, tag, reason):
    xml = f"<annotation>{tag}{object_tag(*CAT)}</annotation>"
    (record,) = convert(voc(tmp_path / "d", xml=xml))
    assert record["label"] == [1]
    reason = reason.replace("&lt;", "<").replace("&gt;", ">")
    assert f"dropped: {reason}: 1 (a.xml)" in capsys.readouterr().err
