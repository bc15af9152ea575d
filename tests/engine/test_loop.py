import re
import time

import pytest
import tensorflow as tf
import tf_slim as slim

from engine import loop, optim, pipelines
from engine.errors import UserError
from engine.slim_net import SlimNet
from engine.train_state import TrainState


@pytest.fixture
def state():
    net = SlimNet("net", lambda images, is_training: slim.conv2d(images, 2, 1, scope="conv1", activation_fn=None), [4, 4, 3])
    return TrainState(net, net.trainable_by_name, optim.make_optimizer("sgd", 0.5), None, {"optimizer": "sgd"})


def make_step(state, **options):
    def losses(batch):
        outputs = state.net(batch["image"], is_training=True)
        return {"a": tf.reduce_mean(outputs), "b": 2 * tf.reduce_mean(outputs[..., 0])}

    settings = {"weight_decay": 0.0, "bias_learning_rate_factor": 1.0, "clip_gradient_norm": None, "xla": False} | options
    return loop.make_train_step(state, losses, **settings)


BATCH = {"image": tf.ones([5, 4, 4, 3]), "example": tf.range(5, dtype=tf.int64)}


@pytest.mark.parametrize("xla", [False, True])
def test_one_step_by_hand(state, xla):
    bias = state.net.variables_by_name["net/conv1/biases"]
    scalars = {name: float(value) for name, value in make_step(state, xla=xla)(BATCH).items()}
    # d loss / d bias: mean over two channels gives (1/2, 1/2), twice the mean over the first gives (2, 0)
    assert bias.numpy() == pytest.approx([-0.5 * 2.5, -0.5 * 0.5])
    assert scalars["loss"] == pytest.approx(scalars["a"] + scalars["b"], rel=1e-6)
    assert scalars["learning_rate"] == 0.5
    assert scalars["l2_loss"] == 0.0
    assert scalars["gradient_norm"] == pytest.approx((4 * (2.5**2 + 0.5**2)) ** 0.5, rel=1e-5)
    assert (int(state.step), int(state.examples)) == (1, 5)


def test_a_loss_scale_changes_nothing_but_the_arithmetic(state):
    bias = state.net.variables_by_name["net/conv1/biases"]
    scalars = make_step(state, loss_scale=1024.0)(BATCH)
    assert bias.numpy() == pytest.approx([-0.5 * 2.5, -0.5 * 0.5])
    assert float(scalars["gradient_norm"]) == pytest.approx((4 * (2.5**2 + 0.5**2)) ** 0.5, rel=1e-5)


def test_weight_decay_is_told(state):
    weights = state.net.variables_by_name["net/conv1/weights"].numpy()
    scalars = make_step(state, weight_decay=0.1)(BATCH)
    assert float(scalars["l2_loss"]) == pytest.approx(0.1 * (weights**2).sum() / 2, rel=1e-5)


def test_the_loss_average_by_hand():
    average = loop._LossAverage()
    assert average.update(4.0) == pytest.approx(4.0)
    assert average.update(2.0) == pytest.approx((0.9 * 0.1 * 4 + 0.1 * 2) / (0.9 * 0.1 + 0.1))


def test_the_step_is_traced_once(state):
    step = make_step(state)
    for _ in range(3):
        step(BATCH)
    assert step.experimental_get_tracing_count() == 1


def test_frozen_variables_do_not_move(state):
    state.trainable = {name: v for name, v in state.trainable.items() if name.endswith("biases")}
    weights = state.net.variables_by_name["net/conv1/weights"].numpy()
    state.optimizer = optim.make_optimizer("sgd", 0.5)
    make_step(state, weight_decay=0.1)(BATCH)
    assert (state.net.variables_by_name["net/conv1/weights"].numpy() == weights).all()


def test_console_line():
    clock = loop._Clock(save_secs=1000, summaries_secs=1000)
    form = r"step 20, loss = 1\.2346 \((\d+\.\d) examples/sec; (\d+\.\d{3}) sec/batch\), ETA \d+:\d\d:\d\d"
    clock.stepped(8)
    assert re.fullmatch(form, clock.line(20, 1.23456, 40))
    for _ in range(2):
        time.sleep(0.05)
        clock.stepped(8)
    with clock.paused():
        time.sleep(0.5)
    rate, seconds = map(float, re.fullmatch(form, clock.line(20, 1.23456, 40)).groups())
    assert 0.05 <= seconds < 0.25
    assert 8 / 0.25 < rate <= 8 / 0.05


def test_what_python_said_in_the_pipeline_is_found():
    def broken(_):
        raise UserError("a.jpg: cut-off JPEG")

    dataset = tf.data.Dataset.range(1).map(lambda n: tf.numpy_function(broken, [n], tf.int64))
    with pytest.raises(UserError, match="^a.jpg: cut-off JPEG$"):
        next(pipelines.iterate(dataset))
