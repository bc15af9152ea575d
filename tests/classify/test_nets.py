"""The classifiers' nets against Keras's, which are others' code: same weights, same logits; names as TF-slim published them."""

import math
import re

import numpy as np
import pytest
import tensorflow as tf

from classify.nets.inception_v3 import inception_v3
from classify.nets.mobilenet_v2 import is_decayed, mobilenet_v2, mobilenet_v2_layers
from classify.nets.vgg import vgg_16
from engine.slim_net import SlimNet

CLASSES = 1000
PICTURE = tf.random.stateless_uniform([1, 224, 224, 3], [1, 2], -1.0, 1.0)
SUFFIXES = {
    "BatchNormalization": ("BatchNorm/gamma", "BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance"),
    "Conv2D": ("weights", "biases"),
    "Dense": ("weights", "biases"),
    "DepthwiseConv2D": ("depthwise_weights",),
}


def build(scope, function, image_size, **options):
    return SlimNet(scope, lambda images, is_training: function(images, CLASSES, is_training, **options), [image_size] * 2 + [3])


def apply(net, images, is_training=False):
    class_logits, auxiliary_logits = tf.function(lambda x: net(x, is_training=is_training), autograph=False)(images)
    return class_logits.numpy(), [logits.numpy() for logits in auxiliary_logits]


def shapes(net):
    return {name.split("/", 1)[1]: tuple(v.shape) for name, v in net.variables_by_name.items()}


def parameters(net):
    return sum(int(np.prod(shape)) for shape in shapes(net).values())


def randomise(net):
    """Other values than the initial ones for all, batch norm's statistics too, that keep the signal at its size."""
    rng = np.random.default_rng(0)
    for name, variable in net.variables_by_name.items():
        if name.endswith("depthwise_weights"):
            values = rng.normal(0, (2 / 9) ** 0.5, variable.shape)
        elif name.endswith("weights"):
            values = rng.normal(0, (2 / np.prod(variable.shape[:3])) ** 0.5, variable.shape)
        elif name.endswith(("gamma", "moving_variance")):
            values = rng.uniform(0.5, 1.5, variable.shape)
        else:
            values = rng.normal(0, 0.1, variable.shape)
        variable.assign(values)


def give_to_keras(model, net, scopes):
    """Copies a net's values into a Keras model; scopes: name of Keras's layer -> the layer's scope in the net."""
    ours = {name.split("/", 1)[1]: v.numpy() for name, v in net.variables_by_name.items()}
    for layer in model.layers:
        if not layer.weights:
            continue
        names = [f"{scopes[layer.name]}/{suffix}" for suffix in SUFFIXES[type(layer).__name__]]
        values = [ours[name] for name in names if name in ours]
        layer.set_weights([value.reshape(w.shape) for value, w in zip(values, layer.weights, strict=True)])


# VGG-16. One net for all tests: with its 138 million weights it is made once. Made for 32x32, it takes every size.


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


@pytest.mark.parametrize(("size", "windows"), [(32, 1), (96, 9), (256, 4)])
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


# MobileNetV2


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
    before = {name: v.numpy() for name, v in mobilenet.variables_by_name.items()}
    images = tf.random.stateless_uniform([4, 64, 64, 3], [1, 2], -1.0, 1.0)
    class_logits, auxiliary_logits = apply(mobilenet, images, is_training=True)
    assert class_logits.shape == (4, CLASSES)
    assert np.isfinite(class_logits).all()
    assert auxiliary_logits == []
    for name, variable in mobilenet.variables_by_name.items():
        assert np.array_equal(variable.numpy(), before[name]) == (name in mobilenet.trainable_by_name), name
    convolved = tf.nn.conv2d(images, before["MobilenetV2/Conv/weights"], 2, "SAME")
    expected = 0.997 * before["MobilenetV2/Conv/BatchNorm/moving_mean"] + 0.003 * tf.reduce_mean(convolved, [0, 1, 2])
    np.testing.assert_allclose(mobilenet.variables_by_name["MobilenetV2/Conv/BatchNorm/moving_mean"], expected, atol=1e-6)


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


# Inception-v3


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
