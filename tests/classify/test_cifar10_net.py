"""The tutorial's net: sizes, names, initial values, and its arithmetic by plain numpy."""

import numpy as np
import pytest
import tensorflow as tf

from classify import nets
from tests.classify import oracles

SHAPES = {
    "conv1/weights": (5, 5, 3, 64),
    "conv1/biases": (64,),
    "conv2/weights": (5, 5, 64, 64),
    "conv2/biases": (64,),
    "local3/weights": (2304, 384),
    "local3/biases": (384,),
    "local4/weights": (384, 192),
    "local4/biases": (192,),
    "softmax_linear/weights": (192, 10),
    "softmax_linear/biases": (10,),
}


@pytest.fixture(scope="module")
def net():
    tf.random.set_seed(0)
    return nets.make_net("cifar10", 10)


def test_names_shapes_and_count(net):
    assert {name: tuple(v.shape) for name, v in net.variables_by_name.items()} == SHAPES
    assert sum(int(np.prod(v.shape)) for v in net.variables_by_name.values()) == 1_068_298


def test_initial_values_are_the_tutorials(net):
    sigmas = {"conv1": 0.05, "conv2": 0.05, "local3": 0.04, "local4": 0.04, "softmax_linear": 1 / 192}
    for scope, sigma in sigmas.items():
        weights = net.variables_by_name[f"{scope}/weights"].numpy()
        assert np.abs(weights).max() <= 2 * sigma
        # A normal cut off at two sigma has .88 of its deviation.
        assert weights.std() == pytest.approx(0.8796 * sigma, rel=0.05)
    biases = {"conv1": 0.0, "conv2": 0.1, "local3": 0.1, "local4": 0.1, "softmax_linear": 0.0}
    for scope, value in biases.items():
        assert (net.variables_by_name[f"{scope}/biases"].numpy() == np.float32(value)).all()


def test_logits_equal_a_literal_computation(net):
    images = np.random.default_rng(0).uniform(0, 255, [2, 24, 24, 3]).astype(np.float32)
    normalise = nets.NETS["cifar10"].normalise
    logits, auxiliary = tf.function(lambda x: net(normalise(x), is_training=False))(images)
    assert auxiliary == ()
    weights = {name: v.numpy().astype(np.float64) for name, v in net.variables_by_name.items()}
    for image, row in zip(images, logits.numpy(), strict=True):
        np.testing.assert_allclose(row, oracles.cifar10_logits(image, weights), rtol=1e-4, atol=1e-5)


def test_only_the_two_fully_connected_layers_decay():
    decayed = {name for name in SHAPES if nets.NETS["cifar10"].is_decayed(name)}
    assert decayed == {"local3/weights", "local4/weights"}


def test_a_flat_picture_is_standardised_to_zero():
    flat = nets.standardise(tf.fill([1, 24, 24, 3], tf.constant(7, tf.uint8)))
    assert (flat.numpy() == 0).all()
