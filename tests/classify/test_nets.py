"""Every row of the table of nets: its input, its size, its scope. A net without numbers here fails."""

import numpy as np
import pytest
import tensorflow as tf

from classify.nets import NETS, make_net
from classify.preprocessing import RECIPES
from engine.errors import UserError

# image size, classes, parameters (with moving statistics and auxiliary heads), scope of the variables
NUMBERS = {
    "cifar10": (24, 10, 1_068_298, ""),
    "inception_v3": (299, 1000, 27_179_376, "InceptionV3"),
    "mobilenet_v2": (224, 1000, 3_538_984, "MobilenetV2"),
    "mobilenet_v2_140": (224, 1000, 6_156_712, "MobilenetV2"),
    "vgg_16": (224, 1000, 138_357_544, "vgg_16"),
}


def test_every_net_has_its_numbers():
    assert NUMBERS.keys() == NETS.keys()


@pytest.mark.parametrize("name", NETS)
def test_a_row_of_the_table(name):
    size, classes, parameters, scope = NUMBERS[name]
    spec = NETS[name]
    assert (spec.image_size, spec.scope) == (size, scope)
    assert spec.recipe in RECIPES
    with tf.Graph().as_default():
        pictures = spec.normalise(tf.zeros([2, size, size, 3], tf.uint8))
        class_logits, auxiliary_logits = spec.build(pictures, classes, False)
        assert sum(int(np.prod(v.shape)) for v in tf.compat.v1.global_variables()) == parameters
        names = [v.op.name for v in tf.compat.v1.global_variables()]
    assert {logits.shape for logits in (class_logits, *auxiliary_logits)} == {tf.TensorShape([2, classes])}
    assert any(map(spec.is_decayed, names))
    assert not any(spec.is_decayed(name) for name in names if name.endswith(("biases", "beta", "gamma", "mean", "variance")))


def test_normalised_pictures_by_hand():
    pictures = np.zeros([1, 2, 2, 3], np.uint8)
    pictures[0, 0, 0] = 255
    assert NETS["mobilenet_v2"].normalise(pictures).numpy()[0, :, 0, 0].tolist() == [1.0, -1.0]
    np.testing.assert_allclose(NETS["vgg_16"].normalise(pictures)[0, 0, 0], [131.32, 138.221, 151.061], rtol=1e-6)


def test_pictures_too_small_for_the_layers_are_refused():
    with pytest.raises(UserError, match="--train_image_size=106: inception_v3 takes pictures of 107 pixels or more"):
        make_net("inception_v3", 10, 106)
    with pytest.raises(UserError, match="--model_name=x: must be one of cifar10, inception_v3"):
        make_net("x", 10)
