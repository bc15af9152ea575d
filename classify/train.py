"""Trains a classifier. Without any flag: the net of TensorFlow's CIFAR-10 tutorial, by its recipe, on CIFAR-10.

    python -m classify.train
    python -m classify.train --dataset_dir=RECORDS --train_dir=RUN --model_name=mobilenet_v2

Checkpoints and event logs go to train_dir, where a run that was interrupted goes on with the same command.
"""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from classify import dataset, input_pipeline, nets, preprocessing, summaries
from classify.classifier import make_classify
from classify.evaluation import predict_split
from classify.losses import count_examples, make_losses
from engine import cluster, devices, flags, optim, start, train_flags, training
from engine.flags import flag
from engine.progress import say
from engine.record_sets import refuse_other_names
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags
from engine.train_state import Saver
from engine.validation import Validation

_HALF_PRECISION_LOSS_SCALE = 1024.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TrainFlags):
    train_dir: str = flag("/tmp/cifar10_train", "folder of the checkpoints and event logs; a run in it is resumed")
    data_dir: str = flag("/tmp/cifar10_data", "folder of CIFAR-10, which is downloaded when it is not there")
    dataset_dir: str = flag("", "folder with TFRecord files (default: CIFAR-10 in --data_dir)")
    dataset_name: str = flag("", "cifar10, or the name of the data set in --dataset_dir (default: the only one there)")
    labels_offset: int = flag(0, "subtracted from every label in the records, which then start at 0")
    model_name: str = flag("cifar10", "the net", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes (default: as the data set says)", minimum=2)
    train_image_size: int | None = flag(None, "height and width of the net's input (default: the net's own)", minimum=8)
    recipe: str | None = flag(None, "augmentation (default: the net's own)", choices=tuple(preprocessing.RECIPES))
    preprocessing_name: str | None = flag(None, "another name of --recipe", choices=tuple(preprocessing.RECIPES))
    batch_size: int = flag(128, "pictures in a step, over all devices", minimum=1)
    max_number_of_steps: int = flag(100000, "stop after this many steps", minimum=1)
    max_steps: int | None = flag(None, "another name of --max_number_of_steps", minimum=1)
    eval_split_name: str = flag("validation", "split that evaluations during training are done on")
    log_frequency: int | None = flag(None, "another name of --log_every_n_steps", minimum=1)
    optimizer: str = flag("sgd", "optimizer", choices=tuple(optim.OPTIMIZERS))
    learning_rate: float | None = flag(None, "initial learning rate (default: the net's own, .1 for cifar10)", above=0)
    learning_rate_decay_type: str = flag("exponential", "how the learning rate falls", choices=optim.DECAY_TYPES)
    learning_rate_decay_factor: float | None = flag(0.1, "what it is multiplied by each time", above=0, maximum=1)
    num_epochs_per_decay: float = flag(
        350.0, "epochs between two falls, for exponential; of the whole fall, for polynomial", above=0
    )
    warmup_steps: int = flag(0, "steps over which the learning rate grows to its initial value", minimum=0)
    weight_decay: float | None = flag(
        None, "L2 penalty (default: the net's own, .004 on local3 and local4 of cifar10); not on biases", minimum=0
    )
    moving_average_decay: float | None = flag(
        0.9999, "keep moving averages of the weights with this decay; evaluation then uses them", above=0, maximum=1
    )
    label_smoothing: float = flag(0.0, "part of the class target spread over all classes", minimum=0, maximum=1)
    auxiliary_weight: float = flag(0.4, "weight of the loss of auxiliary logits, for nets that have them", minimum=0)
    use_fp16: bool = flag(False, "compute in half precision, where the device is made for it")
    log_device_placement: bool = flag(False, "tell the device of every operation")


def main(config: Config) -> None:
    config = _resolved(config)
    devices.prepare(
        seed=config.seed,
        gpu_memory_fraction=config.gpu_memory_fraction,
        log_device_placement=config.log_device_placement,
    )
    replicas = cluster.connect(config)
    compute_dtype = _compute_dtype(config)

    # Data
    split = _open_split(config, config.dataset_split_name)
    num_classes = split.num_classes(config.num_classes)
    say(f"{split.name} {split.split}: {len(split.examples)} pictures, {num_classes} classes; {devices.describe()}")
    if config.batch_size > len(split.examples):
        say(f"note: --batch_size={config.batch_size} is more than the data set: a picture can come twice in a batch")

    # Net and optimizer
    spec = nets.NETS[config.model_name]
    manifest = _manifest(config, split, num_classes)
    existing = start.resumable(config.train_dir, manifest, ("model_name", "num_classes", "class_names", "image_size"))
    with replicas.scope():
        net = nets.make_net(config.model_name, num_classes, config.train_image_size, compute_dtype)
    state = training.make_state(config, net, manifest, replicas, num_examples=len(split.examples))

    # Where to start from
    saver = Saver(state, config.train_dir, writes=replicas.is_chief)
    validation = _validation(config, net, manifest) if config.eval_every_steps else None
    if not start.begin(state, saver, existing, config, validation=validation):
        return

    # Train
    losses = make_losses(net, spec.normalise, label_smoothing=config.label_smoothing, auxiliary_weight=config.auxiliary_weight)
    batches = input_pipeline.training_batches(
        split.examples,
        image_size=config.train_image_size,
        batch_size=config.batch_size,
        num_classes=num_classes,
        recipe=config.recipe,
        seed=config.seed,
        start=int(state.examples),
        share=replicas.share,
        num_preprocessing_threads=config.num_preprocessing_threads,
    )
    training.run(
        config,
        state,
        saver,
        batches,
        losses,
        count_examples,
        replicas,
        partial(summaries.make_summarise, net, losses, state.trainable, config.model_name),
        xla_on_cpu=spec.xla_on_cpu,
        validation=validation,
        is_decayed=spec.is_decayed,
        loss_scale=1.0 if compute_dtype == tf.float32 else _HALF_PRECISION_LOSS_SCALE,
    )


def _validation(config: Config, net: SlimNet, manifest: dict[str, Any]) -> Validation:
    """The evaluation during training: precision @ 1 of the weights that the net holds."""
    split = _open_split(config, config.eval_split_name)
    refuse_other_names(f"{split.name} {split.split}", split.class_names, config.train_dir, manifest["class_names"])
    classify = make_classify(net, nets.NETS[config.model_name].normalise, config.train_image_size)

    def evaluate() -> dict[str, float | None]:
        predictions, labels = predict_split(
            classify,
            split,
            image_size=config.train_image_size,
            batch_size=config.batch_size,
            num_classes=manifest["num_classes"],
            recipe=config.recipe,
            num_preprocessing_threads=config.num_preprocessing_threads,
        )
        return {"precision_at_1": float(np.mean(predictions == labels))}

    return Validation(config, evaluate, "precision_at_1")


def _open_split(config: Config, split: str) -> dataset.Split:
    return dataset.open_split(
        data_dir=config.data_dir,
        dataset_dir=config.dataset_dir,
        dataset_name=config.dataset_name,
        split=split,
        labels_offset=config.labels_offset,
    )


def _compute_dtype(config: Config) -> tf.DType:
    half = devices.half_precision() if config.use_fp16 else None
    if config.use_fp16 and half is None:
        say(f"note: --use_fp16 is not used: {devices.describe()} is not made for half precision; it computes in float32")
    return half or tf.float32


def _resolved(config: Config) -> Config:
    """The options with their aliases settled and the net's own values where none is given."""
    train_flags.check(config)
    spec = nets.NETS[config.model_name]
    return dataclasses.replace(
        config,
        recipe=flags.one_of(config, "recipe", "preprocessing_name") or spec.recipe,
        max_number_of_steps=config.max_steps or config.max_number_of_steps,
        log_every_n_steps=config.log_frequency or config.log_every_n_steps,
        train_image_size=config.train_image_size or spec.image_size,
        learning_rate=config.learning_rate or spec.learning_rate,
        weight_decay=spec.weight_decay if config.weight_decay is None else config.weight_decay,
    )


def _manifest(config: Config, split: dataset.Split, num_classes: int) -> dict[str, Any]:
    """What a checkpoint says about itself, so that evaluation and prediction need no flags."""
    return {
        "model_name": config.model_name,
        "scope": nets.NETS[config.model_name].scope,
        "num_classes": num_classes,
        "class_names": list(split.names(num_classes)),
        "image_size": config.train_image_size,
        "recipe": config.recipe,
        "labels_offset": config.labels_offset,
        "optimizer": config.optimizer,
        "trainable_scopes": list(config.trainable_scopes),
    }


if __name__ == "__main__":
    flags.run(Config, main)
