"""Warm starts: what fits is copied bit for bit, what does not is told with the flag that helps."""

import numpy as np
import pytest
import tf_slim as slim

from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.slim_net import SlimNet
from engine.warm_start import Match, TakeOver, table, warm_start
from tests.engine.slim_files import write_slim


def make_net(outputs=2, scope="net"):
    def function(images, is_training):
        return slim.conv2d(slim.conv2d(images, 3, 3, scope="conv1"), outputs, 1, scope="conv10")

    return SlimNet(scope, function, [4, 4, 3])


def slim_arrays(scope="vgg_16", outputs=2):
    rng = np.random.default_rng(0)
    shapes = {
        "conv1/weights": (3, 3, 3, 3),
        "conv1/biases": (3,),
        "conv10/weights": (1, 1, 3, outputs),
        "conv10/biases": (outputs,),
    }
    return {f"{scope}/{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_weights_from_a_slim_checkpoint_under_another_scope(tmp_path):
    arrays = slim_arrays()
    stored = StoredWeights(write_slim(tmp_path / "vgg.ckpt", arrays))
    net = make_net()
    before = net.variables_by_name["net/conv10/biases"].numpy()
    matches = warm_start(net, stored, model_scope="vgg_16", exclude_scopes=["net/conv10"])
    outcomes = {match.name: match.outcome for match in matches}
    assert outcomes == {
        "net/conv1/biases": "restored",
        "net/conv1/weights": "restored",
        "net/conv10/biases": "excluded",
        "net/conv10/weights": "excluded",
    }
    np.testing.assert_array_equal(net.variables_by_name["net/conv1/weights"], arrays["vgg_16/conv1/weights"])
    np.testing.assert_array_equal(net.variables_by_name["net/conv10/biases"], before)


def test_refuses_what_does_not_fit(tmp_path):
    stored = StoredWeights(write_slim(tmp_path / "a.ckpt", slim_arrays("net", outputs=5)))
    net = make_net()
    before = {name: v.numpy() for name, v in net.variables_by_name.items()}
    with pytest.raises(UserError, match=r"conv10/biases: \(5,\) in the checkpoint, \(2,\) here.*checkpoint_exclude_scopes"):
        warm_start(net, stored)
    with pytest.raises(UserError, match="--checkpoint_exclude_scopes=net/conv7: no variable of net lies there"):
        warm_start(net, stored, exclude_scopes=["net/conv7"])
    with pytest.raises(UserError, match="nothing in it fits"):
        warm_start(net, stored, model_scope="other", ignore_missing=True)
    partial = {name: value for name, value in slim_arrays("net").items() if "conv10" not in name}
    stored = StoredWeights(write_slim(tmp_path / "b.ckpt", partial))
    with pytest.raises(
        UserError, match=r"lacks net/conv10 \(2\); leave them out with --checkpoint_exclude_scopes=net/conv10 or pass --ig"
    ):
        warm_start(net, stored)
    for name, variable in net.variables_by_name.items():
        np.testing.assert_array_equal(variable, before[name])
    outcomes = [match.outcome for match in warm_start(net, stored, ignore_missing=True)]
    assert sorted(outcomes) == ["missing", "missing", "restored", "restored"]


def test_the_table_counts_what_is_as_expected_and_names_the_rest(tmp_path, capsys):
    arrays = slim_arrays("net")
    arrays["net/conv10/biases"] = np.zeros(5, np.float32)
    stored = StoredWeights(write_slim(tmp_path / "a.ckpt", arrays))
    rule = {"conv10/weights": TakeOver("made up", lambda initial: initial + 1)}
    with pytest.raises(UserError, match="1 variables .* leave them out with --checkpoint_exclude_scopes=net/conv10$"):
        warm_start(make_net(), stored, take_over=lambda stored, scope, name, shape: rule.get(name))
    assert capsys.readouterr().err.splitlines() == [
        f"3 of 4 variables are taken from {tmp_path / 'a.ckpt'}",
        "  restored        2  net/conv1 (2)",
        "  taken over      1",
        "      net/conv10/weights: made up",
        "  wrong shape     1",
        "      net/conv10/biases: (5,) in the checkpoint, (2,) here",
    ]
    assert table("x", [Match("a/b/c/w", "excluded")]) == ["0 of 1 variables are taken from x", "  excluded        1  a/b (1)"]


def test_variables_are_filled_by_a_rule_or_left_fresh(tmp_path):
    stored = StoredWeights(write_slim(tmp_path / "a.ckpt", slim_arrays("old")))
    net = make_net()
    before = {name: v.numpy() for name, v in net.variables_by_name.items()}
    rules = {"conv10/weights": TakeOver("one more", lambda initial: initial + 1), "conv10/biases": TakeOver("new", None)}
    matches = warm_start(net, stored, model_scope="old", take_over=lambda stored, scope, name, shape: rules.get(name))
    assert {match.name: match.outcome for match in matches if "conv10" in match.name} == {
        "net/conv10/weights": "taken over",
        "net/conv10/biases": "fresh",
    }
    np.testing.assert_array_equal(net.variables_by_name["net/conv10/weights"], before["net/conv10/weights"] + 1)
    np.testing.assert_array_equal(net.variables_by_name["net/conv10/biases"], before["net/conv10/biases"])


def test_the_manifest_tells_the_scope(tmp_path):
    stored = StoredWeights(write_slim(tmp_path / "a.ckpt", slim_arrays("vgg_16")))
    with pytest.raises(UserError, match="looked for as net; its scopes are vgg_16: see --checkpoint_model_scope"):
        warm_start(make_net(), stored)
    stored.manifest["scope"] = "vgg_16"
    assert {match.outcome for match in warm_start(make_net(), stored)} == {"restored"}
    with pytest.raises(UserError, match="looked for as other"):
        warm_start(make_net(), stored, model_scope="other")


def test_what_is_missing_is_grouped_by_layer(tmp_path, capsys):
    arrays = {name: value for name, value in slim_arrays("net").items() if name == "net/conv1/weights"}
    warm_start(make_net(), StoredWeights(write_slim(tmp_path / "a.ckpt", arrays)), ignore_missing=True)
    assert capsys.readouterr().err.splitlines()[2:] == [
        "  missing         3",
        "      net/conv1/biases, net/conv10 (2): not in the checkpoint under net",
    ]


def test_many_layers_are_counted_by_scope():
    few, many = ([Match(f"net/head/conv{i}/weights", "fresh", "new") for i in range(count)] for count in (16, 17))
    assert table("a.ckpt", few)[-1].startswith("      net/head/conv0/weights, net/head/conv1/weights, ")
    assert table("a.ckpt", many)[-1] == "      net/head (17): new"
