import numpy as np
import pytest
import tensorflow as tf
import tf_slim as slim

from engine import checkpoints, optim
from engine.checkpoints import StoredWeights
from engine.errors import UserError
from engine.slim_net import SlimNet
from engine.train_state import Saver, TrainState


def make_net(outputs=2, scope="net"):
    def function(images, is_training):
        return slim.conv2d(slim.conv2d(images, 3, 3, scope="conv1"), outputs, 1, scope="conv10")

    return SlimNet(scope, function, [4, 4, 3])


def make_state(optimizer="momentum", *, averages=True, outputs=2):
    net = make_net(outputs)
    shadows = optim.MovingAverages(net.variables_by_name, 0.5) if averages else None
    manifest = {"model_name": "net", "optimizer": optimizer, "class_names": ["猫", "dog"]}
    return TrainState(net, net.trainable_by_name, optim.make_optimizer(optimizer, 0.1), shadows, manifest)


def advance(state, steps):
    for _ in range(steps):
        variables = list(state.trainable.values())
        state.optimizer.apply([tf.ones_like(v) for v in variables], variables)
        state.step.assign_add(1)
        state.examples.assign_add(7)
        if state.averages is not None:
            state.averages.update()


def snapshot(state):
    parts = {**state.net.variables_by_name, "step": state.step, "examples": state.examples}
    parts |= {f"slot{i}": slot.value for i, slot in enumerate(state.optimizer.variables)}
    if state.averages is not None:
        parts |= {f"average/{name}": v for name, v in state.averages.averages.items()}
    return {name: v.numpy() for name, v in parts.items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def test_everything_is_restored(tmp_path):
    state = make_state("adam")
    advance(state, 3)
    prefix = Saver(state, tmp_path).save()
    assert prefix == str(tmp_path / "model.ckpt-3")
    other = make_state("adam")
    Saver(other, tmp_path).restore(checkpoints.find(tmp_path).prefix)
    assert_same(snapshot(state), snapshot(other))


def test_another_optimizer_keeps_weights_and_step(tmp_path):
    state = make_state("rmsprop")
    advance(state, 3)
    Saver(state, tmp_path).save()
    other = make_state("adam")
    Saver(other, tmp_path).restore(checkpoints.find(tmp_path).prefix)
    assert int(other.step) == int(other.optimizer.iterations) == 3
    for name, variable in state.net.variables_by_name.items():
        np.testing.assert_array_equal(variable, other.net.variables_by_name[name])


def test_averages_that_are_new_start_from_the_weights(tmp_path):
    state = make_state(averages=False)
    advance(state, 3)
    Saver(state, tmp_path).save()
    other = make_state()
    Saver(other, tmp_path).restore(checkpoints.find(tmp_path).prefix)
    for name, variable in state.net.variables_by_name.items():
        np.testing.assert_array_equal(other.averages.averages[name], variable)
    assert_same(snapshot(state), {k: v for k, v in snapshot(other).items() if not k.startswith("average/")})
    advance(other, 1)
    Saver(other, tmp_path).save()
    without = make_state(averages=False)
    Saver(without, tmp_path).restore(checkpoints.find(tmp_path).prefix)
    assert int(without.step) == 4


def test_five_newest_are_kept_and_saving_twice_is_once(tmp_path):
    state = make_state()
    saver = Saver(state, tmp_path)
    for _ in range(7):
        advance(state, 1)
        assert saver.save() == saver.save()
    kept = sorted(path.name for path in tmp_path.glob("*.index"))
    assert kept == [f"model.ckpt-{step}.index" for step in (3, 4, 5, 6, 7)]


def test_unwritable_folder_keeps_the_previous_checkpoint(tmp_path):
    state = make_state()
    saver = Saver(state, tmp_path)
    first = saver.save()
    advance(state, 1)
    (tmp_path / "model.ckpt-1.index").mkdir()  # stands in the way of the next one
    with pytest.raises(UserError, match="checkpoint of step 1 could not be written"):
        saver.save()
    assert StoredWeights(first).shapes["net/conv1/weights"] == (3, 3, 3, 3)


def test_a_disk_that_fills_up_keeps_the_previous_checkpoint(tmp_path, full_disk):
    state = make_state()
    saver = Saver(state, tmp_path)
    first = saver.save()
    expected = snapshot(state)
    before = sorted(path.name for path in tmp_path.iterdir())
    advance(state, 1)
    with full_disk(), pytest.raises(UserError, match=r"checkpoint of step 1 could not be written \(File too large\)$"):
        saver.save()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    other = make_state()
    assert checkpoints.find(tmp_path).prefix == first
    Saver(other, tmp_path).restore(first)
    assert_same(expected, snapshot(other))
    saver.save()
    assert checkpoints.find(tmp_path).prefix == str(tmp_path / "model.ckpt-1")
