"""Which picture is for training and which for validation, and in which order: decided by hashes, never by a state.

The same names and seed give the same splits on every machine; another picture in a folder moves a few others at most
from one split to the other.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tools.class_folders.layout import SPLITS, Picture

TRAIN, VALIDATION = "train", "validation"


def assign(pictures: Iterable[Picture], has_splits: bool, validation_fraction: float, seed: int) -> dict[str, list[Picture]]:
    """Split -> its pictures, shuffled. Without splits of their own they are divided into train and validation.

    With a `validation_fraction` of 0 there is no split validation.
    """
    pictures = list(pictures)
    if has_splits:
        splits = [split for split in SPLITS if any(picture.split == split for picture in pictures)]
    else:
        splits = [TRAIN, VALIDATION] if validation_fraction else [TRAIN]
        chosen = _choose(pictures, validation_fraction, seed)
        pictures = [picture._replace(split=VALIDATION if picture.name in chosen else TRAIN) for picture in pictures]
    pictures.sort(key=lambda picture: hash_key("order", seed, picture.name))
    return {split: [picture for picture in pictures if picture.split == split] for split in splits}


def _choose(pictures: Iterable[Picture], fraction: float, seed: int) -> set[str]:
    """Names of the pictures for validation: of each class those with the smallest hashes."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for picture in pictures:
        by_class[picture.class_name].append(picture.name)
    shares = divide({name: len(paths) for name, paths in by_class.items()}, fraction, seed)
    return {
        path
        for name, paths in by_class.items()
        for path in sorted(paths, key=lambda path: hash_key("split", seed, path))[: shares[name]]
    }


def divide(sizes: Mapping[str, int], fraction: float, seed: int) -> dict[str, int]:
    """How many of each class's pictures make up `fraction` of all: rounded down, what is missing given by largest remainder.

    Each class is within one of its exact share, so small classes too have their part together. At least one picture of all
    is chosen (of a fraction above 0), but never the last one of a class. Hashes decide between equal remainders.
    """
    shares = {name: int(fraction * size) for name, size in sizes.items()}
    total = int(fraction * sum(sizes.values()) + 0.5) or (1 if fraction else 0)
    candidates = [name for name, size in sizes.items() if shares[name] + 1 < size]
    candidates.sort(key=lambda name: (shares[name] - fraction * sizes[name], hash_key("class", seed, name)))
    for name in candidates[: max(0, total - sum(shares.values()))]:
        shares[name] += 1
    return shares


def hash_key(purpose: str, seed: int, name: str) -> bytes:
    """8 bytes that sort names at random, for each purpose and seed in another way."""
    text = unicodedata.normalize("NFC", name).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=8, person=purpose.encode(), key=str(seed).encode()).digest()
