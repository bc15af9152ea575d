"""Pictures in class folders: which there are, which belong to a split, and the records made of them."""
