"""Recipes against literal computations and against what they promise."""

import cv2
import numpy as np
import pytest

from classify import preprocessing
from classify.preprocessing import cifar10, inception, vgg
from engine.augmentation.ops import keyed_generator, keyed_uniforms
from engine.errors import UserError


def pictures(*shapes):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*shape, 3)).astype(np.uint8) for shape in shapes]


@pytest.mark.parametrize("recipe", preprocessing.RECIPES)
def test_a_sample_depends_on_its_key_alone(recipe):
    images = pictures((32, 32), (50, 40), (40, 90))
    batch = preprocessing.augment(images, recipe, 24, seed=1, epochs=[3, 3, 4], examples=[7, 8, 9])
    alone = preprocessing.augment(images[1:2], recipe, 24, seed=1, epochs=[3], examples=[8])
    assert batch.shape == (3, 24, 24, 3)
    assert batch.dtype == preprocessing.RECIPES[recipe].dtype
    np.testing.assert_array_equal(batch[1], alone[0])
    other = preprocessing.augment(images, recipe, 24, seed=1, epochs=[4, 4, 5], examples=[7, 8, 9])
    assert (recipe == "none") == np.array_equal(batch, other)


@pytest.mark.parametrize("recipe", preprocessing.RECIPES)
def test_every_size_of_picture_works(recipe):
    for image in pictures((1, 1), (1, 300), (500, 3), (24, 24), (31, 33)):
        assert preprocessing.find(recipe).resize(image, 24).shape == (24, 24, 3)
        assert preprocessing.augment([image], recipe, 24, seed=0, epochs=[0], examples=[0]).shape == (1, 24, 24, 3)


def test_inputs_stay_as_they_were():
    images = pictures((32, 32), (32, 32))
    before = [image.copy() for image in images]
    for recipe in preprocessing.RECIPES:
        preprocessing.augment(images, recipe, 24, seed=0, epochs=[0, 0], examples=[0, 1])
    np.testing.assert_array_equal(images, before)


def test_unknown_recipes_list_the_known():
    with pytest.raises(UserError, match="--recipe=x: must be one of cifar10, crop_flip, inception, vgg, none"):
        preprocessing.find("x")


def literal_cifar10(image, draws):
    """The tutorial's steps one after another on one picture."""
    top, left, mirrored, brightness, contrast = draws
    top, left = int(top * 9), int(left * 9)
    crop = image[top : top + 24, left : left + 24].astype(np.float64)
    if mirrored < 0.5:
        crop = crop[:, ::-1]
    crop = crop + (-63 + 126 * brightness)
    mean = crop.mean(axis=(0, 1))
    return (crop - mean) * (0.2 + 1.6 * contrast) + mean


def test_cifar10_equals_its_steps_one_by_one():
    images = pictures(*[(32, 32)] * 40)
    batch = preprocessing.augment(images, "cifar10", 24, seed=5, epochs=range(40), examples=range(100, 140))
    draws = keyed_uniforms(5, np.arange(40), np.arange(100, 140), 5)
    for image, augmented, row in zip(images, batch, draws, strict=True):
        np.testing.assert_allclose(augmented, literal_cifar10(image, row), atol=1e-3)


def test_crop_flip_is_cifar10_without_its_colours():
    images = pictures(*[(32, 32)] * 20)
    batch = preprocessing.augment(images, "crop_flip", 24, seed=5, epochs=range(20), examples=range(20))
    draws = keyed_uniforms(5, np.arange(20), np.arange(20), 5)
    draws[:, 3:] = 0.5  # brightness + 0, contrast times 1
    for image, augmented, row in zip(images, batch, draws, strict=True):
        np.testing.assert_array_equal(augmented, np.round(literal_cifar10(image, row)))


def test_cifar10_crops_and_flips_evenly():
    # Pixel values name their place: red the row, green the column.
    places = np.zeros([32, 32, 3], np.uint8)
    places[..., 0], places[..., 1] = np.arange(32)[:, None], np.arange(32)[None, :]
    many = preprocessing.augment([places] * 4000, "cifar10", 24, seed=0, epochs=[0] * 4000, examples=range(4000))
    mirrored = many[:, 0, 0, 1] > many[:, 0, -1, 1]
    assert 0.46 < mirrored.mean() < 0.54  # 5 standard deviations
    draws = keyed_uniforms(0, np.zeros(4000), np.arange(4000), 5)
    for column in draws.T:
        counts = np.bincount((column * 9).astype(int), minlength=9)
        assert len(counts) == 9
        assert np.abs(counts - 4000 / 9).max() < 100  # 5 standard deviations
    assert np.abs(np.corrcoef(draws.T) - np.eye(5)).max() < 0.08


def test_evaluation_takes_the_middle():
    image = pictures((32, 32))[0]
    np.testing.assert_array_equal(cifar10.resize(image, 24), image[4:28, 4:28])
    marked = np.zeros([256, 512, 3], np.uint8)
    marked[16:240, 144:368] = 200
    assert (vgg.resize(marked, 224) == 200).all()
    middle = np.zeros([80, 160, 3], np.uint8)
    middle[5:75, 10:150] = 200
    assert (inception.resize(middle, 48) == 200).all()


def test_vgg_scales_and_crops():
    sides = set()
    image = cv2.resize(np.arange(64, dtype=np.uint8).reshape(1, 64, 1).repeat(64, 0).repeat(3, 2), (640, 320))
    for number in range(60):
        crop = preprocessing.augment([image], "vgg", 224, seed=0, epochs=[0], examples=[number])[0]
        row = crop[100, :, 0].astype(int)
        sides.add(abs(row[-1] - row[0]))
    # A crop of 224 of a picture whose shorter side is 256 to 512 sees 44 to 88 % of the shorter side.
    assert min(sides) >= 12
    assert max(sides) <= 30
    assert max(sides) - min(sides) >= 8


def test_inception_patches_keep_area_and_aspect():
    areas, aspects = [], []
    for number in range(500):
        sample = {"image": np.zeros([300, 400, 3], np.uint8)}
        height, width = inception.crop_patch(sample, keyed_generator(0, 0, number), area=(0.05, 1.0), aspect=(3 / 4, 4 / 3))[
            "image"
        ].shape[:2]
        areas.append(height * width / 120000)
        aspects.append(width / height)
    assert 0.048 < min(areas) < 0.1
    assert 0.8 < max(areas) <= 1
    # The whole picture, 4 : 3, stands for draws that did not fit.
    assert min(aspects) > 0.73
    assert max(aspects) < 1.36
