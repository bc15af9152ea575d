"""Command-line tools around the data: convert it, make samples of it, measure with it."""

import engine as engine  # sets TensorFlow's environment before anything here imports TensorFlow
