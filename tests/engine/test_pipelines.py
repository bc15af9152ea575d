import collections

import numpy as np
import pytest

from engine import pipelines


def positions(num_examples, take, **kwargs):
    dataset = pipelines.shuffled_examples(num_examples, **kwargs)
    return [(int(epoch), int(example)) for epoch, example in dataset.take(take)]


@pytest.mark.parametrize("num_examples", [1, 2, 7, 100])
def test_each_epoch_is_another_permutation(num_examples):
    order = positions(num_examples, 3 * num_examples, seed=3, start=0)
    epochs = [order[i * num_examples : (i + 1) * num_examples] for i in range(3)]
    for number, epoch in enumerate(epochs):
        assert {e for e, _ in epoch} == {number}
        assert sorted(example for _, example in epoch) == list(range(num_examples))
    if num_examples == 100:
        assert len({tuple(example for _, example in epoch) for epoch in epochs}) == 3


def test_the_order_goes_on_from_any_position():
    whole = positions(10, 35, seed=5, start=0)
    assert positions(10, 18, seed=5, start=17) == whole[17:]
    assert positions(10, 35, seed=6, start=0) != whole


@pytest.mark.parametrize(("num_examples", "batch_size", "count"), [(10, 4, 2), (7, 6, 3), (5, 12, 2), (10, 5, 1)])
def test_shares_make_up_the_whole_order(num_examples, batch_size, count):
    start, batches, size = 3, 5, batch_size // count
    whole = positions(num_examples, batches * batch_size, seed=2, start=start)
    shares = [
        positions(num_examples, batches * size, seed=2, start=start, batch_size=batch_size, share=pipelines.Share(index, count))
        for index in range(count)
    ]
    together = [row for batch in range(batches) for share in shares for row in share[batch * size : (batch + 1) * size]]
    assert together == whole


def test_first_places_are_shared_out_evenly():
    first = collections.Counter(example for epoch, example in positions(5, 5 * 2000, seed=1, start=0)[::5])
    assert all(abs(count - 400) < 80 for count in first.values())  # 4.5 standard deviations


def test_records_come_in_order_whatever_the_number_of_readers():
    for readers in (1, 4):
        order = pipelines.shuffled_examples(5, seed=0, start=0).take(10)
        read = list(pipelines.read_records(order, lambda example: b"%d" % example, num_parallel_reads=readers))
        assert [record.numpy() for _, _, record in read] == [b"%d" % example for _, example, _ in read]


def test_positions_beyond_two_to_the_31(tmp_path):
    start = 3 * 10**9
    epochs, examples = zip(*positions(7, 7, seed=0, start=start), strict=True)
    assert epochs[0] == start // 7
    assert len(set(np.array(examples)[np.array(epochs) == epochs[0]])) == sum(epoch == epochs[0] for epoch in epochs)


def test_ordered_examples_fill_the_last_batch():
    batches = pipelines.ordered_examples(5, 3).batch(3)
    assert [batch.numpy().tolist() for batch in batches] == [[0, 1, 2], [3, 4, -1]]
    assert [batch.numpy().tolist() for batch in pipelines.ordered_examples(2, 2).batch(2)] == [[0, 1]]
