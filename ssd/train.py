"""Trains an SSD on the records of a data set.

    python -m ssd.train --dataset_dir=DATA --train_dir=RUN --model_name=ssd_300_vgg --batch_size=8

Checkpoints and event logs go to train_dir, where a run that was interrupted goes on with the same command.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from engine import cluster, devices, flags, start, train_flags, training
from engine.checkpoints import StoredWeights
from engine.distribution import Replicas
from engine.errors import UserError
from engine.flags import flag
from engine.loop import Batch
from engine.progress import say
from engine.record_sets import refuse_other_names
from engine.slim_net import SlimNet
from engine.train_flags import TrainFlags
from engine.train_state import Saver
from engine.validation import Validation
from engine.warm_start import source_scope
from ssd import anchor_sets, coverage, dataset, encoding, fine_tuning, input_pipeline, nets, preprocessing, report, summaries
from ssd.anchor_sets import AnchorSet
from ssd.anchors import make_anchors
from ssd.detector import Detector
from ssd.evaluation import THRESHOLDS, detect_split
from ssd.losses import MININGS, NORMALIZERS, count_anchors, multibox_loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TrainFlags):
    model_name: str = flag("ssd_300_vgg", "the net", choices=tuple(nets.NETS))
    num_classes: int | None = flag(None, "classes, background included (default: as the data set says)", minimum=2)
    train_image_size: int | None = flag(None, "height and width of the net's input (default, and only choice: the net's own)")
    anchor_set: str | None = flag(
        None, "anchors: voc, coco or a file of tools/fit_anchors.py (default: as the checkpoint to start from says, else voc)"
    )
    recipe: str | None = flag(None, "augmentation (default: paper)", choices=tuple(preprocessing.RECIPES))
    preprocessing_name: str | None = flag(None, "another name of --recipe", choices=tuple(preprocessing.RECIPES))
    matching: str = flag(
        "bipartite", "which anchors an object gets: the paper's rule or the seed's", choices=tuple(encoding.MATCHERS)
    )
    match_threshold: float = flag(0.5, "IoU from which on (seed: above which) an anchor is positive", minimum=0, maximum=1)
    mining: str = flag("image", "hard negatives are chosen per image (paper) or over the batch (seed)", choices=MININGS)
    normalizer: str = flag(
        "positives",
        "losses are divided by the number of positives (paper) or each by its own count (seed)",
        choices=NORMALIZERS,
    )
    negative_ratio: float = flag(3.0, "hard negatives per positive", minimum=0)
    min_negatives_per_image: int = flag(3, "hard negatives of an image with few or no positives (paper: 0)", minimum=0)
    loss_alpha: float = flag(1.0, "weight of the box loss", minimum=0)
    label_smoothing: float = flag(0.0, "part of the class target spread over all classes", minimum=0, maximum=1)


def main(config: Config) -> None:
    config = _resolved(config)
    devices.prepare(seed=config.seed, gpu_memory_fraction=config.gpu_memory_fraction)
    replicas = cluster.connect(config)

    # Data
    split = dataset.open_split(config.dataset_dir, config.dataset_name, config.dataset_split_name)
    num_classes = split.num_classes(config.num_classes)
    say(f"{split.name} {split.split}: {len(split.records)} pictures, {num_classes - 1} classes; {devices.describe()}")
    if config.batch_size > len(split.records):
        say(f"note: --batch_size={config.batch_size} is more than the data set: a picture can come twice in a batch")

    # Net and optimizer
    manifest = _manifest(config, split, num_classes)
    existing = start.resumable(config.train_dir, manifest, ("model_name", "num_classes", "class_names"))
    stored = existing or start.source(config)
    anchor_set = anchor_sets.of_run(config.model_name, config.anchor_set, stored, is_resumed=existing is not None)
    manifest |= anchor_sets.to_manifest(anchor_set, config.model_name)
    if existing:
        start.refuse_other_run(config.train_dir, existing, manifest, (anchor_sets.NAME,))
    anchors = make_anchors(anchor_set.spec)
    _tell_coverage(config, split, num_classes, anchor_set)
    manifest["means"] = means = _means(config, stored)
    with replicas.scope():
        net = nets.make_net(config.model_name, num_classes)
    state = training.make_state(config, net, manifest, replicas, num_examples=len(split.records))

    # Where to start from
    saver = Saver(state, config.train_dir, writes=replicas.is_chief)
    validation = _validation(config, net, anchors, manifest) if config.eval_every_steps else None
    take_over = fine_tuning.take_over_rule(config.model_name, manifest["class_names"])
    if not start.begin(state, saver, existing, config, take_over=take_over, validation=validation):
        return

    # Train
    losses = _make_losses(config, net, means)
    batches = _training_batches(config, split, anchors, num_classes, int(state.examples), replicas)
    training.run(
        config,
        state,
        saver,
        batches,
        losses,
        _make_count(config),
        replicas,
        partial(summaries.make_summarise, net, losses, state.trainable, anchors, means, split.names(num_classes)),
        xla_on_cpu=nets.NETS[config.model_name].xla_on_cpu,
        validation=validation,
    )


def _tell_coverage(config: Config, split: dataset.Split, num_classes: int, anchor_set: AnchorSet) -> None:
    """Says how the anchors fit the objects, as they are before augmentation, and what to do where they do not."""
    numbers = coverage.sample_pictures(len(split.records))
    objects = split.objects(numbers, num_classes=num_classes, labels_offset=config.labels_offset)
    found = coverage.measure(anchor_set.spec, objects.boxes, objects.pictures, config.match_threshold)
    every_object = config.matching == "bipartite"
    counts = {"measured": len(numbers), "num_pictures": len(split.records)}
    say(coverage.describe(found, anchor_set.name, threshold=config.match_threshold, every_object=every_object, **counts))
    if found.is_poor():
        say(
            f"warning: more than {100 * coverage.TOO_MANY:g} % of the objects have no such anchor: fit anchors to them"
            " (tools/fit_anchors.py, --anchor_set), or take a net with a larger input"
        )


def _means(config: Config, stored: StoredWeights | None) -> tuple[float, ...]:
    """The means to subtract: those of the checkpoint that the run starts from."""
    scope = source_scope(config.model_name, stored, config.checkpoint_model_scope) if stored else ""
    return fine_tuning.means_of(config.model_name, stored, scope)


def _make_losses(config: Config, net: SlimNet, means: Sequence[float]) -> Callable[..., dict[str, tf.Tensor]]:
    """The function from a batch to the terms of its loss."""

    def losses(batch: Batch, *, is_training: bool = True, counts: dict[str, tf.Tensor] | None = None) -> dict[str, tf.Tensor]:
        class_logits, box_offsets = net(nets.normalise(batch["image"], means), is_training=is_training)
        return multibox_loss(
            class_logits,
            box_offsets,
            batch["target_labels"],
            batch["target_offsets"],
            batch["target_ious"],
            mining=config.mining,
            normalizer=config.normalizer,
            negative_ratio=config.negative_ratio,
            min_negatives_per_image=config.min_negatives_per_image,
            loss_alpha=config.loss_alpha,
            label_smoothing=config.label_smoothing,
            counts=counts,
        )

    return losses


def _make_count(config: Config) -> Callable[[Batch], dict[str, tf.Tensor]]:
    """The function from a part of a batch to what the terms of its loss are divided by."""

    def count(batch: Batch) -> dict[str, tf.Tensor]:
        return count_anchors(
            batch["target_labels"],
            batch["target_ious"],
            negative_ratio=config.negative_ratio,
            min_negatives_per_image=config.min_negatives_per_image,
        )

    return count


def _validation(config: Config, net: SlimNet, anchors: np.ndarray, manifest: dict[str, Any]) -> Validation:
    """The evaluation during training: mean average precisions of the weights that the net holds."""
    split = dataset.open_split(config.dataset_dir, config.dataset_name, config.eval_split_name)
    class_names = manifest["class_names"]
    refuse_other_names(f"{split.name} {split.split}", split.class_names, config.train_dir, class_names)
    size = nets.NETS[config.model_name].image_size
    detector = Detector(net, image_size=size, class_names=class_names, anchors=anchors, means=manifest["means"], **THRESHOLDS)

    def evaluate() -> dict[str, float | None]:
        results = detect_split(
            detector,
            split,
            batch_size=config.batch_size,
            labels_offset=config.labels_offset,
            num_preprocessing_threads=config.num_preprocessing_threads,
        )
        means = report.compute_metrics(results, class_names)["mAP"]
        return {f"mAP/{kind}": value for kind, value in means.items()}

    return Validation(config, evaluate, "mAP/voc2012")


def _training_batches(
    config: Config, split: dataset.Split, anchors: np.ndarray, num_classes: int, position: int, replicas: Replicas
) -> tf.data.Dataset:
    return input_pipeline.training_batches(
        split.records,
        anchors,
        image_size=nets.NETS[config.model_name].image_size,
        batch_size=config.batch_size,
        num_classes=num_classes,
        recipe=config.recipe,
        matching=config.matching,
        match_threshold=config.match_threshold,
        seed=config.seed,
        start=position,
        share=replicas.share,
        labels_offset=config.labels_offset,
        num_readers=config.num_readers,
        num_preprocessing_threads=config.num_preprocessing_threads,
    )


def _resolved(config: Config) -> Config:
    """The options with their aliases settled."""
    size = nets.NETS[config.model_name].image_size
    if config.train_image_size not in (None, size):
        raise UserError(f"--train_image_size={config.train_image_size}: {config.model_name} takes pictures of {size} only")
    train_flags.check(config)
    if config.mining == "batch" and (replicas := cluster.count_replicas(config)) > 1:
        raise UserError(f"--mining=batch compares all anchors of a batch: not with {replicas} replicas; --mining=image does")
    return dataclasses.replace(config, recipe=flags.one_of(config, "recipe", "preprocessing_name") or "paper")


def _manifest(config: Config, split: dataset.Split, num_classes: int) -> dict[str, Any]:
    """What a checkpoint says about itself, so that evaluation and detection need no flags."""
    return {
        "model_name": config.model_name,
        "scope": config.model_name,
        "num_classes": num_classes,
        "class_names": list(split.names(num_classes)),
        "optimizer": config.optimizer,
        "trainable_scopes": list(config.trainable_scopes),
    }


if __name__ == "__main__":
    flags.run(Config, main)
