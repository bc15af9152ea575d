"""What an SSD takes from other checkpoints: heads class by class, TF-slim's VGG-16 by reduction."""

import re

import numpy as np
import pytest
import tensorflow as tf

from classify import nets as classifiers
from classify.nets.vgg import STAGES
from engine import optim
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.train_state import Saver, TrainState
from engine.warm_start import warm_start
from ssd import fine_tuning, nets
from ssd.nets import vgg_reduction
from tests.engine.slim_files import write_slim, write_v1

PUBLISHED_MEANS, SLIM_MEANS = (123.0, 117.0, 104.0), (123.68, 116.779, 103.939)


def random(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def vgg_arrays(width):
    """Slim's names with random values, the fully connected layers `width` wide."""
    rng, arrays, channels = np.random.default_rng(1), {}, 3
    for stage, convolutions, out in STAGES:
        for i in range(1, convolutions + 1):
            arrays[f"vgg_16/{stage}/{stage}_{i}/weights"] = random(rng, 3, 3, channels, out)
            arrays[f"vgg_16/{stage}/{stage}_{i}/biases"] = random(rng, out)
            channels = out
    for layer, shape in (("fc6", (7, 7, 512, width)), ("fc7", (1, 1, width, width)), ("fc8", (1, 1, width, 10))):
        arrays[f"vgg_16/{layer}/weights"], arrays[f"vgg_16/{layer}/biases"] = random(rng, *shape), random(rng, shape[-1])
    return arrays


def test_fc6_and_fc7_by_hand(tmp_path):
    """fc6[y, x, i, o] = 1000 y + 100 x + 20 i + o, so that a value tells where it came from."""
    y, x, i, o = np.meshgrid(np.arange(7), np.arange(7), np.arange(2), np.arange(8), indexing="ij")
    arrays = {
        "vgg_16/fc6/weights": (1000 * y + 100 * x + 20 * i + o).astype(np.float32),
        "vgg_16/fc6/biases": np.arange(8, dtype=np.float32),
        "vgg_16/fc7/weights": (100 * np.arange(8)[:, None] + np.arange(8))[None, None].astype(np.float32),
        "vgg_16/fc7/biases": 10 + np.arange(8, dtype=np.float32),
    }
    stored = StoredWeights(write_slim(tmp_path / "vgg_16.ckpt", arrays))

    def reduced(name, *shape):
        return vgg_reduction.take_over(stored, "vgg_16", name, shape).fill(np.zeros(shape))

    conv6 = reduced("conv6/weights", 3, 3, 2, 2)
    assert conv6[1, 2, 1, 1] == 3000 + 600 + 20 + 4
    assert conv6[2, 0, 0, 0] == 6000
    np.testing.assert_array_equal(reduced("conv7/weights", 1, 1, 2, 2), [[[[0, 4], [400, 404]]]])
    np.testing.assert_array_equal(reduced("conv6/biases", 2), [0, 4])
    np.testing.assert_array_equal(reduced("conv7/biases", 2), [10, 14])
    assert vgg_reduction.take_over(stored, "vgg_16", "conv6/weights", (3, 3, 2, 4)) is None
    assert vgg_reduction.take_over(stored, "vgg_16", "conv5/conv5_1/weights", (3, 3, 2, 4)) is None
    assert vgg_reduction.take_over(stored, "vgg_16", "block8/conv1x1/weights", (1, 1, 2, 4)).fill is None
    assert vgg_reduction.take_over(stored, "other", "block8/conv1x1/weights", (1, 1, 2, 4)) is None


@pytest.mark.slow
@pytest.mark.parametrize(("net_name", "write"), [("ssd_300_vgg", write_slim), ("ssd_512_vgg", write_v1)])
def test_vgg_16_in_full(net_name, write, tmp_path, capsys):
    arrays = vgg_arrays(4096)
    stored = StoredWeights(write(tmp_path / "vgg_16.ckpt", arrays))
    net = nets.make_net(net_name, 4)
    matches = warm_start(net, stored, model_scope="vgg_16", take_over=fine_tuning.take_over_rule(net_name, ["a", "b", "c"]))
    by_name = [match for match in matches if match.outcome == "restored"]
    assert len(by_name) == 26
    for match in by_name:
        inner = match.name.removeprefix(net_name)
        np.testing.assert_array_equal(net.variables_by_name[match.name], arrays[f"vgg_16{inner}"], err_msg=match.name)
    value = {name.removeprefix(f"{net_name}/"): v.numpy() for name, v in net.variables_by_name.items()}
    fc6, fc7 = arrays["vgg_16/fc6/weights"], arrays["vgg_16/fc7/weights"]
    for row, column, i, o in [(0, 0, 0, 0), (1, 2, 511, 1023), (2, 1, 17, 99)]:
        assert value["conv6/weights"][row, column, i, o] == fc6[3 * row, 3 * column, i, 4 * o]
        assert value["conv7/weights"][0, 0, i, o] == fc7[0, 0, 4 * i, 4 * o]
    np.testing.assert_array_equal(value["conv6/biases"], arrays["vgg_16/fc6/biases"][::4])
    np.testing.assert_array_equal(value["conv7/biases"], arrays["vgg_16/fc7/biases"][::4])
    assert re.search(r"30 of \d+ variables .*\n  restored +26 .*\n  taken over +4\n", capsys.readouterr().err)


def test_the_means_are_those_of_the_weights(tmp_path):
    slim = StoredWeights(write_slim(tmp_path / "vgg_16.ckpt", {"vgg_16/fc6/weights": np.zeros([7, 7, 2, 8], np.float32)}))
    published = StoredWeights(write_slim(tmp_path / "ssd.ckpt", {"ssd_300_vgg/conv6/weights": np.zeros([1], np.float32)}))
    assert fine_tuning.means_of("ssd_300_vgg", None, "") == PUBLISHED_MEANS
    assert fine_tuning.means_of("ssd_300_vgg", slim, "vgg_16") == SLIM_MEANS
    assert fine_tuning.means_of("ssd_300_vgg", published, "ssd_300_vgg") == PUBLISHED_MEANS
    published.manifest["means"] = list(SLIM_MEANS)
    assert fine_tuning.means_of("ssd_300_vgg", published, "ssd_300_vgg") == SLIM_MEANS


def test_a_classifier_of_ours_becomes_the_backbone(tmp_path, capsys):
    """classify.train's checkpoint of MobileNetV2: everything below its logits, statistics included, without a further flag."""
    classifier = classifiers.make_net("mobilenet_v2", 10, 32)
    for number, variable in enumerate(classifier.variables_by_name.values()):
        variable.assign(tf.random.stateless_normal(variable.shape, [number, 1]))
    manifest = {"optimizer": "sgd", "scope": "MobilenetV2", "class_names": [*"abcdefghij"]}
    state = TrainState(classifier, classifier.trainable_by_name, optim.make_optimizer("sgd", 0.1), None, manifest)
    stored = StoredWeights(Saver(state, tmp_path).save())
    net = nets.make_net("ssd_320_mobilenet_v2", 4)
    matches = warm_start(net, stored, take_over=fine_tuning.take_over_rule("ssd_320_mobilenet_v2", ["a", "b", "c"]))
    restored = [match.name.removeprefix("ssd_320_mobilenet_v2/") for match in matches if match.outcome == "restored"]
    assert len(restored) == 52 * 5, "52 convolutions, each with weights and four variables of its batch norm"
    for name in restored:
        expected = classifier.variables_by_name[f"MobilenetV2/{name}"]
        np.testing.assert_array_equal(net.variables_by_name[f"ssd_320_mobilenet_v2/{name}"], expected, err_msg=name)
    assert {match.outcome for match in matches} == {"restored", "fresh"}
    assert "no layer of MobileNetV2" in capsys.readouterr().err
    again = StoredWeights(write_slim(tmp_path / "ssd.ckpt", {n: v.numpy() for n, v in net.variables_by_name.items()}))
    rule = fine_tuning.take_over_rule("ssd_320_mobilenet_v2", ["a", "b", "c"])
    assert {match.outcome for match in warm_start(net, again, take_over=rule)} == {"restored"}


def own_checkpoint(path, arrays, class_names):
    stored = StoredWeights(write_slim(path, arrays))
    stored.manifest |= {"anchor_set": "voc", "class_names": class_names, "num_classes": len(class_names) + 1}
    return stored


def test_heads_are_taken_class_by_class(tmp_path):
    """Two kinds of anchors; there background, cat, dog; here background, dog, bird, cat."""
    there = np.arange(2 * 2 * 3, dtype=np.float32).reshape(1, 1, 2, 6)
    stored = own_checkpoint(tmp_path / "a.ckpt", {"net/x/conv_cls/weights": there}, ["cat", "dog"])
    rule = fine_tuning.take_over_rule("ssd_tiny", ["dog", "bird", "cat"])
    found = rule(stored, "net", "x/conv_cls/weights", (1, 1, 2, 8))
    assert found.note == "by class: background, dog, cat; fresh: bird"
    initial = np.full([1, 1, 2, 8], -1, np.float32)
    np.testing.assert_array_equal(found.fill(initial)[0, 0], [[0, 2, -1, 1, 3, 5, -1, 4], [6, 8, -1, 7, 9, 11, -1, 10]])
    assert (initial == -1).all()
    assert rule(stored, "net", "x/conv_cls/weights", (1, 1, 5, 8)) is None
    assert rule(stored, "net", "conv5/weights", (1, 1, 2, 8)) is None
    assert rule(stored, "net", "y/conv_cls/weights", (1, 1, 2, 8)) is None
    assert rule(stored, "net", "x/conv_cls/weights", (1, 1, 2, 12)) == (
        "2 kinds of anchors at a cell in the checkpoint, 3 here",
        None,
    )


def test_the_same_classes_in_another_order_and_box_heads(tmp_path):
    arrays = {"net/x/conv_cls/biases": np.arange(3, dtype=np.float32), "net/x/conv_loc/biases": np.zeros(8, np.float32)}
    stored = own_checkpoint(tmp_path / "a.ckpt", arrays, ["cat", "dog"])
    same, swapped = (fine_tuning.take_over_rule("ssd_tiny", names) for names in (["cat", "dog"], ["dog", "cat"]))
    assert same(stored, "net", "x/conv_cls/biases", (3,)) is None
    np.testing.assert_array_equal(swapped(stored, "net", "x/conv_cls/biases", (3,)).fill(np.zeros(3)), [0, 2, 1])
    assert swapped(stored, "net", "x/conv_loc/biases", (8,)) is None
    assert "2 kinds" in swapped(stored, "net", "x/conv_loc/biases", (16,)).note


def test_a_foreign_checkpoint_of_other_classes_is_refused(tmp_path):
    net = nets.make_net("ssd_tiny", 3)
    arrays = {name: v.numpy() for name, v in net.variables_by_name.items()}
    name = "ssd_tiny/conv3_box/conv_cls/biases"
    arrays[name] = np.zeros(84, np.float32)
    stored = StoredWeights(write_slim(tmp_path / "a.ckpt", arrays))
    advice = r"\(84,\) in the checkpoint, \(12,\) here\); leave .* --checkpoint_exclude_scopes=ssd_tiny/conv3_box/conv_cls$"
    with pytest.raises(UserError, match=f"{name}: {advice}"):
        warm_start(net, stored, take_over=fine_tuning.take_over_rule("ssd_tiny", ["cat", "dog"]))
