"""Pascal-VOC data sets: their folders, annotations, boxes and class names, and the records made of them."""
