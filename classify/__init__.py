"""Image classification on the same engine: the CIFAR-10 baseline, and the nets that the detectors stand on."""

import engine as engine  # sets TensorFlow's environment before anything here imports TensorFlow
