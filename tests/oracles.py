"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""

import math

import numpy as np

# --- SSD: boxes, encoding, loss, detection. Scalars in double precision, boxes (ymin, xmin, ymax, xmax). ---


def iou(box, other):
    height = min(box[2], other[2]) - max(box[0], other[0])
    width = min(box[3], other[3]) - max(box[1], other[1])
    if height <= 0 or width <= 0:
        return 0.0
    intersection = height * width
    union = (box[2] - box[0]) * (box[3] - box[1]) + (other[2] - other[0]) * (other[3] - other[1]) - intersection
    return intersection / union


def corners(anchor):
    cy, cx, h, w = anchor
    return [cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2]


def encode(boxes, labels, anchors, matching, match_threshold):
    """Labels [A], offsets [A, 4] and highest IoUs [A]: the matching rules word by word, over all pairs."""
    boxes, anchors = boxes.astype(float).tolist(), anchors.astype(float).tolist()
    objects = [n for n, box in enumerate(boxes) if labels[n] > 0 and box[2] > box[0] and box[3] > box[1]]
    overlap = [[iou(corners(anchor), boxes[n]) for n in objects] for anchor in anchors]
    object_of = bipartite_match(overlap, len(objects)) if matching == "bipartite" else {}
    target_labels, offsets, ious = np.zeros(len(anchors), np.int64), np.zeros((len(anchors), 4)), np.zeros(len(anchors))
    for a, anchor in enumerate(anchors):
        best, best_iou = None, 0.0
        for n, value in enumerate(overlap[a]):
            if value > best_iou:
                best, best_iou = n, value
        ious[a] = best_iou
        reaches = best_iou >= match_threshold if matching == "bipartite" else best_iou > match_threshold
        if a not in object_of and best is not None and reaches:
            object_of[a] = best
        if a in object_of:
            target_labels[a] = labels[objects[object_of[a]]]
            offsets[a] = encode_one(boxes[objects[object_of[a]]], anchor)
    return target_labels, offsets, ious


def bipartite_match(overlap, num_objects):
    """{anchor: object}: the best free pair above 1e-6, again and again; scanned anchor by anchor, strictly greater wins."""
    object_of = {}
    while True:
        best_pair, best_iou = None, 1e-6
        for a in range(len(overlap)):
            for n in range(num_objects):
                if a not in object_of and n not in object_of.values() and overlap[a][n] > best_iou:
                    best_pair, best_iou = (a, n), overlap[a][n]
        if best_pair is None:
            return object_of
        object_of[best_pair[0]] = best_pair[1]


def encode_one(box, anchor):
    ymin, xmin, ymax, xmax = box
    cy, cx, h, w = anchor
    return [
        ((xmin + xmax) / 2 - cx) / w / 0.1,
        ((ymin + ymax) / 2 - cy) / h / 0.1,
        math.log((xmax - xmin) / w) / 0.2,
        math.log((ymax - ymin) / h) / 0.2,
    ]


def decode_one(offset, anchor):
    dx, dy, dw, dh = offset
    cy, cx, h, w = anchor
    return corners([cy + 0.1 * dy * h, cx + 0.1 * dx * w, h * math.exp(0.2 * dh), w * math.exp(0.2 * dw)])


def softmax(logits):
    highest = max(logits)
    exponentials = [math.exp(logit - highest) for logit in logits]
    total = sum(exponentials)
    return [value / total for value in exponentials]


def multibox_loss(
    class_logits,
    box_offsets,
    target_labels,
    target_offsets,
    target_ious,
    *,
    mining,
    normalizer,
    negative_ratio=3.0,
    min_negatives_per_image=0,
    loss_alpha=1.0,
    label_smoothing=0.0,
):
    """The three terms as a dict of floats; the arrays are [B, A, ...] as for the real thing."""
    class_logits, box_offsets = class_logits.astype(float), box_offsets.astype(float)
    num_images, num_anchors, num_classes = class_logits.shape
    positives = [(b, a) for b in range(num_images) for a in range(num_anchors) if target_labels[b, a] > 0]
    background = {
        (b, a): -math.log(softmax(class_logits[b, a].tolist())[0]) for b in range(num_images) for a in range(num_anchors)
    }

    def hardest(places, count):
        return sorted(places, key=lambda place: (-background[place], place))[:count]

    if mining == "batch":
        others = [place for place in background if target_labels[place] == 0]
        negatives = hardest(others, int(negative_ratio * len(positives)) + num_images)
    else:
        negatives = []
        for b in range(num_images):
            own = [place for place in positives if place[0] == b]
            far = [(b, a) for a in range(num_anchors) if target_labels[b, a] == 0 and target_ious[b, a] < 0.5]
            negatives += hardest(far, max(int(negative_ratio * len(own)), min_negatives_per_image))

    def class_loss(place):
        total = 0.0
        for c, probability in enumerate(softmax(class_logits[place].tolist())):
            target = (1 - label_smoothing) * (c == target_labels[place]) + label_smoothing / num_classes
            total -= target * math.log(probability)
        return total

    def box_loss(place):
        total = 0.0
        for predicted, target in zip(box_offsets[place], target_offsets[place], strict=True):
            d = abs(predicted - target)
            total += d * d / 2 if d < 1 else d - 0.5
        return total

    def normalized(losses):
        return sum(losses) / (max(1, len(positives)) if normalizer == "positives" else len(losses) + 0.1)

    return {
        "positive_loss": normalized([class_loss(place) for place in positives]),
        "negative_loss": normalized([class_loss(place) for place in negatives]),
        "box_loss": loss_alpha * normalized([box_loss(place) for place in positives]),
    }


def detect(class_logits, box_offsets, anchors, *, score_threshold, nms_threshold, top_k, keep_top_k):
    """One image, [A, C] and [A, 4]: a list of (score, label, clipped box), best first."""
    boxes = [decode_one(*pair) for pair in zip(box_offsets.astype(float).tolist(), anchors.astype(float).tolist(), strict=True)]
    scores = [softmax(row) for row in class_logits.astype(float).tolist()]
    found = []
    for label in range(1, class_logits.shape[1]):
        candidates = [a for a in range(len(boxes)) if scores[a][label] > score_threshold]
        candidates = sorted(candidates, key=lambda a: (-scores[a][label], a))[:top_k]
        kept = []
        for a in candidates:
            if all(iou(boxes[a], boxes[other]) <= nms_threshold for other in kept):
                kept.append(a)
        found += [(scores[a][label], label, boxes[a]) for a in kept]
    found.sort(key=lambda detection: -detection[0])
    return [(score, label, [min(max(side, 0.0), 1.0) for side in box]) for score, label, box in found[:keep_top_k]]
