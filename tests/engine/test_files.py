import json

import pytest

from engine.errors import UserError
from engine.files import write_json


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "metrics.json"
    write_json(path, {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"value": float("nan")})
    assert json.loads(path.read_text()) == {"old": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_unwritable_place_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to .*file/metrics.json"):
        write_json(tmp_path / "file" / "metrics.json", {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot write to .*folder"):
        write_json(tmp_path / "folder", {})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]
