"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""

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
