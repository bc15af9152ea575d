"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of TFRecord files, in numpy.

A byte loop in Python takes as long as a hundred picture decodes, and loading TensorFlow for its checksum
takes seconds. So the data are first folded: a polynomial with few terms that the CRC polynomial divides,
x^a + x^b + ... + 1, says that a byte may be replaced by copies of itself further on in the data without
changing the remainder. (P(x) divides x^a + ... + 1 implies that it divides P(x)^8 = x^8a + ... + 1: the
exponents hold for bytes as they do for bits.) A few large XORs leave 563 bytes for the loop.
"""

import numpy as np

# Exponents of two such multiples, without the final 1; the wide gap after the first one allows long XORs.
_FOLDS = ((6777, 484, 100), (563, 109, 58, 53, 31))
_REVERSED_POLYNOMIAL = 0x82F63B78


def _byte_table() -> list[int]:
    table = []
    for register in range(256):
        for _ in range(8):
            register = (register >> 1) ^ (_REVERSED_POLYNOMIAL if register & 1 else 0)
        table.append(register)
    return table


_TABLE = _byte_table()


def _fold(data: np.ndarray, exponents: tuple[int, ...]) -> np.ndarray:
    """The last `exponents[0]` bytes, with the same remainder as all of `data` (uint8, overwritten)."""
    degree, first_below, *_ = exponents
    start = 0
    while (surplus := len(data) - start - degree) > 0:
        length = min(degree - first_below, surplus)
        head = data[start : start + length]
        for exponent in (*exponents[1:], 0):
            target = start + degree - exponent
            window = data[target : target + length]
            window ^= head  # through a name of its own: on a subscript, numpy would copy the result once more
        start += length
    return data[start:]


def crc32c(data: bytes) -> int:
    """The CRC-32C of `data`, 0 to 2^32 - 1."""
    register = 0xFFFFFFFF
    if len(data) > _FOLDS[-1][0]:
        folded = np.frombuffer(bytearray(data), np.uint8)
        # The register's start value is the same as these bits flipped before a register of zeros.
        folded[:4] ^= 0xFF
        register = 0
        for exponents in _FOLDS:
            folded = _fold(folded, exponents)
        data = folded.tobytes()
    for byte in data:
        register = (register >> 8) ^ _TABLE[(register ^ byte) & 0xFF]
    return register ^ 0xFFFFFFFF
