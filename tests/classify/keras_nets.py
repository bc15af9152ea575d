"""What the tests of the classifiers' nets share: Keras has the same nets, others' code, and takes the same values."""

import numpy as np
import tensorflow as tf

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
    ours = {name.split("/", 1)[1]: variable for name, variable in net.variables_by_name.items()}
    for layer in model.layers:
        if not layer.weights:
            continue
        names = [f"{scopes[layer.name]}/{suffix}" for suffix in SUFFIXES[type(layer).__name__]]
        for name, weight in zip([name for name in names if name in ours], layer.weights, strict=True):
            weight.assign(tf.reshape(ours[name], weight.shape))
