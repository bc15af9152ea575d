"""Seeds, devices and their memory: called once at the start of a command, before anything is built."""

import os
import subprocess
import sys

import tensorflow as tf

from engine.errors import UserError

# The first one with tensor cores.
_HALF_PRECISION_FROM = (7, 0)


def prepare(*, seed: int, gpu_memory_fraction: float | None = None, log_device_placement: bool = False) -> None:
    """Seeds TensorFlow and bounds the memory that it takes on each GPU.

    With `gpu_memory_fraction` in (0, 1] a GPU's memory is capped at that part; without it TensorFlow
    takes what it needs, as it needs it, instead of everything at once.
    """
    tf.random.set_seed(seed)
    if log_device_placement:
        tf.debugging.set_log_device_placement(True)
        # TensorFlow prints the placements on stdout, which is for results.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    gpus = tf.config.list_physical_devices("GPU")
    if gpu_memory_fraction is None:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return
    for gpu, total in zip(gpus, _gpu_megabytes() if gpus else [], strict=False):
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=int(total * gpu_memory_fraction))
        tf.config.set_logical_device_configuration(gpu, [limit])


def describe() -> str:
    """The device that TensorFlow will compute on, for the first line of a log."""
    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else "CPU"


def half_precision() -> tf.DType | None:
    """The half-precision type that every visible GPU is made for; None where there is a GPU without, or no GPU."""
    gpus = tf.config.list_physical_devices("GPU")
    capable = [tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0)) for gpu in gpus]
    return tf.float16 if gpus and min(capable) >= _HALF_PRECISION_FROM else None


def use_xla(asked: str, *, faster_on_cpu: bool) -> bool:
    """Whether the train step becomes one XLA program: "on", "off", or for "auto" what is faster on the device."""
    if asked != "auto":
        return asked == "on"
    return bool(tf.config.list_logical_devices("GPU")) or faster_on_cpu


def _gpu_megabytes() -> list[int]:
    """Total memory of each visible GPU; TensorFlow itself has no public way to ask for it."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={visible}")
    try:
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"--gpu_memory_fraction: nvidia-smi must tell the GPUs' memory, and failed ({error})") from None
    return [int(megabytes) for megabytes in listing]
