"""The drawn data set: valid VOC, tight boxes, the same every time."""

import itertools
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from engine.errors import UserError
from tools.make_sample_voc import Config, main
from tools.sample_pictures import (
    NAMES,
    Shape,
    draw_mask,
    draw_picture,
    outline,
    place_shapes,
    shared_part,
    tight_box,
    visible_share,
)

TRAIN, VAL = 30, 6


@pytest.fixture(scope="module")
def sample_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "voc"
    main(Config(output_dir=str(path), train=TRAIN, val=VAL))
    return path


def annotations(root: Path) -> list[ElementTree.Element]:
    return [ElementTree.parse(path).getroot() for path in sorted(root.glob("Annotations/*.xml"))]


def box_of(element: ElementTree.Element) -> list[int]:
    return [int(element.findtext(f"bndbox/{name}")) for name in ("ymin", "xmin", "ymax", "xmax")]


def test_every_listed_picture_has_a_jpeg_and_an_annotation(sample_dir):
    names = []
    for split, count in (("train", TRAIN), ("val", VAL)):
        listed = (sample_dir / f"ImageSets/Main/{split}.txt").read_text().split()
        assert len(set(listed)) == count
        names += listed
    assert {path.stem for path in sample_dir.glob("JPEGImages/*.jpg")} == set(names)
    assert {path.stem for path in sample_dir.glob("Annotations/*.xml")} == set(names)


def test_annotations_describe_the_jpegs_beside_them(sample_dir):
    for root in annotations(sample_dir):
        image = cv2.imread(str(sample_dir / "JPEGImages" / root.findtext("filename")))
        size = [int(root.findtext(f"size/{name}")) for name in ("height", "width", "depth")]
        assert list(image.shape) == size
        for element in root.iter("object"):
            ymin, xmin, ymax, xmax = box_of(element)
            assert 0 <= ymin < ymax <= size[0]
            assert 0 <= xmin < xmax <= size[1]
            assert element.findtext("name") in NAMES
            assert element.findtext("difficult") in ("0", "1")


def test_the_data_set_is_varied(sample_dir):
    roots = annotations(sample_dir)
    names = [element.findtext("name") for root in roots for element in root.iter("object")]
    assert set(names) == set(NAMES)
    assert len({root.findtext("size/width") for root in roots}) > TRAIN / 2
    assert {root.find("object/difficult") is None for root in roots} == {True, False}  # with and without objects
    assert {element.findtext("difficult") for root in roots for element in root.iter("object")} == {"0", "1"}


def test_share_of_pictures_without_objects():
    empty = sum(not place_shapes(np.random.default_rng(seed), 300, 300) for seed in range(200))
    assert 1 <= empty <= 22  # 5 % of 200, give or take four standard deviations


def test_figures_rarely_cover_one_another():
    pictures = [place_shapes(np.random.default_rng(seed), 300, 400) for seed in range(30)]
    pairs = [pair for shapes in pictures for pair in itertools.combinations(shapes, 2)]
    shares = np.array([shared_part(*pair) for pair in pairs])
    for (first, second), share in zip(pairs[:50], shares, strict=False):
        boxes = literal_box(first), literal_box(second)
        height, width = np.minimum(boxes[0][2:], boxes[1][2:]) - np.maximum(boxes[0][:2], boxes[1][:2])
        smaller = min((box[2:] - box[:2]).prod() for box in boxes)
        assert share == pytest.approx(max(height, 0) * max(width, 0) / smaller, abs=0.01)
    assert len(pairs) > 50
    assert np.mean(shares > 0.1) < 0.1
    assert shares.max() <= 0.6


def literal_box(shape: Shape) -> np.ndarray:
    """The exact extent of a shape from its geometry: (ymin, xmin, ymax, xmax)."""
    (y, x), r = shape.centre, shape.radius
    if shape.name == "disc":
        return np.array([y - r, x - r, y + r, x + r])
    turns = [shape.angle + 2 * np.pi * k / {"square": 4, "triangle": 3}[shape.name] for k in range(4)]
    ys, xs = [y + r * np.sin(t) for t in turns], [x + r * np.cos(t) for t in turns]
    return np.array([min(ys), min(xs), max(ys), max(xs)])


def test_boxes_are_tight_around_the_exact_shape():
    figures = [figure for seed in range(25) for figure in draw_picture(np.random.default_rng(seed)).figures]
    misses = np.array([figure.box - literal_box(figure.shape) for figure in figures])
    assert len(figures) > 40
    # A pointed corner covers less than half of the pixel it ends in, so a box may be smaller, not larger, by more than a pixel.
    outwards = misses * [-1, -1, 1, 1]
    assert outwards.max() <= 0.75
    assert outwards.min() >= -2
    assert abs(np.median(outwards)) < 0.5


def test_box_of_an_upright_square_is_exact():
    shape = Shape("square", (50.0, 70.0), 20 * 2**0.5, np.pi / 4)
    mask = draw_mask(shape, 100, 120)
    assert tight_box(mask) == (30, 50, 70, 90)
    assert mask[31:69, 51:89].min() == 1
    assert mask.sum() == pytest.approx(40 * 40, rel=0.03)


def test_figures_can_be_seen_where_their_boxes_are():
    picture = draw_picture(np.random.default_rng(1))
    clear = [figure for figure in picture.figures if not figure.difficult]
    assert clear
    for figure in clear:
        y, x = np.intp(figure.shape.centre)
        pixel = cv2.cvtColor(picture.image[y : y + 1, x : x + 1], cv2.COLOR_RGB2HSV)[0, 0]
        assert pixel[1] > 0.6 * 255  # vivid: no background goes beyond a saturation of .35


def test_hidden_figures_are_seen_as_hidden():
    below = draw_mask(Shape("disc", (50.0, 50.0), 20.0, 0.0), 100, 100)
    above = draw_mask(Shape("square", (50.0, 50.0), 60.0, np.pi / 4), 100, 100)
    assert visible_share([below, above], 0) == 0
    assert visible_share([below, above], 1) == 1
    assert visible_share([above, below], 0) == pytest.approx(1 - below.sum() / above.sum(), abs=0.01)


def test_outline_of_a_triangle_by_hand():
    points = outline(Shape("triangle", (10.0, 20.0), 2.0, 0.0))
    np.testing.assert_allclose(points, [[10, 22], [10 + 3**0.5, 19], [10 - 3**0.5, 19]], atol=1e-12)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_same_seed_same_bytes_and_validation_does_not_depend_on_training(tmp_path):
    for name, config in {"a": {"train": 3}, "b": {"train": 3}, "c": {"train": 1}, "d": {"train": 3, "seed": 1}}.items():
        main(Config(output_dir=str(tmp_path / name / "voc"), val=2, **config))
    a, b, c, d = (contents(tmp_path / name) for name in "abcd")
    assert a == b
    assert {name: data for name, data in a.items() if "val" in name} == {name: c[name] for name in c if "val" in name}
    jpegs = [name for name in a if name.endswith(".jpg")]
    assert len(jpegs) == 5
    assert all(a[name] != d[name] for name in jpegs)


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="output_dir"):
        main(Config(output_dir=str(tmp_path), train=1, val=1))
    assert contents(tmp_path) == {"mine.txt": b"keep"}


def test_an_empty_folder_and_an_empty_split_are_fine(tmp_path):
    main(Config(output_dir=str(tmp_path), train=1, val=0))
    assert (tmp_path / "ImageSets/Main/val.txt").read_text() == ""
    assert len(list(tmp_path.glob("JPEGImages/*"))) == 1


@pytest.mark.parametrize("flag", ["train", "val", "seed"])
def test_a_negative_number_names_its_flag(tmp_path, flag):
    with pytest.raises(UserError, match=f"--{flag}.*-1"):
        main(Config(output_dir=str(tmp_path / "voc"), **{flag: -1}))
    assert not (tmp_path / "voc").exists()
