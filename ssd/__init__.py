"""Single Shot MultiBox Detector (Liu et al. 2016, arXiv:1512.02325)."""

import engine as engine  # sets TensorFlow's environment before anything here imports TensorFlow
