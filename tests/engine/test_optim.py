"""Schedules, optimizers and averages against numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from engine import optim
from engine.errors import UserError


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (dict(decay_type="fixed"), {0: 0.1, 999: 0.1}),
        (dict(decay_type="exponential", decay_steps=10, decay_factor=0.5), {0: 0.1, 9: 0.1, 10: 0.05, 19: 0.05, 20: 0.025}),
        (dict(decay_type="polynomial", decay_steps=100, end_learning_rate=0.02), {0: 0.1, 50: 0.06, 100: 0.02, 500: 0.02}),
        (dict(decay_type="piecewise", boundaries=(10, 20)), {9: 0.1, 10: 0.01, 19: 0.01, 20: 0.001}),
        (dict(decay_type="piecewise", boundaries=()), {0: 0.1, 99: 0.1}),
        (dict(decay_type="cosine", max_steps=100, end_learning_rate=0.02), {0: 0.1, 50: 0.06, 100: 0.02, 200: 0.02}),
        (dict(decay_type="fixed", warmup_steps=4), {0: 0.025, 1: 0.05, 3: 0.1, 4: 0.1}),
    ],
)
def test_schedules(schedule, expected):
    rate = optim.make_schedule(schedule.pop("decay_type"), learning_rate=0.1, **schedule)
    assert {step: float(rate(step)) for step in expected} == pytest.approx(expected, rel=1e-5)


def test_unknown_names_list_the_known():
    with pytest.raises(UserError, match="linear.*fixed, exponential"):
        optim.make_schedule("linear", learning_rate=0.1)
    with pytest.raises(UserError, match="lion.*adadelta, adagrad"):
        optim.make_optimizer("lion", 0.1)
    with pytest.raises(UserError, match="beta3"):
        optim.make_optimizer("adam", 0.1, beta3=1.0)


def second_step(name, **hyper):
    """The weight after two updates with gradients 2 and 1, from 1, at rate .1."""
    weight = tf.Variable([1.0])
    optimizer = optim.make_optimizer(name, 0.1, **hyper)
    optimizer.build([weight])
    for gradient in (2.0, 1.0):
        optimizer.apply([tf.constant([gradient])], [weight])
    return float(weight[0])


def test_two_updates_by_hand():
    assert second_step("sgd") == pytest.approx(1 - 0.2 - 0.1)
    # velocity: -.2, then .9 * -.2 - .1 = -.28
    assert second_step("momentum", momentum=0.9) == pytest.approx(1 - 0.2 - 0.28)
    # accumulator: .1 + 4 = 4.1, then 5.1
    assert second_step("adagrad", opt_epsilon=1.0) == pytest.approx(1 - 0.2 / 4.1**0.5 - 0.1 / 5.1**0.5)
    # squares: .1 * 4 = .4, then .9 * .4 + .1 = .46; epsilon inside the root; velocity with momentum .9
    first, second = 0.2 / (0.4 + 1) ** 0.5, 0.1 / (0.46 + 1) ** 0.5
    assert second_step("rmsprop", opt_epsilon=1.0) == pytest.approx(1 - first - (0.9 * first + second))
    # bias-corrected moments: 2 / 2 after one update; (.9 * .2 + .1) / .19 over root (.999 * .004 + .001) / .001999 after two
    ratio = (0.28 / 0.19) / ((0.999 * 0.004 + 0.001) / 0.001999) ** 0.5
    assert second_step("adam", opt_epsilon=1e-12) == pytest.approx(1 - 0.1 - 0.1 * ratio, rel=1e-4)
    # adadelta, rho .95, epsilon 1: update = root(delta + 1) / root(squares + 1) * gradient
    first = 2 / (0.05 * 4 + 1) ** 0.5
    second = (0.05 * first**2 + 1) ** 0.5 / (0.95 * 0.2 + 0.05 + 1) ** 0.5
    assert second_step("adadelta", opt_epsilon=1.0) == pytest.approx(1 - 0.1 * first - 0.1 * second, rel=1e-4)


def test_ftrl_first_update_by_hand():
    weight = tf.Variable([1.0])
    optimizer = optim.make_optimizer("ftrl", 0.1)
    optimizer.build([weight])
    optimizer.apply([tf.constant([2.0])], [weight])
    # n = .1 + 4; z = g - (root(4.1) - root(.1)) / rate * w; w = -z / (root(4.1) / rate)
    n, n_before = 4.1**0.5, 0.1**0.5
    linear = 2.0 - (n - n_before) / 0.1
    assert float(weight[0]) == pytest.approx(-linear / (n / 0.1), rel=1e-4)


def test_weight_decay_bias_rate_and_clipping():
    variables = {
        "net/conv1/weights": tf.Variable([3.0]),
        "net/conv1/biases": tf.Variable([5.0]),
        "net/block4_box/L2Normalization/gamma": tf.Variable([20.0]),
        "net/conv1/BatchNorm/gamma": tf.Variable([7.0]),
    }
    gradients = [tf.constant([value]) for value in (1.0, 1.0, 1.0, 1.0)]
    rules = dict(weight_decay=0.1, bias_learning_rate_factor=2.0)
    shaped, norm = optim.regularised_gradients(gradients, variables, **rules, clip_gradient_norm=None)
    assert [float(g[0]) for g in shaped] == pytest.approx([1.3, 2.0, 3.0, 1.0])
    assert float(norm) == pytest.approx(2.0)
    clipped, norm = optim.regularised_gradients(gradients, variables, **rules, clip_gradient_norm=1.0)
    assert [float(g[0]) for g in clipped] == pytest.approx([0.8, 1.0, 2.5, 0.5])
    assert float(norm) == pytest.approx(2.0)


def test_averages_by_hand():
    variable = tf.Variable([10.0])
    constant, growing = optim.MovingAverages({"v": variable}, 0.9), optim.MovingAverages({"v": variable}, 0.9)
    expected = 10.0
    for n, value in enumerate((20.0, 30.0, 0.0), start=1):
        variable.assign([value])
        constant.update()
        growing.update(tf.constant(n, tf.int64))
    for value in (20.0, 30.0, 0.0):
        expected = 0.9 * expected + 0.1 * value
    assert float(constant.averages["v"][0]) == pytest.approx(expected)
    # decays (1 + n) / (10 + n): 2/11, 3/12, 4/13
    by_hand = 10.0
    for decay, value in ((2 / 11, 20.0), (3 / 12, 30.0), (4 / 13, 0.0)):
        by_hand = decay * by_hand + (1 - decay) * value
    assert float(growing.averages["v"][0]) == pytest.approx(by_hand, rel=1e-5)
    constant.reset()
    np.testing.assert_array_equal(constant.averages["v"], [0.0])


def test_a_net_may_say_which_weights_decay():
    variables = {"conv1/weights": tf.Variable([3.0]), "local3/weights": tf.Variable([4.0])}
    rules = dict(weight_decay=0.5, bias_learning_rate_factor=1.0, clip_gradient_norm=None)
    is_decayed = ("local3/weights",).__contains__
    shaped, _ = optim.regularised_gradients([tf.constant([1.0])] * 2, variables, **rules, is_decayed=is_decayed)
    assert [float(g[0]) for g in shaped] == [1.0, 3.0]
    assert float(optim.l2_penalty(variables, 0.5, is_decayed)) == 0.5 * 16 / 2
    assert float(optim.l2_penalty(variables, 0.5, lambda name: False)) == 0.0


def test_the_tutorials_learning_rate():
    """.1, times .1 every 350 epochs of 390 steps: from step 136718 on (50,000 / 128 * 350)."""
    steps = int(50000 / 128 * 350)
    rate = optim.make_schedule("exponential", learning_rate=0.1, decay_steps=steps, decay_factor=0.1)
    assert [float(rate(step)) for step in (0, 136717, 136718, 273436)] == pytest.approx([0.1, 0.1, 0.01, 0.001])
