"""VGG-16 against Keras's and against numpy. With its 138 million weights it is made once: for 32x32, it takes every size."""

import math

import numpy as np
import pytest
import tensorflow as tf

from classify.nets.vgg import vgg_16
from tests.classify.keras_nets import CLASSES, PICTURE, apply, build, give_to_keras, parameters, shapes


@pytest.fixture(scope="module")
def vgg():
    """The net, and its logits for 32x32 pictures with its initial weights; then its biases are no longer zero."""
    tf.random.set_seed(1)
    net = build("vgg_16", vgg_16, 32)
    first_logits, _ = apply(net, tf.random.stateless_uniform([4, 32, 32, 3], [1, 2], -120.0, 120.0))
    for name, variable in net.variables_by_name.items():
        if name.endswith("biases"):
            variable.assign(tf.random.stateless_normal(variable.shape, [3, 4], stddev=0.1))
    return net, first_logits


def test_vgg_has_the_published_variables(vgg):
    net, _ = vgg
    assert parameters(net) == 138_357_544
    assert set(net.trainable_by_name) == set(net.variables_by_name)
    assert len(net.variables_by_name) == 32
    published = {
        "conv1/conv1_1/weights": (3, 3, 3, 64),
        "conv2/conv2_2/biases": (128,),
        "conv5/conv5_3/weights": (3, 3, 512, 512),
        "fc6/weights": (7, 7, 512, 4096),
        "fc7/weights": (1, 1, 4096, 4096),
        "fc8/weights": (1, 1, 4096, 1000),
        "fc8/biases": (1000,),
    }
    assert published.items() <= shapes(net).items()


def test_vgg_is_keras_vgg(vgg):
    net, _ = vgg
    keras = tf.keras.applications.VGG16(weights=None, classes=CLASSES, classifier_activation=None)
    scopes = {f"block{i}_conv{j}": f"conv{i}/conv{i}_{j}" for i in range(1, 6) for j in range(1, 4)}
    give_to_keras(keras, net, scopes | {"fc1": "fc6", "fc2": "fc7", "predictions": "fc8"})
    images = PICTURE * 100
    class_logits, auxiliary_logits = apply(net, images)
    assert class_logits.std() > 0.1
    assert auxiliary_logits == []
    np.testing.assert_allclose(class_logits, keras(images), atol=1e-4)


@pytest.mark.parametrize(("size", "windows"), [(32, 1), (96, 9), (128, 16), (256, 4)])
def test_vgg_on_pictures_of_other_sizes(vgg, size, windows):
    """The classifier of 7x7 windows at every position, worked out in numpy from conv5."""
    net, _ = vgg
    images = tf.random.stateless_uniform([1, size, size, 3], [1, 2], -120.0, 120.0)
    (class_logits, _), layers = tf.function(net.look_inside, autograph=False)(images)
    cells = size // 32
    pooled = layers["conv5/conv5_3"].numpy().reshape(cells, 2, cells, 2, 512).max(axis=(1, 3))
    if cells < 7:
        pooled = np.pad(pooled, [(3, 3), (3, 3), (0, 0)])
    positions = range(pooled.shape[0] - 6)
    net_in = np.stack([pooled[y : y + 7, x : x + 7].ravel() for y in positions for x in positions])
    assert len(net_in) == windows
    for scope in ("fc6", "fc7", "fc8"):
        weights, biases = (net.variables_by_name[f"vgg_16/{scope}/{kind}"].numpy() for kind in ("weights", "biases"))
        outputs = net_in @ weights.reshape(-1, weights.shape[-1]) + biases
        net_in = np.maximum(outputs, 0)
    np.testing.assert_allclose(class_logits, outputs.mean(axis=0, keepdims=True), atol=1e-4)


def test_vgg_starts_from_even_probabilities(vgg):
    _, first_logits = vgg
    assert 0.1 < first_logits.std() < 1
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2, 3], first_logits)
    assert abs(float(tf.reduce_mean(losses)) - math.log(CLASSES)) < 0.5


def test_vgg_drops_out_in_training(vgg):
    net, _ = vgg
    images = tf.random.stateless_uniform([2, 32, 32, 3], [1, 2], -120.0, 120.0)
    train = tf.function(lambda x: net(x, is_training=True)[0], autograph=False)
    class_logits = train(images).numpy()
    assert class_logits.shape == (2, CLASSES)
    assert np.isfinite(class_logits).all()
    assert np.abs(class_logits - train(images)).max() > 0.01
