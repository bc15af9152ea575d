import pathlib

import numpy as np
import pytest
import tensorflow as tf

from engine import checkpoints
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.train_state import Saver
from tests.engine.test_train_state import advance, make_net, make_state


def test_names_in_the_file(tmp_path):
    state = make_state()
    advance(state, 2)
    prefix = Saver(state, tmp_path).save()
    keys = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    assert any("net/conv1/weights/ExponentialMovingAverage" in key for key in keys)
    stored = StoredWeights(prefix)
    assert stored.manifest["class_names"] == ["猫", "dog"]
    assert stored.shapes["net/conv10/weights"] == (1, 1, 3, 2)
    np.testing.assert_array_equal(stored.read("net/conv1/weights"), state.net.variables_by_name["net/conv1/weights"])


def test_averages_are_what_is_loaded_to_use(tmp_path):
    state = make_state()
    advance(state, 2)
    net = make_net()
    checkpoints.load_weights(net, StoredWeights(Saver(state, tmp_path).save()))
    name = "net/conv1/weights"
    np.testing.assert_array_equal(net.variables_by_name[name], state.averages.averages[name])
    assert np.abs(net.variables_by_name[name] - state.net.variables_by_name[name]).max() > 0.01


def test_ways_to_name_a_checkpoint(tmp_path):
    state = make_state()
    advance(state, 9)
    saver = Saver(state, tmp_path / "run")
    saver.save()
    advance(state, 2)
    saver.save()
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    (moved / "checkpoint").unlink()
    newest = str(moved / "model.ckpt-11")
    assert checkpoints.find(moved).prefix == newest
    assert checkpoints.find(newest).prefix == newest
    assert checkpoints.find(newest + ".index").prefix == newest
    assert checkpoints.find(newest + ".data-00000-of-00001").prefix == newest
    for wrong in (tmp_path, moved / "model.ckpt-12", tmp_path / "nowhere"):
        with pytest.raises(UserError, match=str(wrong)):
            checkpoints.find(wrong)


def test_cut_short_checkpoint_is_named(tmp_path):
    prefix = Saver(make_state(), tmp_path).save()
    data = pathlib.Path(prefix + ".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:50])
    with pytest.raises(UserError, match="model.ckpt-0"):
        checkpoints.load_weights(make_net(), StoredWeights(prefix))
    pathlib.Path(prefix + ".index").write_bytes(b"garbage")
    with pytest.raises(UserError, match="not a readable checkpoint"):
        StoredWeights(prefix)


def test_a_checkpoint_cut_short_by_a_crash_is_passed_over(tmp_path, capsys):
    state = make_state()
    saver = Saver(state, tmp_path)
    saver.save()
    advance(state, 1)
    index = pathlib.Path(saver.save() + ".index")
    index.write_bytes(index.read_bytes()[:40])
    assert checkpoints.find(tmp_path).prefix == str(tmp_path / "model.ckpt-0")
    assert "passed over: " + str(tmp_path / "model.ckpt-1") in capsys.readouterr().err
    (tmp_path / "model.ckpt-0.index").write_bytes(b"")
    with pytest.raises(UserError, match="none of its 2 checkpoints can be read"):
        checkpoints.find(tmp_path)


def test_scopes_to_train():
    net = make_net()
    assert list(checkpoints.select_trainable(net, [])) == list(net.trainable_by_name)
    assert list(checkpoints.select_trainable(net, ["net/conv1"])) == ["net/conv1/biases", "net/conv1/weights"]
    with pytest.raises(UserError, match="net/conv2"):
        checkpoints.select_trainable(net, ["net/conv2"])


def test_a_plain_checkpoint_on_a_full_disk(tmp_path, full_disk):
    weights = {"w": np.zeros(1000, np.float32)}
    with full_disk(), pytest.raises(UserError, match=r"a\.ckpt: could not be written \(File too large\)$"):
        checkpoints.write_plain(tmp_path / "a.ckpt", weights)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="checkpoint of step 0 could not be written"):
        Saver(make_state(), tmp_path / "file" / "run").save()
