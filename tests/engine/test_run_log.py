import json

import pytest
import tensorflow as tf

from engine.errors import UserError
from engine.run_log import RunLog


def test_lines_of_steps_that_are_done_again_are_dropped(tmp_path):
    log = RunLog(tmp_path, {"batch_size": 4}, step=0)
    for step in (10, 20, 30):
        log.scalars(step, {"loss": step / 2})
    with (tmp_path / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 4')  # cut short by a kill
    log = RunLog(tmp_path, {"batch_size": 8}, step=20)
    log.scalars(30, {"loss": 7.0})
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 10.0}, {"step": 30, "loss": 7.0}]
    assert json.loads((tmp_path / "config.json").read_text()) == {"batch_size": 8}


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to .*file"):
        RunLog(tmp_path / "file", {}, step=0)


def test_of_very_many_values_a_histogram_shows_some(tmp_path):
    """The whole range, evenly thinned out; TensorFlow would take 24 GB for the gradient of VGG-16's first large layer."""
    log = RunLog(tmp_path, {}, step=0)
    log.histograms(1, {"few": tf.range(10.0), "many": tf.reshape(tf.range(2_500_000.0), [50, 1000, 50]), "none": tf.zeros([0])})
    log.flush()
    buckets = {}
    for path in tmp_path.glob("events.*"):
        for event in tf.data.TFRecordDataset(str(path)):
            for value in tf.compat.v1.Event.FromString(event.numpy()).summary.value:
                if value.metadata.plugin_data.plugin_name == "histograms":
                    buckets[value.tag] = tf.make_ndarray(value.tensor)  # [buckets, 3]: left, right, count
    assert {name: int(found[:, 2].sum()) for name, found in buckets.items()} == {"few": 10, "many": 833_334, "none": 0}
    assert (buckets["many"][0, 0], buckets["many"][-1, 1]) == (0, 2_499_999)
