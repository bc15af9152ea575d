"""What a net says of every picture of a split, beside what is true."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from classify import input_pipeline
from classify.dataset import Split
from engine import pipelines
from engine.progress import progress


def predict_split(
    classify: Callable[[tf.Tensor], tf.Tensor],
    split: Split,
    *,
    image_size: int,
    batch_size: int,
    num_classes: int,
    recipe: str,
    num_examples: int | None = None,
    num_preprocessing_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """predictions [N] and labels [N] of the first `num_examples` examples (default: all), in order.

    Args:
        classify: images [B, S, S, 3] uint8 RGB -> probabilities [B, C].
    """
    batches = input_pipeline.evaluation_batches(
        split.examples,
        image_size=image_size,
        batch_size=batch_size,
        num_classes=num_classes,
        recipe=recipe,
        num_examples=num_examples,
        num_preprocessing_threads=num_preprocessing_threads,
    )
    predictions, labels = [], []
    with progress(None, "evaluating", total=num_examples or len(split.examples), unit="picture") as bar:
        for batch in pipelines.iterate(batches):
            real = batch["example"].numpy() >= 0
            probabilities = classify(batch["image"]).numpy()
            predictions.append(probabilities.argmax(axis=1)[real])
            labels.append(batch["label"].numpy()[real])
            bar.update(int(real.sum()))
    return np.concatenate(predictions), np.concatenate(labels)
