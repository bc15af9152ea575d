"""Class names: which are known, which are refused, which id they get."""

import pytest

from engine.errors import UserError
from tests.tools.voc_folder import convert, label_file, manifest, voc

BOX = (1, 2, 30, 40)


def convert_with(tmp_path, text, names, **flags):
    """Converts one object of each of `names` with a class file of these bytes."""
    (tmp_path / "classes.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    voc(tmp_path / "d", objects=[(name, *BOX) for name in names])
    (record,) = convert(tmp_path / "d", labels=str(tmp_path / "classes.txt"), **flags)
    return record


@pytest.mark.parametrize(
    ("text", "names", "labels"),
    [
        ("RBC\nWBC\nPlatelets\n", ["Platelets", "RBC", "WBC"], [3, 1, 2]),
        ("\ufeffTie Fighter\r\n\r\nMillennium Falcon \r\n", ["Tie Fighter", "Millennium Falcon"], [1, 2]),
        ("cat", ["\n cat \t"], [1]),
        ("3024\n3004\n20\n", ["20", "3024", "3004"], [3, 1, 2]),
        ("猫\ncafé\n", ["café", "猫"], [2, 1]),
        ("1:dog\n2:cat\n", ["cat", "dog"], [2, 1]),
        ("0:background\n1:dog\n2:tie: blue\n", ["tie: blue"], [2]),
        ("a,b\n#c\n", ["#c", "a,b"], [2, 1]),
        ("cat\nCat\n", ["Cat", "cat"], [2, 1]),
    ],
)
def test_class_files(tmp_path, text, names, labels):
    record = convert_with(tmp_path, text, names)
    assert record["label"] == labels
    assert [name.decode() for name in record["label_text"]] == [name.strip() for name in names]


def test_manifest_keeps_the_names(tmp_path):
    convert_with(tmp_path, "Tie Fighter\n3024\n猫\n", ["猫"])
    stored = manifest(tmp_path / "records")
    assert stored["class_names"] == ["Tie Fighter", "3024", "猫"]
    assert stored["splits"]["train"]["objects_per_class"] == {"Tie Fighter": 0, "3024": 0, "猫": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("background\ncat\n", "holds 'background'; take that line out: id 0 is background"),
        ("cat\nNone\n", "holds 'None'; take that line out"),
        ("cat\ndog\ncat \n", "holds 'cat' more than once"),
        ("\n \n", "holds no class name"),
        ("0:cat\n1:dog\n", "ids are not 1, 2, 3"),
        ("2:cat\n3:dog\n", "ids are not 1, 2, 3"),
        (b"caf\xe9\n", "is not UTF-8 text"),
    ],
)
def test_class_files_that_are_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message) as error:
        convert_with(tmp_path, text, ["cat"])
    assert "--labels: " in str(error.value)
    assert "classes.txt" in str(error.value)


def test_class_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="--labels: .*nowhere.txt: No such file"):
        convert(voc(tmp_path / "d"), labels=str(tmp_path / "nowhere.txt"))


def test_unknown_names_are_listed_together(tmp_path):
    voc(tmp_path / "d", objects=[("cat", *BOX), ("cta", *BOX), ("Dog", *BOX)])
    voc(tmp_path / "d", "b", objects=[("cta", *BOX), ("background", *BOX)])
    with pytest.raises(UserError) as error:
        convert(tmp_path / "d")
    text = str(error.value)
    assert "'cta' (2 objects, in a.xml)" in text
    assert "'Dog' (1 object, in a.xml; differs only by case from 'dog')" in text
    assert "'background' (1 object, in b.xml; id 0 is background already)" in text
    assert "known are cat, dog" in text
    assert "--skip_unknown" in text
    assert not (tmp_path / "records").exists()


def test_unknown_names_skipped_on_request(tmp_path, capsys):
    record = convert_with(tmp_path, "cat\n", ["cat", "Cat", "background"], skip_unknown=True)
    assert record["label"] == [1]
    errors = capsys.readouterr().err
    assert "dropped: unknown class 'Cat': 1" in errors
    assert "dropped: unknown class 'background': 1" in errors


def test_names_are_found_where_no_list_is_given(tmp_path):
    voc(tmp_path / "d", objects=[("wolf", *BOX), ("Ant", *BOX)])
    (record,) = convert(tmp_path / "d", labels=None)
    assert record["label"] == [2, 1]
    label_file(tmp_path / "d/labels.txt", "wolf", "bee", "Ant")
    (record,) = convert(tmp_path / "d", labels=None)
    assert record["label"] == [1, 3]


@pytest.mark.parametrize("name", ["background", "None", "__background__"])
def test_background_is_no_class_to_be_found(tmp_path, name):
    with pytest.raises(UserError, match=rf"a.xml has an object of class '{name}'.*--labels .*--skip_unknown"):
        convert(voc(tmp_path / "d", objects=[("cat", *BOX), (name, *BOX)]), labels=None)


def test_no_name_anywhere(tmp_path):
    with pytest.raises(UserError, match="no annotation holds an object"):
        convert(voc(tmp_path / "d", objects=()), labels=None)


def test_another_split_with_other_names_is_refused(tmp_path):
    voc(tmp_path / "d")
    convert(tmp_path / "d", split="train")
    before = {path.name: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    other = label_file(tmp_path / "other.txt", "dog", "cat")
    with pytest.raises(UserError, match=r"set.json lists the classes cat, dog for its split train, this run has dog, cat"):
        convert(tmp_path / "d", split="val", labels=other)
    assert {path.name: path.read_bytes() for path in (tmp_path / "records").iterdir()} == before
    # The only split may change its names: nothing is left that the old ids would be wrong for.
    (record,) = convert(tmp_path / "d", split="train", labels=other)
    assert record["label"] == [2]
    assert manifest(tmp_path / "records")["class_names"] == ["dog", "cat"]


def test_manifest_of_someone_else_is_left_alone(tmp_path):
    (tmp_path / "records").mkdir()
    for text in ("[1]", "{", '{"class_names": 3, "splits": {}}'):
        (tmp_path / "records/set.json").write_text(text)
        with pytest.raises(UserError, match="is no data set's manifest"):
            convert(voc(tmp_path / "d"))
        assert (tmp_path / "records/set.json").read_text() == text


def test_labels_file_of_another_data_set_is_left_alone(tmp_path):
    convert(voc(tmp_path / "d"))
    convert(tmp_path / "d", output_name="other", labels=label_file(tmp_path / "other.txt", "dog", "cat"))
    assert (tmp_path / "records/labels.txt").read_text() == "1:cat\n2:dog\n"
    assert manifest(tmp_path / "records", "other")["class_names"] == ["dog", "cat"]


def test_labels_file_among_the_annotations_is_left_alone(tmp_path):
    root = voc(tmp_path / "d")
    label_file(root / "labels.txt", "cat", "dog")
    convert(root, root, labels=None)
    assert (root / "labels.txt").read_text() == "cat\ndog\n"
