"""MobileNetV2 against Keras's: same values, same logits. Names as TF-slim published them."""

import numpy as np
import pytest
import tensorflow as tf

from classify.nets.mobilenet_v2 import is_decayed, mobilenet_v2, mobilenet_v2_layers
from tests.classify.keras_nets import CLASSES, PICTURE, apply, build, give_to_keras, parameters, randomise, shapes


@pytest.fixture(scope="module")
def mobilenet():
    return build("MobilenetV2", mobilenet_v2, 96)


def mobilenet_scopes():
    scopes = {
        "Conv1": "Conv",
        "bn_Conv1": "Conv",
        "Conv_1": "Conv_1",
        "Conv_1_bn": "Conv_1",
        "predictions": "Logits/Conv2d_1c_1x1",
    }
    for i in range(17):
        block, prefix = (f"expanded_conv_{i}", f"block_{i}") if i else ("expanded_conv", "expanded_conv")
        for part in ("expand", "depthwise", "project"):
            scopes |= {f"{prefix}_{part}": f"{block}/{part}", f"{prefix}_{part}_BN": f"{block}/{part}"}
    return scopes


def test_mobilenet_has_the_published_variables(mobilenet):
    assert parameters(mobilenet) == 3_538_984
    assert len(mobilenet.variables_by_name) == 262
    assert len(mobilenet.trainable_by_name) == 262 - 2 * 52
    published = {
        "Conv/weights": (3, 3, 3, 32),
        "Conv/BatchNorm/gamma": (32,),
        "Conv/BatchNorm/moving_variance": (32,),
        "expanded_conv/depthwise/depthwise_weights": (3, 3, 32, 1),
        "expanded_conv/depthwise/BatchNorm/beta": (32,),
        "expanded_conv/project/weights": (1, 1, 32, 16),
        "expanded_conv_1/expand/weights": (1, 1, 16, 96),
        "expanded_conv_1/expand/BatchNorm/moving_mean": (96,),
        "expanded_conv_13/depthwise/depthwise_weights": (3, 3, 576, 1),
        "expanded_conv_16/project/weights": (1, 1, 960, 320),
        "Conv_1/weights": (1, 1, 320, 1280),
        "Logits/Conv2d_1c_1x1/weights": (1, 1, 1280, 1000),
        "Logits/Conv2d_1c_1x1/biases": (1000,),
    }
    assert published.items() <= shapes(mobilenet).items()
    assert "expanded_conv/expand/weights" not in shapes(mobilenet)


def test_mobilenet_training_moves_its_statistics(mobilenet):
    moving_mean = mobilenet.variables_by_name["MobilenetV2/Conv/BatchNorm/moving_mean"]
    moving_mean.assign(tf.ones_like(moving_mean))
    before = {name: v.numpy() for name, v in mobilenet.variables_by_name.items()}
    images = tf.random.stateless_uniform([4, 64, 64, 3], [1, 2], -1.0, 1.0)
    class_logits, auxiliary_logits = apply(mobilenet, images, is_training=True)
    assert class_logits.shape == (4, CLASSES)
    assert np.isfinite(class_logits).all()
    assert auxiliary_logits == []
    for name, variable in mobilenet.variables_by_name.items():
        assert np.array_equal(variable.numpy(), before[name]) == (name in mobilenet.trainable_by_name), name
    convolved = tf.nn.conv2d(images, before["MobilenetV2/Conv/weights"], 2, "SAME")
    np.testing.assert_allclose(moving_mean, 0.99 + 0.01 * tf.reduce_mean(convolved, [0, 1, 2]), atol=1e-6)


def check_against_keras(net, depth_multiplier, expected_parameters):
    """Returns the net's activations for `PICTURE`."""
    randomise(net)
    keras = tf.keras.applications.MobileNetV2(alpha=depth_multiplier, weights=None, classes=CLASSES, classifier_activation=None)
    assert parameters(net) == keras.count_params() == expected_parameters
    give_to_keras(keras, net, mobilenet_scopes())
    (class_logits, auxiliary_logits), layers = tf.function(net.look_inside, autograph=False)(PICTURE)
    assert auxiliary_logits == ()
    assert class_logits.numpy().std() > 0.1
    np.testing.assert_allclose(class_logits, keras(PICTURE, training=False), atol=1e-4)
    return layers


def test_mobilenet_is_keras_mobilenet(mobilenet):
    layers = check_against_keras(mobilenet, 1.0, 3_538_984)
    assert len(layers) == 1 + 16 + 17 + 17 + 1 + 1
    assert layers["expanded_conv_13/expand"].shape == (1, 14, 14, 576)
    assert layers["expanded_conv_16/depthwise"].shape == (1, 7, 7, 960)


@pytest.mark.slow
def test_wide_mobilenet_is_keras_mobilenet():
    check_against_keras(build("MobilenetV2", mobilenet_v2, 96, depth_multiplier=1.4), 1.4, 6_156_712)


@pytest.mark.parametrize(
    ("depth_multiplier", "size", "num_parameters", "expected"),
    [
        (0.35, 300, 410_208, {"layer_2": (150, 8), "layer_15/expansion_output": (19, 192), "layer_19": (10, 1280)}),
        (1.4, 224, 4_363_712, {"layer_1": (112, 48), "layer_15/expansion_output": (14, 816), "layer_19": (7, 1792)}),
    ],
)
def test_mobilenet_layers(depth_multiplier, size, num_parameters, expected):
    with tf.Graph().as_default():
        layers = mobilenet_v2_layers(tf.zeros([2, size, size, 3]), False, depth_multiplier)
        assert sum(int(np.prod(v.shape)) for v in tf.compat.v1.global_variables()) == num_parameters
    assert set(layers) == {f"layer_{i}" for i in range(1, 20)} | {f"layer_{i}/expansion_output" for i in range(2, 19)}
    assert {name: tuple(layers[name].shape) for name in expected} == {n: (2, s, s, d) for n, (s, d) in expected.items()}


def test_mobilenet_depthwise_weights_do_not_decay():
    assert is_decayed("MobilenetV2/expanded_conv/project/weights")
    assert is_decayed("MobilenetV2/Logits/Conv2d_1c_1x1/weights")
    for name in ("depthwise/depthwise_weights", "project/BatchNorm/gamma", "project/BatchNorm/beta"):
        assert not is_decayed(f"MobilenetV2/expanded_conv/{name}")
