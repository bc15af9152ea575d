"""`augment` as a whole: every recipe, awkward boxes, arrays, eager tensors and `tf.data`."""

import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from ssd.preprocessing import RECIPES, augment, augment_numpy, resize_for_evaluation

SIZE = 32
HEIGHT, WIDTH = 60, 80


def pixels(*box: float) -> list[float]:
    return [box[0] / HEIGHT, box[1] / WIDTH, box[2] / HEIGHT, box[3] / WIDTH]


AWKWARD_BOXES = {
    "one pixel": [pixels(0, 0, 1, 1)],
    "one pixel in the last corner": [pixels(59, 79, 60, 80)],
    "whole image": [[0, 0, 1, 1]],
    "last column": [pixels(0, 79, 60, 80)],
    "last row": [pixels(59, 0, 60, 80)],
    "one pixel apart": [pixels(10, 10, 30, 40), pixels(10, 41, 30, 70)],
    "tiny in the corner and big": [pixels(1, 2, 4, 6), pixels(15, 10, 58, 77)],
}


def make_sample(boxes: list, seed: int = 0) -> dict[str, np.ndarray]:
    count = len(boxes)
    return {
        "image": np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8),
        "boxes": np.array(boxes, np.float32).reshape(count, 4),
        "labels": np.arange(1, count + 1),
        "difficult": np.arange(count) % 2,
    }


def assert_same(first: dict, second: dict) -> None:
    assert set(first) == set(second)
    for name, value in first.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(second[name]), err_msg=name)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("boxes", AWKWARD_BOXES.values(), ids=AWKWARD_BOXES)
def test_boxes_stay_valid_and_labels_stay_theirs(recipe, boxes):
    sample = make_sample(boxes)
    most = 0
    for example in range(150):  # 1,050 draws per recipe over the seven cases
        out = augment_numpy(sample, recipe, SIZE, seed=0, epoch=0, example=example)
        assert out["image"].shape == (SIZE, SIZE, 3)
        assert out["image"].dtype == np.uint8
        assert out["boxes"].dtype == np.float32
        assert out["boxes"].min(initial=0) >= 0
        assert out["boxes"].max(initial=1) <= 1
        assert (out["boxes"][:, 2:] > out["boxes"][:, :2]).all()
        assert len(out["boxes"]) == len(out["labels"]) == len(out["difficult"])
        np.testing.assert_array_equal(out["difficult"], (out["labels"] - 1) % 2)
        most = max(most, len(out["boxes"]))
    assert most == len(boxes)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_objects_in_no_objects_out(recipe):
    for example in range(50):
        out = augment_numpy(make_sample([]), recipe, SIZE, seed=0, epoch=0, example=example)
        assert out["boxes"].shape == (0, 4)
        assert out["labels"].shape == out["difficult"].shape == (0,)
        assert out["image"].shape == (SIZE, SIZE, 3)


def test_one_two_and_113_objects_all_work():
    rng = np.random.default_rng(0)
    corners = rng.random((113, 2)) * 0.8
    many = np.concatenate([corners, corners + 0.05 + 0.1 * rng.random((113, 2))], axis=1)
    counts = [len(augment_numpy(make_sample(many), "paper", SIZE, seed=0, epoch=0, example=i)["boxes"]) for i in range(20)]
    assert max(counts) == 113
    assert min(counts) < 113


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_given_sample_is_not_changed(recipe):
    sample = make_sample(AWKWARD_BOXES["one pixel apart"])
    before = {name: value.copy() for name, value in sample.items()}
    for value in sample.values():
        value.flags.writeable = False
    for example in range(30):
        augment_numpy(sample, recipe, SIZE, seed=0, epoch=0, example=example)
    assert_same(before, sample)
    assert set(sample) == set(before)


@pytest.mark.parametrize("recipe", RECIPES)
def test_arrays_tensors_and_tf_data_give_the_same(recipe):
    sample = make_sample(AWKWARD_BOXES["tiny in the corner and big"]) | {"filename": np.array(b"a.jpg")}
    tensors = {name: tf.constant(value) for name, value in sample.items()}
    dataset = tf.data.Dataset.from_tensors(tensors).repeat(12).enumerate()
    dataset = dataset.map(lambda i, s: augment(s, recipe, SIZE, seed=3, epoch=2, example=i), num_parallel_calls=2)
    spec = dataset.element_spec
    assert spec["image"] == tf.TensorSpec([SIZE, SIZE, 3], tf.uint8)
    assert spec["boxes"] == tf.TensorSpec([None, 4], tf.float32)
    assert spec["labels"] == spec["difficult"] == tf.TensorSpec([None], tf.int64)
    assert spec["filename"] == tf.TensorSpec([], tf.string)
    for example, mapped in enumerate(dataset.as_numpy_iterator()):
        from_arrays = augment(sample, recipe, SIZE, seed=3, epoch=2, example=example)
        from_tensors = augment(tensors, recipe, SIZE, seed=3, epoch=tf.constant(2), example=tf.constant(example))
        assert_same(mapped, from_arrays)
        assert_same(mapped, from_tensors)


def test_a_dataset_of_unknown_picture_sizes_still_gets_static_shapes():
    spec = {name: tf.TensorSpec([None] * value.ndim, value.dtype) for name, value in make_sample([]).items()}
    samples = [make_sample([]), make_sample([[0, 0, 1, 1]])]
    dataset = tf.data.Dataset.from_generator(lambda: iter(samples), output_signature=spec)
    dataset = dataset.map(lambda s: augment(s, "none", SIZE, seed=0, epoch=0, example=0))
    assert dataset.element_spec["boxes"].shape.as_list() == [None, 4]
    assert [len(out["boxes"]) for out in dataset.as_numpy_iterator()] == [0, 1]


@pytest.mark.parametrize("recipe", ["paper", "seed"])
@pytest.mark.parametrize("changed", [{"seed": 1}, {"epoch": 1}, {"example": 1}, {"seed": -1}])
def test_each_part_of_the_key_counts(recipe, changed):
    sample = make_sample([[0.2, 0.2, 0.8, 0.8]])
    key = {"seed": 0, "epoch": 0, "example": 0}
    first = augment_numpy(sample, recipe, SIZE, **key)
    assert_same(first, augment_numpy(sample, recipe, SIZE, **key))
    assert not np.array_equal(first["image"], augment_numpy(sample, recipe, SIZE, **key | changed)["image"])


def test_keys_do_not_mix():
    sample = make_sample([[0.2, 0.2, 0.8, 0.8]])
    keys = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0), (1, 0, 1), (0, 0, 0), (1, 1, 1)]
    images = {augment_numpy(sample, "paper", SIZE, seed=s, epoch=e, example=x)["image"].tobytes() for s, e, x in keys}
    assert len(images) == len(keys)


def test_recipe_none_is_the_evaluation_transform():
    sample = make_sample([[0.25, 0, 0.75, 0.5]])
    out = augment_numpy(sample, "none", SIZE, seed=0, epoch=0, example=0)
    np.testing.assert_array_equal(out["image"], resize_for_evaluation(sample["image"], SIZE))
    np.testing.assert_array_equal(out["boxes"], sample["boxes"])


def test_evaluation_transform_warps_bilinearly():
    columns = np.array([[10, 20, 30, 40]], np.uint8)
    image = np.repeat(columns[..., None], 3, axis=2)  # [1, 4, 3]
    out = resize_for_evaluation(image, 2)
    np.testing.assert_array_equal(out[..., 0], [[15, 35], [15, 35]])


def test_unknown_recipe_lists_the_known_ones():
    with pytest.raises(UserError, match=r"'papre'.*paper, seed, none"):
        augment(make_sample([]), "papre", SIZE, seed=0, epoch=0, example=0)
    dataset = tf.data.Dataset.from_tensors(make_sample([]))
    with pytest.raises(UserError, match="papre"):
        dataset.map(lambda s: augment(s, "papre", SIZE, seed=0, epoch=0, example=0))


def test_a_float_image_is_refused():
    sample = make_sample([]) | {"image": np.zeros((4, 4, 3), np.float32)}
    with pytest.raises(ValueError, match=r"uint8.*float32"):
        augment_numpy(sample, "none", SIZE, seed=0, epoch=0, example=0)
