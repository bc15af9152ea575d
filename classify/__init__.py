"""Image classification; its nets are the detector's backbones."""

import engine as engine  # sets TensorFlow's environment before anything here imports TensorFlow
