"""The CIFAR-10 tutorial's net, slow and literal."""

import numpy as np


def cifar10_logits(image, weights):
    """image [24, 24, 3] in 0-255, weights by name -> logits [C], one picture, loop by loop."""
    x = np.asarray(image, np.float64)
    x = (x - x.mean()) / max(x.std(), 1 / np.sqrt(x.size))
    x = np.maximum(_convolve_same(x, weights["conv1/weights"]) + weights["conv1/biases"], 0)
    x = _local_response(_max_pool_same(x))
    x = np.maximum(_convolve_same(x, weights["conv2/weights"]) + weights["conv2/biases"], 0)
    x = _max_pool_same(_local_response(x)).reshape(-1)
    for scope in ("local3", "local4"):
        x = np.maximum(x @ weights[f"{scope}/weights"] + weights[f"{scope}/biases"], 0)
    return x @ weights["softmax_linear/weights"] + weights["softmax_linear/biases"]


def _convolve_same(x, kernel):
    """Odd square kernel, stride 1, zero padding that keeps the size."""
    half = kernel.shape[0] // 2
    padded = np.pad(x, [(half, half), (half, half), (0, 0)])
    out = np.zeros((*x.shape[:2], kernel.shape[3]))
    for dy in range(kernel.shape[0]):
        for dx in range(kernel.shape[1]):
            out += padded[dy : dy + x.shape[0], dx : dx + x.shape[1]] @ kernel[dy, dx]
    return out


def _max_pool_same(x):
    """3x3, stride 2, on an even size: the window of output i covers rows 2i to 2i + 2."""
    height, width, depth = x.shape
    out = np.zeros((height // 2, width // 2, depth))
    for row in range(height // 2):
        for column in range(width // 2):
            out[row, column] = x[2 * row : 2 * row + 3, 2 * column : 2 * column + 3].max(axis=(0, 1))
    return out


def _local_response(x):
    """x / (1 + .001 / 9 * sum of squares over the 9 channels around)^.75."""
    out = np.zeros_like(x)
    for channel in range(x.shape[2]):
        around = x[:, :, max(0, channel - 4) : channel + 5]
        out[:, :, channel] = x[:, :, channel] / (1 + 0.001 / 9 * (around**2).sum(axis=2)) ** 0.75
    return out
