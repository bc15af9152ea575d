import numpy as np
import pytest
import tensorflow as tf
import tf_slim as slim

from classify.nets.layers import batch_norm
from engine.slim_net import ACTIVATIONS, SlimNet


def function(images, is_training):
    with slim.arg_scope([slim.conv2d], outputs_collections=ACTIVATIONS):
        net = slim.conv2d(
            images, 4, 3, scope="conv1", normalizer_fn=lambda x: batch_norm(x, is_training=is_training, decay=0.9)
        )
        return tf.reduce_mean(slim.conv2d(net, 2, 1, scope="conv2"), [1, 2])


def test_names_are_slims_for_every_instance():
    expected = [
        "net/conv1/BatchNorm/beta",
        "net/conv1/BatchNorm/gamma",
        "net/conv1/BatchNorm/moving_mean",
        "net/conv1/BatchNorm/moving_variance",
        "net/conv1/weights",
        "net/conv2/biases",
        "net/conv2/weights",
    ]
    for _ in range(2):
        net = SlimNet("net", function, [8, 8, 3])
        assert list(net.variables_by_name) == expected
        assert set(expected) - set(net.trainable_by_name) == {expected[2], expected[3]}


def test_a_net_runs_inside_tf_function_only():
    net = SlimNet("net", function, [8, 8, 3])
    with pytest.raises(RuntimeError, match="tf.function"):
        net(tf.zeros([1, 8, 8, 3]), is_training=False)
    outputs = tf.function(lambda x: net(x, is_training=False))(tf.zeros([2, 8, 8, 3]))
    assert outputs.shape == (2, 2)
    assert len(net.variables_by_name) == 7


def test_same_seed_same_weights():
    nets = []
    for _ in range(2):
        tf.random.set_seed(5)
        nets.append(SlimNet("net", function, [8, 8, 3]))
    first, second = (net.variables_by_name["net/conv1/weights"].numpy() for net in nets)
    assert (first == second).all()
    assert first.std() > 0


def test_batch_norm_statistics_by_hand():
    net = SlimNet("net", lambda images, is_training: batch_norm(images, is_training=is_training, decay=0.9), [1, 2, 1])
    images = tf.reshape(tf.constant([1.0, 3.0, 5.0, 7.0]), [2, 1, 2, 1])
    trained = tf.function(lambda x: net(x, is_training=True))(images)
    # mean 4, variance 5 (of the sample: 20 / 3)
    assert trained.numpy().ravel() == pytest.approx([(x - 4) / (5 + 0.001) ** 0.5 for x in (1, 3, 5, 7)], rel=1e-5)
    statistics = [net.variables_by_name[f"net/BatchNorm/moving_{name}"] for name in ("mean", "variance")]
    assert [float(value[0]) for value in statistics] == pytest.approx([4, 20 / 3], rel=1e-5), "in place of the initial values"
    tf.function(lambda x: net(x, is_training=True))(2 * images)
    mean, variance = 0.9 * 4 + 0.1 * 8, (0.9 + 0.1 * 4) * 20 / 3
    assert [float(value[0]) for value in statistics] == pytest.approx([mean, variance], rel=1e-5)
    applied = tf.function(lambda x: net(x, is_training=False))(images)
    assert applied.numpy().ravel() == pytest.approx([(x - mean) / (variance + 0.001) ** 0.5 for x in (1, 3, 5, 7)], rel=1e-5)


def test_activations_are_the_layers_outputs():
    net = SlimNet("net", function, [8, 8, 3])
    returned, outputs = tf.function(net.look_inside)(tf.ones([2, 8, 8, 3]))
    assert returned.shape == (2, 2)
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {"conv1": (2, 8, 8, 4), "conv2": (2, 8, 8, 2)}


def test_a_net_without_a_scope():
    nets = [SlimNet("", function, [8, 8, 3]) for _ in range(2)]
    assert "conv1/weights" in nets[0].variables_by_name
    assert nets[0].variables_by_name.keys() == nets[1].variables_by_name.keys()


def test_a_frozen_batch_norm_uses_its_statistics_and_leaves_them():
    net = SlimNet("net", lambda images, is_training: batch_norm(images, is_training=is_training, decay=0.9), [1, 2, 1])
    net.freeze(["net/BatchNorm/beta"])
    images = tf.reshape(tf.constant([1.0, 3.0, 5.0, 7.0]), [2, 1, 2, 1])
    trained = tf.function(lambda x: net(x, is_training=True))(images)
    assert trained.numpy().ravel() == pytest.approx(images.numpy().ravel() / 1.001**0.5, rel=1e-5)
    assert float(net.variables_by_name["net/BatchNorm/moving_mean"][0]) == 0.0
    other = SlimNet("net", lambda images, is_training: batch_norm(images, is_training=is_training, decay=0.9), [1, 2, 1])
    tf.function(lambda x: other(x, is_training=True))(images)
    assert float(other.variables_by_name["net/BatchNorm/moving_mean"][0]) == pytest.approx(4)


def test_half_precision_computes_in_it_and_keeps_float32():
    tf.random.set_seed(5)
    exact = SlimNet("net", function, [8, 8, 3])
    tf.random.set_seed(5)
    half = SlimNet("net", function, [8, 8, 3], tf.float16)
    assert {v.dtype for v in half.variables_by_name.values()} == {tf.float32}
    images = tf.random.stateless_normal([2, 8, 8, 3], [0, 1])
    outputs = [tf.function(lambda x, net=net: net(x, is_training=False))(images) for net in (exact, half)]
    assert outputs[1].dtype == tf.float16
    np.testing.assert_allclose(outputs[0], tf.cast(outputs[1], tf.float32), atol=5e-3)
    assert (outputs[0].numpy() != tf.cast(outputs[1], tf.float32).numpy()).any()
