"""The quantised block formats decoded value by value, straight from their description (ggml, ggml-common.h)."""

from __future__ import annotations

import struct

Values = list[float]


def decode_block(kind: str, block: bytes) -> Values:
    return _DECODERS[kind](block)


def _half(block: bytes, at: int) -> float:
    value: float = struct.unpack_from("<e", block, at)[0]
    return value


def _q8_0(block: bytes) -> Values:
    return [_half(block, 0) * value for value in struct.unpack_from("<32b", block, 2)]


def _nibble(packed: bytes, index: int) -> int:
    """The first 16 values are the low halves of 16 bytes, the others the high halves."""
    return packed[index] & 15 if index < 16 else packed[index - 16] >> 4


def _q4_0(block: bytes) -> Values:
    return [_half(block, 0) * (_nibble(block[2:], index) - 8) for index in range(32)]


def _q4_1(block: bytes) -> Values:
    return [_half(block, 0) * _nibble(block[4:], index) + _half(block, 2) for index in range(32)]


def _fifth(block: bytes, at: int, index: int) -> int:
    return (int.from_bytes(block[at : at + 4], "little") >> index & 1) << 4


def _q5_0(block: bytes) -> Values:
    return [_half(block, 0) * ((_nibble(block[6:], i) | _fifth(block, 2, i)) - 16) for i in range(32)]


def _q5_1(block: bytes) -> Values:
    return [_half(block, 0) * (_nibble(block[8:], i) | _fifth(block, 4, i)) + _half(block, 2) for i in range(32)]


def _scale_and_minimum(packed: bytes, group: int) -> tuple[int, int]:
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    return (
        (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4,
        (packed[group + 4] >> 4) | (packed[group] >> 6) << 4,
    )


def _k_quant(block: bytes, low_at: int, high_at: int | None) -> Values:
    scale, minimum = _half(block, 0), _half(block, 2)
    values = []
    for index in range(256):
        group, lane = divmod(index, 32)
        factor, offset = _scale_and_minimum(block[4:16], group)
        byte = block[low_at + group // 2 * 32 + lane]
        quant = byte >> 4 if group % 2 else byte & 15
        if high_at is not None:
            quant |= (block[high_at + lane] >> group & 1) << 4
        values.append(scale * factor * quant - minimum * offset)
    return values


def _q4_k(block: bytes) -> Values:
    return _k_quant(block, 16, None)


def _q5_k(block: bytes) -> Values:
    return _k_quant(block, 48, 16)


def _q6_k(block: bytes) -> Values:
    scales = struct.unpack_from("<16b", block, 192)
    values = []
    for index in range(256):
        half, rest = divmod(index, 128)
        quarter, lane = divmod(rest, 32)
        byte = block[half * 64 + quarter % 2 * 32 + lane]
        low = byte >> 4 if quarter >= 2 else byte & 15
        high = block[128 + half * 32 + lane] >> (2 * quarter) & 3
        values.append(_half(block, 208) * scales[index // 16] * ((low | high << 4) - 32))
    return values


_DECODERS = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
# Where the half-precision scales of a block are.
SCALES_AT = {
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
