"""How folders become classes and splits."""

import os

import pytest

from engine.errors import UserError
from tests.tools.class_folder import classes, convert, labels_of, put
from tests.tools.voc_folder import label_file, manifest
from tools.class_folders.layout import SPLITS, Picture, open_data_set
from tools.class_folders.splits import assign, divide

LAYOUTS = r"Pictures are expected as CLASS/picture.jpg, or SPLIT/CLASS/picture.jpg"


# Layouts.


def test_split_folders_are_taken_as_they_are(tmp_path, capsys):
    root = classes(tmp_path / "d", "train", cat=2, dog=3)
    classes(root, "val", dog=1)
    classes(root, "test", cat=1)
    put(root, "validation/cat/deep/er/a.jpg")
    records = convert(root, validation_fraction=0.5)
    assert {split: len(held) for split, held in records.items()} == {"train": 5, "val": 1, "validation": 1, "test": 1}
    assert labels_of(records["validation"]) == {"validation/cat/deep/er/a.jpg": 0}
    assert list(manifest(tmp_path / "records")["splits"]) == list(SPLITS)
    errors = capsys.readouterr().err
    assert "layout SPLIT/CLASS/picture: 8 pictures, 2 classes; the split folders are taken as they are" in errors
    assert "  without a usable picture: cat" in errors


def test_split_folders_in_any_case(tmp_path):
    records = convert(classes(classes(tmp_path / "d", "Train", cat=1), "TEST", cat=1))
    assert {split: list(held) for split, held in records.items()} == {
        "test": ["TEST/cat/000.jpg"],
        "train": ["Train/cat/000.jpg"],
    }


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        (["train/cat/a.jpg", "dog/a.jpg"], r"a mixture of splits \(train\) and classes \(dog\)"),
        (["train/a.jpg", "test/a.jpg", "dog/a.jpg"], r"a mixture of splits \(test, train\) and classes \(dog\)"),
        (["train/a.jpg", "test/a.jpg"], "test, train with pictures in it, but no class folder"),
        (["a.jpg", "b.jpg"], "no folder with pictures in it; it holds a.jpg, b.jpg"),
        ([], "no folder with pictures in it; it holds nothing"),
        (["Training/cat/a.jpg", "Testing/cat/a.jpg"], "rename Testing to test, Training to train"),
        (["train/cat/a.jpg", "valid/cat/a.jpg"], "rename valid to validation"),
        (["photos/cat/a.jpg", "photos/dog/a.jpg"], "the data set seems to be one level down, in photos"),
    ],
)
def test_other_layouts_are_refused_in_one_line(tmp_path, paths, problem):
    (tmp_path / "d").mkdir()
    with pytest.raises(UserError, match=f"--dataset_dir=.*/d: .*{problem}.*{LAYOUTS}") as error:
        convert(put(tmp_path / "d", *paths))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "records").exists()


def test_a_folder_of_other_files_tells_what_it_holds(tmp_path):
    with pytest.raises(UserError, match="no folder with pictures in it; it holds x/ and 2 files that are no picture"):
        convert(put(tmp_path / "d", "x/notes.txt", "README", data=b"text"))


def test_train_and_valid_can_be_classes(tmp_path):
    convert(put(tmp_path / "d", "train/a.jpg", "car/a.jpg", "valid/b.jpg"))
    assert manifest(tmp_path / "records")["class_names"] == ["car", "train", "valid"]


def test_what_is_no_picture_is_passed_over(tmp_path, capsys):
    root = classes(tmp_path / "d", cat=1)
    put(root, "LICENSE.txt", "cat/Thumbs.db", "cat/.DS_Store", "cat/._000.jpg", data=b"x")
    put(root, ".git/a.jpg", "__MACOSX/cat/000.jpg", "cat/@eaDir/000.jpg")
    assert list(convert(root)["train"]) == ["cat/000.jpg"]
    errors = capsys.readouterr().err
    assert "data set: 7 passed over" in errors
    assert "Thumbs.db" not in errors


def test_folders_without_a_picture_and_pictures_without_a_folder_are_named(tmp_path, capsys):
    root = classes(tmp_path / "d", "train", cat=1)
    put(root, "docs/readme.md", "train/dog/notes.txt", data=b"x")
    put(root, "train/a.jpg", "train/b.jpg", "top.jpg")
    assert list(convert(root)["train"]) == ["train/cat/000.jpg"]
    errors = capsys.readouterr().err
    assert "docs: no picture in this folder (warning)" in errors
    assert "train/dog: no picture in this folder (warning)" in errors
    assert "top.jpg: in no class folder (skipped)" in errors
    assert "train/a.jpg: in no class folder, nor is 1 other beside it (skipped)" in errors
    assert "skipped: picture in no class folder: 3" in errors
    assert manifest(tmp_path / "records")["class_names"] == ["cat"]


def test_links_are_followed_but_not_in_circles(tmp_path, capsys):
    root = classes(tmp_path / "d", cat=1)
    put(tmp_path / "elsewhere", "b.jpg", "deep/c.jpg")
    (root / "dog").symlink_to(tmp_path / "elsewhere")
    (root / "cat/up").symlink_to("../..")
    (root / "cat/all").symlink_to(root)
    (tmp_path / "elsewhere/deep/back").symlink_to("..")
    (root / "cat/000 again.jpg").symlink_to("000.jpg")
    (tmp_path / "outside.txt").write_text("")
    # The folder above the data set is no folder of a class: it is followed once, down to the data set itself.
    held = set(convert(root)["train"])
    assert {"cat/000.jpg", "cat/000 again.jpg", "dog/b.jpg", "dog/deep/c.jpg", "cat/up/elsewhere/b.jpg"} <= held
    assert len(held) == 6
    errors = capsys.readouterr().err
    for path in ("cat/all", "cat/up/d", "dog/deep/back"):
        assert f"{path}: leads to a folder above it; not followed (warning)" in errors


def test_folder_that_cannot_be_read(tmp_path, capsys):
    """A path too long for the system stands in for a folder without permission, which the superuser reads all the same."""
    root = classes(tmp_path / "d", cat=1)
    handle = os.open(root / "cat", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("n" * 250, dir_fd=handle)
        inner = os.open("n" * 250, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    assert list(convert(root)["train"]) == ["cat/000.jpg"]
    assert "nnn: File name too long (skipped)" in capsys.readouterr().err


# Class names.


def test_labels_file_gives_the_order(tmp_path):
    root = classes(tmp_path / "d", cat=1, dog=1, background=1)
    names = label_file(tmp_path / "names.txt", "0:dog", "1:background", "2:cat", "3:eel")
    records = convert(root, labels=names)["train"]
    assert labels_of(records) == {"dog/000.jpg": 0, "background/000.jpg": 1, "cat/000.jpg": 2}
    assert manifest(tmp_path / "records")["splits"]["train"]["images_per_class"] == {
        "dog": 1,
        "background": 1,
        "cat": 1,
        "eel": 0,
    }
    assert (tmp_path / "records/labels.txt").read_text() == "0:dog\n1:background\n2:cat\n3:eel\n"


def test_ids_that_start_at_1_are_refused(tmp_path):
    with pytest.raises(UserError, match="ids are not 0, 1, 2"):
        convert(classes(tmp_path / "d", cat=1), labels=label_file(tmp_path / "names.txt", "1:cat", "2:dog"))


def test_unknown_class_folders_are_listed_together(tmp_path, capsys):
    root = classes(tmp_path / "d", cat=1, Dog=3, cta=1)
    names = label_file(tmp_path / "names.txt", "cat", "dog")
    with pytest.raises(UserError) as error:
        convert(root, labels=names)
    text = str(error.value)
    assert "'Dog' (3 pictures; differs only by case from 'dog'), 'cta' (1 picture); known are cat, dog" in text
    assert "--skip_unknown" in text
    assert list(convert(root, labels=names, skip_unknown=True, strict=True)["train"]) == ["cat/000.jpg"]
    errors = capsys.readouterr().err
    assert "Dog: left out: 'Dog' (3 pictures" in errors
    assert "warned: picture of a class that is not in --labels: 4" in errors


def test_names_that_differ_only_by_case(tmp_path):
    root = classes(classes(tmp_path / "d", "train", Cat=1), "test", cat=1)
    with pytest.raises(UserError, match="'Cat' and 'cat' differ only by case.*--labels"):
        convert(root)
    records = convert(root, labels=label_file(tmp_path / "names.txt", "cat", "Cat"))
    assert (labels_of(records["test"]), labels_of(records["train"])) == ({"test/cat/000.jpg": 0}, {"train/Cat/000.jpg": 1})


def test_names_match_however_accents_and_blanks_are_written(tmp_path):
    root = put(tmp_path / "d", "train/caf\u00e9/a.jpg", "test/cafe\u0301/a.jpg", "test/caf\u00e9 /b.jpg")
    records = convert(root)
    assert manifest(tmp_path / "records")["class_names"] == ["caf\u00e9"]
    assert len(records["test"]) == 2
    assert convert(root, labels=label_file(tmp_path / "names.txt", "cafe\u0301"))["train"]


@pytest.mark.parametrize("folder", [b"a\nb", b"\xff", b" ", "a\u2028b".encode()])
def test_folders_that_cannot_be_classes(tmp_path, folder):
    root = classes(tmp_path / "d", cat=1, dog=1)
    os.rename(root / "dog", os.path.join(os.fsencode(root), folder))
    with pytest.raises(UserError, match="cannot be a class"):
        convert(root)


# Splits by hash.


def pictures(**counts):
    return [Picture(f"{name}/{number}.jpg", name) for name, count in counts.items() for number in range(count)]


def names(held):
    return {picture.name for picture in held}


def test_every_picture_once_and_every_class_in_its_share():
    held = pictures(cat=40, dog=20, eel=10)
    split = assign(held, False, 0.2, 0)
    assert list(split) == ["train", "validation"]
    assert sorted(names(split["train"]) | names(split["validation"])) == sorted(names(held))
    assert len(split["train"]) + len(split["validation"]) == 70
    counts = [sum(picture.class_name == name for picture in split["validation"]) for name in ("cat", "dog", "eel")]
    assert counts == [8, 4, 2]
    assert all(picture.split == "train" for picture in split["train"])


def test_split_depends_on_names_and_seed_alone():
    held = pictures(cat=40, dog=20)
    split = assign(held, False, 0.2, 0)
    assert assign(reversed(held), False, 0.2, 0) == split
    assert names(assign(held, False, 0.2, 1)["validation"]) != names(split["validation"])
    assert [picture.name for picture in assign(held, False, 0, 1)["train"]] != [
        p.name for p in assign(held, False, 0, 0)["train"]
    ]
    # Known names: a change of the hash would move pictures between the splits of data sets that exist.
    assert sorted(names(assign(pictures(cat=10), False, 0.2, 0)["validation"])) == ["cat/2.jpg", "cat/7.jpg"]


def test_more_pictures_move_few_others():
    before = names(assign(pictures(cat=100, dog=100), False, 0.1, 0)["validation"])
    after = names(assign(pictures(cat=101, dog=100), False, 0.1, 0)["validation"])
    assert len(before - after) <= 2


def test_fraction_of_0_makes_no_validation():
    assert list(assign(pictures(cat=3), False, 0, 0)) == ["train"]


@pytest.mark.parametrize(
    ("sizes", "fraction", "total"),
    [
        ([10, 10], 0.1, 2),
        ([30, 1], 0.1, 3),
        ([5, 5, 5, 5], 0.1, 2),
        ([3] * 100, 0.1, 30),
        ([2, 2], 0.1, 1),
        ([1, 1, 1], 0.5, 0),
        ([2, 1], 0.9, 1),
        ([100], 0.29, 29),
        ([7, 7], 0.999, 12),
    ],
)
def test_shares(sizes, fraction, total):
    shares = divide({f"class {number}": size for number, size in enumerate(sizes)}, fraction, 0)
    assert sum(shares.values()) == total
    for size, share in zip(sizes, shares.values(), strict=True):
        assert abs(share - fraction * size) < 1
        assert share < size


def test_open_data_set_tells_no_split_of_flat_folders(tmp_path):
    data_set = open_data_set(put(tmp_path / "d", "b/x.jpg", "a/y.jpg"), "--dataset_dir")
    assert not data_set.has_splits
    assert data_set.pictures == [Picture("a/y.jpg", "a"), Picture("b/x.jpg", "b")]
