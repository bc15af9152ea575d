"""The published TF-slim SSDs, by files of their names with random values: loaded as they are, and computing the same.

The net is computed a second time here, line by line from figure 2 of arXiv:1512.02325, by TensorFlow's plain operations.
"""

import json
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from engine import images
from engine.errors import UserError
from engine.flags import parse
from ssd import detect, evaluate, nets
from ssd.detector import load
from tests.engine.slim_files import write_slim

THRESHOLDS = {"score_threshold": 0.3, "nms_threshold": 0.45, "top_k": 20, "keep_top_k": 10}
KINDS = {"ssd_300_vgg": (4, 6, 6, 6, 4, 4), "ssd_512_vgg": (4, 6, 6, 6, 6, 4, 4)}


def published(path, net_name, num_classes):
    """A file of the published names; weights are random and of a size that lets the signal through."""
    rng, arrays = np.random.default_rng(2), {}
    for name, variable in nets.make_net(net_name, num_classes).variables_by_name.items():
        shape = tuple(variable.shape)
        scale = np.sqrt(2 / np.prod(shape[:-1])) if name.endswith("weights") else 0.1
        arrays[name] = (rng.normal(size=shape) * scale + (20 if name.endswith("gamma") else 0)).astype(np.float32)
    arrays[f"{net_name}/conv1/conv1_1/weights"] /= 64
    return write_slim(path, arrays), arrays


def literally(net_name, arrays, image, num_classes):
    """image [S, S, 3] uint8 -> class_logits [A, C], box_offsets [A, 4]."""

    def conv(x, scope, *, stride=1, padding="SAME", rate=1, relu=True):
        weights, biases = arrays[f"{net_name}/{scope}/weights"], arrays[f"{net_name}/{scope}/biases"]
        y = tf.nn.conv2d(x, weights, stride, padding, dilations=rate) + biases
        return tf.nn.relu(y) if relu else y

    x = tf.constant(image[None], tf.float32) - [123.0, 117.0, 104.0]
    for stage, convolutions in ((1, 2), (2, 2), (3, 3), (4, 3), (5, 3)):
        for i in range(1, convolutions + 1):
            x = conv(x, f"conv{stage}/conv{stage}_{i}")
        if stage == 4:
            length = tf.sqrt(tf.reduce_sum(x * x, axis=-1, keepdims=True))
            sources = [("block4_box", x / length * arrays[f"{net_name}/block4_box/L2Normalization/gamma"])]
        x = tf.nn.max_pool2d(x, 3 if stage == 5 else 2, 1 if stage == 5 else 2, "SAME")
    x = conv(conv(x, "conv6", rate=6), "conv7")
    sources.append(("block7_box", x))
    padded = {"ssd_300_vgg": {8: 2, 9: 2, 10: None, 11: None}, "ssd_512_vgg": {8: 2, 9: 2, 10: 2, 11: 2, 12: 1}}
    for block, stride in padded[net_name].items():
        x = conv(x, f"block{block}/conv1x1")
        if stride:
            x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        size = 4 if block == 12 else 3
        x = conv(x, f"block{block}/conv{size}x{size}", stride=stride or 1, padding="VALID")
        sources.append((f"block{block}_box", x))
    heads = {"conv_cls": [], "conv_loc": []}
    for (scope, source), kinds in zip(sources, KINDS[net_name], strict=True):
        for head, depth in (("conv_cls", num_classes), ("conv_loc", 4)):
            values = conv(source, f"{scope}/{head}", relu=False).numpy()[0]
            assert values.shape[-1] == kinds * depth
            heads[head] += [values[y, x, k * depth : (k + 1) * depth] for y, x, k in np.ndindex(*values.shape[:2], kinds)]
    return np.stack(heads["conv_cls"]), np.stack(heads["conv_loc"])


@pytest.mark.parametrize("net_name", ["ssd_300_vgg", pytest.param("ssd_512_vgg", marks=pytest.mark.slow)])
def test_a_published_checkpoint_computes_the_same(net_name, tmp_path):
    prefix, arrays = published(tmp_path / "ssd.ckpt", net_name, 3)
    loaded, _ = load(prefix, model_name=net_name, num_classes=3, anchor_set="voc", **THRESHOLDS)
    for name, variable in loaded._net.variables_by_name.items():
        np.testing.assert_array_equal(variable, arrays[name], err_msg=name)
    size = nets.NETS[net_name].image_size
    image = np.random.default_rng(0).integers(0, 256, [size, size, 3], np.uint8)

    @partial(tf.function, autograph=False)
    def outputs(batch):
        return loaded._net(nets.normalise(batch, (123, 117, 104)), is_training=False)

    class_logits, box_offsets = (tensor.numpy()[0] for tensor in outputs(image[None]))
    expected_logits, expected_offsets = literally(net_name, arrays, image, 3)
    assert np.std(expected_logits) > 0.1
    np.testing.assert_allclose(class_logits, expected_logits, atol=2e-4 * np.abs(expected_logits).max())
    np.testing.assert_allclose(box_offsets, expected_offsets, atol=2e-4 * np.abs(expected_offsets).max())


def test_detection_takes_it_directly(tmp_path):
    prefix, _ = published(tmp_path / "ssd_300.ckpt", "ssd_300_vgg", 4)
    picture = tmp_path / "picture.jpg"
    images.write_jpeg(picture, np.random.default_rng(0).integers(0, 256, [90, 120, 3], np.uint8))
    flags = [f"--checkpoint_path={prefix}", "--model_name=ssd_300_vgg", "--num_classes=4", "--anchor_set=coco"]
    argv = ["detect", str(picture), *flags, f"--output_dir={tmp_path / 'out'}", "--batch_size=1", "--score_threshold=0"]
    assert detect.main(*parse(detect.Config, argv, positional="PICTURE")) == 0
    listed = json.loads((tmp_path / "out" / "detections.json").read_text())
    assert {found["label"] for found in listed[0]["detections"]} <= {"class 1", "class 2", "class 3"}
    with pytest.raises(UserError, match=f"--anchor_set must be given: {prefix} does not say it"):
        detect.main(*parse(detect.Config, [arg for arg in argv if "anchor_set" not in arg], positional="PICTURE"))


def test_classes_of_a_checkpoint_that_names_none_are_the_data_sets(sample_records, tmp_path):
    net = nets.make_net("ssd_tiny", 4)
    prefix = write_slim(tmp_path / "tiny.ckpt", {name: v.numpy() for name, v in net.variables_by_name.items()})
    flags = [f"--checkpoint_path={prefix}", "--model_name=ssd_tiny", "--num_classes=4", "--anchor_set=voc", "--pictures=0"]
    flags += [f"--dataset_dir={sample_records}", "--dataset_split_name=val", f"--eval_dir={tmp_path / 'eval'}"]
    evaluate.main(parse(evaluate.Config, ["evaluate", *flags])[0])
    named = json.loads((tmp_path / "eval" / "metrics.json").read_text())["classes"]
    assert list(named) == ["disc", "square", "triangle"]
    net = nets.make_net("ssd_tiny", 3)
    write_slim(tmp_path / "tiny.ckpt", {name: v.numpy() for name, v in net.variables_by_name.items()})
    with pytest.raises(UserError, match="was trained on the classes disc, square, but shapes has disc, square, triangle"):
        evaluate.main(parse(evaluate.Config, ["evaluate", *flags, "--num_classes=3"])[0])
