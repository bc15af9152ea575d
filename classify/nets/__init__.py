"""Net definitions of the classifiers; `ssd.nets` builds on them."""
