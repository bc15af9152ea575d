"""What a user can mean by the path of a checkpoint, and what a path that is none seems to be."""

import difflib
import json
import pathlib
import re
from typing import Any

from engine.errors import UserError

ACCEPTED = (
    "a checkpoint is a folder, a prefix PATH for which PATH.index and PATH.data-... exist (any of these files names it too),"
    " or a single .ckpt file of TensorFlow 1"
)
# The first bytes of files that are something else.
_MAGIC = (
    (b"\x89HDF", "an HDF5 file, as Keras writes them"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the file itself with git lfs pull"),
)
_ENDINGS = {
    ".h5": "an HDF5 file, as Keras writes them",
    ".keras": "a Keras model",
    ".npz": "NumPy arrays",
    ".pth": "a PyTorch file",
    ".pt": "a PyTorch file",
    ".pb": "a frozen graph or SavedModel",
    ".tflite": "a TensorFlow Lite model",
    ".onnx": "an ONNX model",
    ".caffemodel": "a Caffe model",
    ".safetensors": "a safetensors file",
    ".zip": "an archive: unpack it first",
    ".tar": "an archive: unpack it first",
}


def prefix_of(path: str) -> str:
    """PATH.index, PATH.data-00000-of-00001 or PATH.meta -> PATH; another path as it is."""
    return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path)


def exists(prefix: str) -> bool:
    """Whether there are files of that prefix, or a single file of TensorFlow 1's first format."""
    return pathlib.Path(prefix + ".index").is_file() or pathlib.Path(prefix).is_file()


def in_folder(folder: str | pathlib.Path) -> list[str]:
    """The prefixes in a folder, of whatever name, sorted: PATH.index, and single files PATH.ckpt."""
    folder = pathlib.Path(folder)
    found = [str(index.with_suffix("")) for index in folder.glob("*.index")]
    return sorted({*found, *(str(file) for file in folder.glob("*.ckpt") if file.is_file())})


def describe_folder(folder: str | pathlib.Path) -> str:
    """Why a folder has no checkpoint to take: what it seems to be, or what it holds."""
    folder = pathlib.Path(folder)
    if (folder / "saved_model.pb").is_file():
        return f"a SavedModel, not a checkpoint: {ACCEPTED}"
    if found := in_folder(folder):
        return f"several checkpoints and none of them numbered: name one, such as {found[0]}"
    if not any(folder.iterdir()):
        return "an empty folder"
    deeper = sorted({str(index.parent) for index in folder.glob("*/*.index")})
    where = f"; there are some in {', '.join(deeper[:3])}" if deeper else ""
    return f"no checkpoint (*.index) in this folder{where}"


def describe_file(path: str | pathlib.Path) -> str:
    """What a file that cannot be read as a checkpoint seems to be."""
    path = pathlib.Path(path)
    with path.open("rb") as file:
        start = file.read(24)
    by_start = next((said for magic, said in _MAGIC if start.startswith(magic)), None)
    said = by_start or _ENDINGS.get(path.suffix.lower())
    if said is None and start.startswith(b"PK"):
        said = "a zip archive, as of PyTorch or Keras"
    return f"this seems to be {said or ('empty' if not start else 'something else or damaged')}; {ACCEPTED}"


def plain_reason(error: Exception) -> str:
    """TensorFlow's "{{node ...}} PATH; No space left on device [Op:SaveV2]" -> "No space left on device"."""
    return re.sub(r" \[Op:\w+\]$", "", str(error).splitlines()[0]).rpartition("; ")[2]


def why_unreadable(prefix: str, error: Exception) -> str:
    """What is wrong with a checkpoint that TensorFlow refuses to open."""
    return plain_reason(error) if pathlib.Path(prefix + ".index").is_file() else describe_file(prefix)


def read_description(prefix: str) -> dict[str, Any]:
    """What PREFIX.json says of the checkpoint beside it; {} where there is none. `UserError` when it cannot be read."""
    path = pathlib.Path(prefix + ".json")
    if not path.is_file():
        return {}
    try:
        description = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as what its checkpoint says of itself ({error})") from None
    return description if isinstance(description, dict) else {}


def describe_missing(path: str) -> str:
    """What there is beside a path that does not exist."""
    path = prefix_of(path)
    folder = pathlib.Path(path).parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    near = in_folder(folder)
    names = {pathlib.Path(prefix).name: prefix for prefix in near}
    similar = difflib.get_close_matches(pathlib.Path(path).name, names, n=3, cutoff=0.5) or list(names)[:3]
    beside = f"; beside it: {', '.join(similar)}" if similar else ""
    if pathlib.Path(path + ".data-00000-of-00001").is_file():
        return f"{path}.index is missing, which belongs to the .data file{beside}"
    return f"no checkpoint there{beside}; {ACCEPTED}"
