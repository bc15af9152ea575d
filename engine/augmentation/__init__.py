"""What recipes of augmentation are made of: samples, ops, random numbers keyed by example, and colour."""
