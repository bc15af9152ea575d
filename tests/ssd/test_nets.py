"""Every net: a row here with its numbers, names as published, shapes that match its anchors."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from engine.errors import UserError
from ssd import nets
from ssd.anchors import make_anchors
from ssd.nets import lite

SPEC = pathlib.Path(__file__).parents[3] / "shared" / "spec"

# net: (image size, anchors, parameters at 21 classes)
EXPECTED = {
    "ssd_300_lite": (300, 8732, 3_137_374),
    "ssd_300_vgg": (300, 8732, 26_285_486),
    # Three more for each of the 8,942 channels: gamma, beta and two moving statistics instead of a bias.
    "ssd_300_vgg_bn": (300, 8732, 26_285_486 + 3 * 8942),
    "ssd_320_mobilenet_v2": (320, 3224, 3_430_560),
    "ssd_512_vgg": (512, 24564, 27_188_676),
    "ssd_tiny": (160, 2390, 1_361_352),
}


BACKBONE = ("Conv", "expanded_conv")


@pytest.fixture(scope="module")
def built():
    return {name: nets.make_net(name, 21) for name in nets.NETS}


def test_every_net_has_its_row():
    assert set(nets.NETS) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_sizes_and_parameters(name, built):
    image_size, num_anchors, parameters = EXPECTED[name]
    assert nets.NETS[name].image_size == image_size
    assert sum(int(np.prod(v.shape)) for v in built[name].variables_by_name.values()) == parameters
    images = tf.TensorSpec([2, image_size, image_size, 3], tf.float32)
    for is_training in (True, False):
        function = tf.function(lambda x, training=is_training: built[name](x, is_training=training))
        class_logits, box_offsets = function.get_concrete_function(images).structured_outputs
        assert (class_logits.shape, box_offsets.shape) == ((2, num_anchors, 21), (2, num_anchors, 4))
    for anchor_set in ("voc", "coco"):
        assert make_anchors(nets.anchor_spec(name, anchor_set)).shape == (num_anchors, 4)


@pytest.mark.parametrize("name", ["ssd_300_vgg", "ssd_512_vgg"])
def test_variables_are_those_of_the_published_checkpoints(name, built):
    listing = SPEC / f"{name}_variables.txt"
    if not listing.is_file():
        pytest.skip(f"{listing} is not here")
    lines = [re.fullmatch(r"(\S+) \[(.*)\]", line.strip()) for line in listing.read_text().splitlines() if line.strip()]
    published = {line[1]: tuple(int(side) for side in line[2].split(",")) for line in lines}
    assert {n: tuple(v.shape) for n, v in built[name].variables_by_name.items()} == published


def test_every_convolution_of_the_normalised_vgg_has_its_batch_norm(built):
    variables = built["ssd_300_vgg_bn"].variables_by_name
    layers = [name.removesuffix("/weights") for name in variables if name.endswith("/weights")]
    assert len(layers) == 15 + 8 + 12  # VGG with conv6 and conv7, four blocks, two heads on each of six maps
    assert all(f"{layer}/BatchNorm/gamma" in variables for layer in layers)
    assert not [name for name in variables if name.endswith("biases")]


def test_a_map_is_doubled_and_cut():
    coarse = np.arange(2 * 3 * 4 * 2, dtype=np.float32).reshape(2, 3, 4, 2)
    doubled = lite._doubled(tf.constant(coarse), tf.zeros([2, 5, 8, 1]))
    np.testing.assert_array_equal(doubled, coarse.repeat(2, axis=1).repeat(2, axis=2)[:, :5, :8])


def test_the_mobilenet_below_the_heads_is_whole(built):
    """2,257,984 parameters, moving statistics included, are keras.applications' MobileNetV2 without its top."""
    backbone = {
        n: v for n, v in built["ssd_320_mobilenet_v2"].variables_by_name.items() if n.split("/")[1].startswith(BACKBONE)
    }
    assert sum(int(np.prod(v.shape)) for v in backbone.values()) == 2_257_984


@pytest.mark.parametrize("name", ["ssd_300_vgg", "ssd_512_vgg"])
def test_initial_values(name, built):
    variables = built[name].variables_by_name
    np.testing.assert_array_equal(variables[f"{name}/block4_box/L2Normalization/gamma"], np.full(512, 20.0, np.float32))
    for variable_name, variable in variables.items():
        if variable_name.endswith("biases"):
            assert not variable.numpy().any()
    heads = variables[f"{name}/block7_box/conv_cls/weights"].numpy()
    limit = np.sqrt(3 / (3 * 3 * 1024))  # Caffe's xavier: uniform within root(3 / fan_in)
    assert limit * 0.99 < np.abs(heads).max() <= limit


def test_layers_of_one_shape_start_from_different_values(built):
    for name, net in built.items():
        values = [v.numpy().ravel()[:8].tobytes() for n, v in net.variables_by_name.items() if n.endswith("weights")]
        assert len(set(values)) == len(values), name


@pytest.mark.parametrize("name", ["ssd_300_vgg", "ssd_300_lite", "ssd_tiny"])
def test_signal_survives_from_scratch(name, built):
    size = nets.NETS[name].image_size
    images = tf.random.stateless_uniform([1, size, size, 3], [1, 2], -120.0, 120.0)
    class_logits, box_offsets = tf.function(lambda x: built[name](x, is_training=False))(images)
    for outputs in (class_logits, box_offsets):
        assert 0.1 < float(tf.math.reduce_std(outputs)) < 10


def test_l2_norm_is_twenty_at_every_position():
    from ssd.nets.vgg import _l2_normalise

    @tf.function
    def normalised(x):
        return template(x)

    template = tf.compat.v1.make_template("norm", lambda x: _l2_normalise(x, "block4_box"))
    outputs = normalised(tf.random.stateless_normal([2, 3, 4, 8], [3, 4]) * 100)
    np.testing.assert_allclose(np.linalg.norm(outputs, axis=-1), np.full([2, 3, 4], 20.0), rtol=1e-5)


def test_means_are_subtracted_from_rgb():
    images = tf.constant([[[[123, 117, 104], [255, 0, 0]]]], tf.uint8)
    np.testing.assert_array_equal(nets.normalise(images, nets.NETS["ssd_300_vgg"].means), [[[[0, 0, 0], [132, -117, -104]]]])


def test_unknown_names_list_the_known():
    with pytest.raises(UserError, match="ssd_301.*ssd_300_vgg"):
        nets.find("ssd_301")
    with pytest.raises(UserError, match="kitti.*voc, coco"):
        nets.anchor_spec("ssd_300_vgg", "kitti")
