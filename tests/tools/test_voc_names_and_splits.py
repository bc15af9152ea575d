"""How annotations find their pictures, and split files their annotations."""

import pytest

from engine.errors import UserError
from tests.tools.voc_folder import annotation, config, convert, label_file, manifest, names, picture, read, split_file, voc
from tools.pascalvoc_to_tfrecords import main


@pytest.mark.parametrize("filename", ["a", "a.txt", "a.png", "", "../../etc/passwd", "C:\\labels\\x.jpg", "b.jpg"])
def test_the_stem_pairs_whatever_filename_says(tmp_path, filename):
    voc(tmp_path / "d", filename=filename)
    voc(tmp_path / "d", "b", ext=".jpeg")
    assert names(convert(tmp_path / "d")) == ["a.jpg", "b.jpeg"]


@pytest.mark.parametrize("filename", ["photo.jpg", "photo", "photo.png", "folder/photo.jpg", "..\\photo.jpg"])
def test_filename_helps_where_no_picture_has_the_stem(tmp_path, filename):
    root = voc(tmp_path / "d", filename=filename)
    (root / "JPEGImages/a.jpg").rename(root / "JPEGImages/photo.jpg")
    assert names(convert(root)) == ["photo.jpg"]


def test_filename_does_not_lead_out_of_the_data_set(tmp_path, capsys):
    root = voc(tmp_path / "d", filename="../../outside.jpg")
    (root / "JPEGImages/a.jpg").rename(tmp_path / "outside.jpg")
    with pytest.raises(UserError, match="no usable picture"):
        convert(root)
    assert "a.xml: no picture for this annotation" in capsys.readouterr().err


def test_filename_does_not_take_the_picture_of_another_annotation(tmp_path):
    root = voc(tmp_path / "d", "copy", filename="a.jpg")
    (root / "JPEGImages/copy.jpg").unlink()
    voc(root, "a")
    assert names(convert(root)) == ["a.jpg"]


def test_filename_decides_among_several_pictures(tmp_path):
    root = voc(tmp_path / "d", filename="a.png")
    (root / "JPEGImages/a.png").write_bytes(picture(ext=".png"))
    assert names(convert(root)) == ["a.png"]
    voc(root, filename="a")
    assert names(convert(root)) == ["a.jpg"]


def test_extensions_in_any_case(tmp_path):
    for stem, ext in zip("abcde", (".JPG", ".jpeg", ".PNG", ".bmp", ".Jpg"), strict=True):
        voc(tmp_path / "d", stem, ext=ext)
    (tmp_path / "d/Annotations/e.xml").rename(tmp_path / "d/Annotations/e.XML")
    records = convert(tmp_path / "d")
    assert names(records) == ["a.JPG", "b.jpeg", "c.PNG", "d.bmp", "e.Jpg"]
    assert [record["format"][0] for record in records] == [b"jpeg", b"jpeg", b"png", b"png", b"jpeg"]


def test_accents_match_however_they_are_written(tmp_path):
    root = voc(tmp_path / "d", "é")
    (root / "JPEGImages/é.jpg").rename(root / "JPEGImages/e\u0301.jpg")
    split_file(root, "train", "é\n")
    assert len(convert(root)) == 1


def test_annotation_without_picture_and_picture_without_annotation(tmp_path, capsys):
    root = voc(tmp_path / "d")
    voc(root, "lonely")
    (root / "JPEGImages/lonely.jpg").unlink()
    (root / "JPEGImages/extra.jpg").write_bytes(picture())
    assert names(convert(root)) == ["a.jpg"]
    errors = capsys.readouterr().err
    assert "skipped: annotation without a picture: 1 (lonely.xml)" in errors
    assert "skipped: picture without an annotation: 1 (extra.jpg)" in errors
    records = convert(root, unlabelled_as_background=True)
    assert names(records) == ["a.jpg", "extra.jpg"]
    assert records[1]["label"] == []


def test_unlabelled_pictures_outside_the_splits_stay_out(tmp_path):
    root = voc(tmp_path / "d")
    for name in ("listed", "unlisted"):
        (root / f"JPEGImages/{name}.jpg").write_bytes(picture())
    split_file(root, "train", "a\nlisted\n")
    assert names(convert(root, unlabelled_as_background=True)) == ["a.jpg", "listed.jpg"]
    assert names(convert(root)) == ["a.jpg"]


def test_lines_of_split_files(tmp_path, capsys):
    root = voc(tmp_path / "d")
    for stem in ("b", "c", "c 1", "cat"):
        voc(root, stem)
    split_file(root, "train", "\ufeffa  1\r\n\r\nb.jpg\r\na -1\r\n missing \n  c 1\nb\nx/cat.xml 0\n")
    assert names(convert(root)) == ["a.jpg", "b.jpg", "c 1.jpg", "cat.jpg"]
    assert "missing: listed in train" in capsys.readouterr().err


def test_every_split_is_converted_but_no_list_of_a_class(tmp_path):
    root = voc(tmp_path / "d")
    voc(root, "b")
    for name, text in {"train": "a\n", "val": "b\n", "trainval": "a\nb\n", "cat_train": "a 1\n", "dog_val": "b -1\n"}.items():
        split_file(root, name, text)
    split_file(root, "night_val", "b\n")
    main(config(root))
    assert sorted(manifest(tmp_path / "records")["splits"]) == ["night_val", "train", "trainval", "val"]
    assert names(read(tmp_path / "records", "trainval")) == ["a.jpg", "b.jpg"]
    assert names(convert(root, tmp_path / "asked", split="cat_train")) == ["a.jpg"]


def test_all_splits_agree_on_ids(tmp_path):
    root = voc(tmp_path / "d", objects=[("zebra", 1, 2, 3, 4)])
    voc(root, "b", objects=[("ant", 1, 2, 3, 4)])
    split_file(root, "train", "a\n")
    split_file(root, "val", "b\n")
    (train,) = convert(root, labels=None, split="train")
    (val,) = convert(root, labels=None, split="val")
    assert (train["label"], val["label"]) == ([2], [1])
    assert manifest(tmp_path / "records")["class_names"] == ["ant", "zebra"]
    assert (tmp_path / "records/labels.txt").read_text() == "1:ant\n2:zebra\n"


def test_without_split_files_the_name_of_the_split_is_free(tmp_path):
    assert len(convert(voc(tmp_path / "d"), split="test")) == 1


def test_an_empty_split_is_told_and_the_others_are_written(tmp_path, capsys):
    root = voc(tmp_path / "d")
    split_file(root, "train", "a\n")
    split_file(root, "test", "")
    assert len(convert(root)) == 1
    assert "split test has no usable picture" in capsys.readouterr().err
    assert list(manifest(tmp_path / "records")["splits"]) == ["train"]
    with pytest.raises(UserError, match="no usable picture in split test"):
        convert(root, split="test")


@pytest.mark.parametrize(
    ("below", "flags", "parts"),
    [
        ("nowhere", {}, ["nowhere: no such folder"]),
        ("classes.txt", {}, ["not a folder"]),
        ("", {}, ["no folder Annotations", "it holds: ", "classes.txt", "d/", "one level down: ", "/d"]),
        ("d/JPEGImages", {}, ["no folder Annotations", "a.jpg", "one level up: "]),
        ("d", {"split": "val"}, ["--split=val", "ImageSets/Main/val.txt", "the splits there are: train"]),
        ("d", {"output_name": "a/b"}, ["--output_name='a/b'"]),
        ("d", {"output_name": "a*"}, ["--output_name='a*'"]),
        ("d", {"output_name": ".a"}, ["--output_name='.a'"]),
        ("d", {"split": "../train"}, ["--split='../train'"]),
    ],
)
def test_mistakes_in_flags_name_what_was_looked_for(tmp_path, below, flags, parts):
    split_file(voc(tmp_path / "d"), "train", "a\n")
    labels = label_file(tmp_path / "classes.txt", "cat")
    with pytest.raises(UserError) as error:
        main(config(tmp_path / below, tmp_path / "records", labels=labels, **flags))
    text = str(error.value)
    assert all(part in text for part in parts)
    assert "\n" not in text
    assert not (tmp_path / "records").exists()


def test_missing_pictures_folder(tmp_path):
    root = voc(tmp_path / "d", xml=annotation())
    (root / "JPEGImages").rename(root / "Images")
    with pytest.raises(UserError, match="no folder JPEGImages in it; it holds: Annotations/, Images/"):
        convert(root)
