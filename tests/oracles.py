"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""

import cv2
import numpy as np

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
