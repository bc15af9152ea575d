"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""

from fractions import Fraction

# --- average precision -------------------------------------------------------------------------------------------


def voc_pixel_iou(a, b):
    """IoU of two pixel boxes (ymin, xmin, ymax, xmax); the last row and column belong to the box."""
    height = min(a[2], b[2]) - max(a[0], b[0]) + 1
    width = min(a[3], b[3]) - max(a[1], b[1]) + 1
    if height <= 0 or width <= 0:
        return 0.0
    common = height * width
    area_a = (a[2] - a[0] + 1) * (a[3] - a[1] + 1)
    area_b = (b[2] - b[0] + 1) * (b[3] - b[1] + 1)
    return common / (area_a + area_b - common)


def voc_precision_recall(detections, ground_truths):
    """Walks down the ranking; returns (precision, recall) as fractions after each rank, or None without an object."""
    positives = sum(not difficult for objects in ground_truths.values() for _, difficult in objects)
    if positives == 0:
        return None
    taken, right, wrong, points = set(), 0, 0, []
    for image, _, box in sorted(detections, key=lambda detection: -detection[1]):
        best_iou, best = 0.0, None
        for number, (object_box, _) in enumerate(ground_truths.get(image, [])):
            iou = voc_pixel_iou(box, object_box)
            if iou > best_iou:
                best_iou, best = iou, number
        if best is not None and best_iou >= 0.5:
            if ground_truths[image][best][1]:
                continue
            if (image, best) not in taken:
                taken.add((image, best))
                right += 1
            else:
                wrong += 1
        else:
            wrong += 1
        points.append((Fraction(right, right + wrong), Fraction(right, positives)))
    return points


def voc_average_precision(detections, ground_truths, *, eleven_point):
    """One class: detections [(image, score, box)], ground truths {image: [(box, difficult)]}; NaN without an object."""
    points = voc_precision_recall(detections, ground_truths)
    if points is None:
        return float("nan")
    if eleven_point:
        levels = [Fraction(k, 10) for k in range(11)]
        return float(sum(max([p for p, r in points if r >= level], default=Fraction(0)) for level in levels) / 11)
    precision = [Fraction(0), *(p for p, _ in points), Fraction(0)]
    recall = [Fraction(0), *(r for _, r in points), Fraction(1)]
    for i in reversed(range(len(precision) - 1)):
        precision[i] = max(precision[i], precision[i + 1])
    return float(sum((recall[i] - recall[i - 1]) * precision[i] for i in range(1, len(recall))))
