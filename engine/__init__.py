"""Shared core: tensors, files and devices; never a box or a class.

Importing any package of the project imports this one first, so TensorFlow's environment is set here,
before TensorFlow itself is loaded. A value that the user has set wins.
"""

import os

from engine import quiet

# On CPUs without AVX-512 TensorFlow leaves oneDNN off, although it is the faster choice there as well.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Of the C++ side's messages only fatal ones: "no GPU found" and the like would bury our own.
if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
    quiet.silence_import("tensorflow")
