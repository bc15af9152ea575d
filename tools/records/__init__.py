"""What all converters to TFRecords share: notes and their counts, class lists, the manifest, files put in place together."""
