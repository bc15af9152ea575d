"""Inception-v3 against Keras's: same values, same logits. Names as TF-slim published them."""

import re

import numpy as np
import pytest
import tensorflow as tf

from classify.nets.inception_v3 import inception_v3
from tests.classify.keras_nets import CLASSES, PICTURE, apply, build, give_to_keras, randomise, shapes


def test_inception_has_the_published_variables():
    with tf.Graph().as_default(), tf.compat.v1.variable_scope("InceptionV3"):
        class_logits, auxiliary_logits = inception_v3(tf.zeros([2, 299, 299, 3]), CLASSES, False)
        found = {v.op.name: tuple(v.shape) for v in tf.compat.v1.global_variables()}
    assert [tuple(logits.shape) for logits in (class_logits, *auxiliary_logits)] == [(2, CLASSES)] * 2
    assert sum(int(np.prod(shape)) for name, shape in found.items() if "/AuxLogits/" not in name) == 23_851_784
    assert len(found) == 388
    published = {
        "Conv2d_1a_3x3/weights": (3, 3, 3, 32),
        "Conv2d_1a_3x3/BatchNorm/beta": (32,),
        "Mixed_5c/Branch_1/Conv_1_0c_5x5/weights": (5, 5, 48, 64),
        "Mixed_6a/Branch_0/Conv2d_1a_1x1/weights": (3, 3, 288, 384),
        "Mixed_7c/Branch_2/Conv2d_0d_3x1/BatchNorm/moving_variance": (384,),
        "AuxLogits/Conv2d_2a_5x5/weights": (5, 5, 128, 768),
        "AuxLogits/Conv2d_2b_1x1/biases": (1000,),
        "Logits/Conv2d_1c_1x1/weights": (1, 1, 2048, 1000),
    }
    assert {f"InceptionV3/{name}": shape for name, shape in published.items()}.items() <= found.items()
    assert not [name for name in found if name.endswith("gamma")]


@pytest.mark.slow
@pytest.mark.parametrize("size", [107, 448])
def test_inception_on_pictures_of_other_sizes(size):
    with tf.Graph().as_default():
        class_logits, (auxiliary_logits,) = inception_v3(tf.zeros([2, size, size, 3]), CLASSES, True)
    assert class_logits.shape == auxiliary_logits.shape == (2, CLASSES)


@pytest.mark.slow
def test_inception_needs_107_pixels():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="[Nn]egative dimension"):
        inception_v3(tf.zeros([2, 106, 106, 3]), CLASSES, True)


@pytest.fixture(scope="module")
def inception():
    return build("InceptionV3", inception_v3, 299)


@pytest.mark.slow
def test_inception_is_keras_inception(inception):
    randomise(inception)
    keras = tf.keras.applications.InceptionV3(weights=None, classes=CLASSES, classifier_activation=None)
    # Keras numbers its layers as they were made, which is also the order of our names.
    ours = [name.removesuffix("/weights") for name in shapes(inception) if name.endswith("/weights")]
    ours = [scope for scope in ours if not scope.startswith(("AuxLogits", "Logits"))]
    scopes = {"predictions": "Logits/Conv2d_1c_1x1"}
    for kind in ("Conv2D", "BatchNormalization"):
        layers = [layer.name for layer in keras.layers if type(layer).__name__ == kind]
        layers.sort(key=lambda name: int(re.search(r"_(\d+)$|$", name)[1] or 0))
        scopes |= dict(zip(layers, ours, strict=True))
    give_to_keras(keras, inception, scopes)
    images = tf.image.resize(PICTURE, [299, 299])
    class_logits, _ = apply(inception, images)
    assert class_logits.std() > 0.1
    np.testing.assert_allclose(class_logits, keras(images, training=False), atol=1e-4)


@pytest.mark.slow
def test_inception_training_moves_its_statistics(inception):
    before = {name: v.numpy() for name, v in inception.variables_by_name.items()}
    images = tf.random.stateless_uniform([2, 299, 299, 3], [1, 2], -1.0, 1.0)
    class_logits, (auxiliary_logits,) = apply(inception, images, is_training=True)
    assert np.isfinite(class_logits).all()
    assert np.isfinite(auxiliary_logits).all()
    for name, variable in inception.variables_by_name.items():
        assert np.array_equal(variable.numpy(), before[name]) == (name in inception.trainable_by_name), name
