"""Shared core: tensors, files and devices; never a box or a class.

Importing any package of the project imports this one first, so TensorFlow's environment is set here,
before TensorFlow itself is loaded. A value that the user has set wins.
"""

import os

# On CPUs without AVX-512 TensorFlow leaves oneDNN off, although it is the faster choice there as well.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Only errors: the start-up notes of TensorFlow's C++ side bury our own messages.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
