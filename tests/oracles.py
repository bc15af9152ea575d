"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""

import math
from fractions import Fraction

import cv2
import numpy as np

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


# --- Augmentation -------------------------------------------------------------------------------------------------


def hsv_of_pixel(rgb):
    """OpenCV's uint8 HSV of one pixel: hue in steps of two degrees, saturation and value 0-255, each rounded."""
    red, green, blue = (int(level) for level in rgb)
    value, spread = max(red, green, blue), max(red, green, blue) - min(red, green, blue)
    saturation = 0 if value == 0 else round(255 * spread / value)
    if spread == 0:
        hue = 0.0
    elif value == red:
        hue = 60 * (green - blue) / spread
    elif value == green:
        hue = 120 + 60 * (blue - red) / spread
    else:
        hue = 240 + 60 * (red - green) / spread
    return round(hue % 360 / 2) % 180, saturation, value


def rgb_of_pixel(hsv):
    """The textbook's way back: the RGB levels, not rounded, of a pixel in OpenCV's uint8 HSV."""
    hue, saturation, value = hsv[0] * 2 / 60, hsv[1] / 255, hsv[2]
    levels = []
    for shift in (5, 3, 1):
        k = (shift + hue) % 6
        levels.append(value - value * saturation * max(0, min(k, 4 - k, 1)))
    return levels


def saturated(value):
    """The nearest level of uint8."""
    return min(255, max(0, round(value)))


def photometric_pixel(rgb, kind, amount):
    """One colour step of SSD's augmentation on one RGB pixel: levels in 0-255, not yet rounded after HSV."""
    if kind == "brightness":
        return [saturated(int(level) + amount) for level in rgb]
    if kind == "contrast":
        return [saturated(int(level) * amount) for level in rgb]
    hue, saturation, value = hsv_of_pixel(rgb)
    if kind == "saturation":
        return rgb_of_pixel((hue, saturated(saturation * amount), value))
    return rgb_of_pixel((saturated(hue + amount), saturation, value))


def zoomed_crop(image, window, size, interpolation, canvas_colour):
    """Paste the image on a canvas large enough for both, cut the window (ymin, xmin, ymax, xmax) out, resize it."""
    height, width = image.shape[:2]
    ymin, xmin, ymax, xmax = window
    top, left = max(0, -ymin), max(0, -xmin)
    canvas = np.empty((max(height, ymax) + top, max(width, xmax) + left, 3), np.uint8)
    canvas[:] = canvas_colour
    canvas[top : top + height, left : left + width] = image
    patch = np.ascontiguousarray(canvas[ymin + top : ymax + top, xmin + left : xmax + left])
    return cv2.resize(patch, (size, size), interpolation=interpolation)


def overlap_of(first, second):
    """Area that two boxes (ymin, xmin, ymax, xmax) share."""
    height = min(first[2], second[2]) - max(first[0], second[0])
    width = min(first[3], second[3]) - max(first[1], second[1])
    return max(0, height) * max(0, width)


def area_of(box):
    """Area of a box (ymin, xmin, ymax, xmax)."""
    return (box[2] - box[0]) * (box[3] - box[1])


def patch_is_good(patch, boxes, low, high):
    """The batch samplers' rule: any object has an IoU within the bounds."""
    for box in boxes:
        shared = overlap_of(patch, box)
        if low <= shared / (area_of(patch) + area_of(box) - shared) <= high:
            return True
    return False


def objects_by_centre(boxes, patch):
    """[(index, clipped box in patches)] of the boxes whose centre lies in the patch or on its border."""
    found = []
    height, width = patch[2] - patch[0], patch[3] - patch[1]
    for index, (ymin, xmin, ymax, xmax) in enumerate(boxes):
        y, x = (ymin + ymax) / 2, (xmin + xmax) / 2
        if not (patch[0] <= y <= patch[2] and patch[1] <= x <= patch[3]):
            continue
        clipped = (max(ymin, patch[0]), max(xmin, patch[1]), min(ymax, patch[2]), min(xmax, patch[3]))
        if area_of(clipped) > 0:
            top, left, bottom, right = clipped
            y_scaled = ((top - patch[0]) / height, (bottom - patch[0]) / height)
            x_scaled = ((left - patch[1]) / width, (right - patch[1]) / width)
            found.append((index, (y_scaled[0], x_scaled[0], y_scaled[1], x_scaled[1])))
    return found


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


# --- Anchors and the objects of a data set. Scalars in double precision. ---


def coverage(boxes, anchors, threshold):
    """One picture: the highest IoU of each box, and how many anchors have `threshold` or more with one of them."""
    boxes, anchors = boxes.astype(float).tolist(), anchors.astype(float).tolist()
    best = [max(iou(box, corners(anchor)) for anchor in anchors) for box in boxes]
    near = sum(any(iou(box, corners(anchor)) >= threshold for box in boxes) for anchor in anchors)
    return best, near


def shape_iou(size, shape):
    common = min(size[0], shape[0]) * min(size[1], shape[1])
    return common / (size[0] * size[1] + shape[0] * shape[1] - common)


def shape_k_means(sizes, shapes):
    """YOLO9000's k-means from given centres; a centre that no size is nearest to stays. The first centre wins ties."""
    shapes = [list(shape) for shape in shapes]
    while True:
        members = [[] for _ in shapes]
        for size in sizes:
            ious = [shape_iou(size, shape) for shape in shapes]
            members[ious.index(max(ious))].append(size)
        before = [list(shape) for shape in shapes]
        for shape, own in zip(shapes, members, strict=True):
            if own:
                shape[:] = [sum(side) / len(own) for side in zip(*own, strict=True)]
        if shapes == before:
            return shapes
