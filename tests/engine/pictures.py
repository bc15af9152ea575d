"""Encoded pictures for tests, made with Pillow, which shares no code with the decoder under test."""

import io

import numpy as np
import PIL.Image


def scene(height=80, width=120, seed=0):
    """A smooth colour picture [H, W, 3] uint8, so that a lossy format keeps it within a few grey levels."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), np.uint8)
    return np.asarray(PIL.Image.fromarray(coarse).resize((width, height), PIL.Image.Resampling.BICUBIC))


def encode(image, form, **options):
    """`image` (array or Pillow picture) in one of Pillow's formats."""
    picture = image if isinstance(image, PIL.Image.Image) else PIL.Image.fromarray(image)
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def pillow(data):
    """What Pillow sees in `data`: [H, W, 3] uint8, not turned."""
    return np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB"))


def with_orientation(image, value, form="JPEG", **options):
    exif = PIL.Image.Exif()
    exif[0x0112] = value
    return encode(image, form, exif=exif, **options)
