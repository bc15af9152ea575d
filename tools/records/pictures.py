"""The part of a record that tells of its picture."""

from engine.examples import bytes_feature, int64_feature
from engine.stored_images import StoredImage
from tools.records.notes import Note


def picture_features(filename: str, image: StoredImage) -> dict[str, list[bytes]]:
    """Features of a `tf.train.Example`. Channels are always 3: every decoder of the project makes a grey picture three."""
    return {
        "image/encoded": bytes_feature([image.encoded]),
        "image/format": bytes_feature([image.format.encode()]),
        # A name that is no valid text on this system still gives valid UTF-8.
        "image/filename": bytes_feature([filename.encode("utf-8", "replace")]),
        "image/height": int64_feature([image.height]),
        "image/width": int64_feature([image.width]),
        "image/channels": int64_feature([3]),
    }


def storage_notes(filename: str, image: StoredImage) -> list[Note]:
    """Why the bytes in the record are not the file's, if they are not."""
    if image.is_original:
        return []
    if image.orientation != 1:
        return [Note("repaired", f"stored upright (EXIF orientation {image.orientation})", filename)]
    return [Note("repaired", f"stored anew as {image.format} with 8 bits and 3 channels (was {image.source})", filename)]
