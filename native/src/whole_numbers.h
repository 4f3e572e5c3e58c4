// Weights as whole numbers in groups that share scales, in their places in a panel: see the layout.

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "layout.h"

namespace paradraft {

constexpr float kMostF16 = 65504.0f;

inline float from_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

float from_f16(uint16_t bits);

// Write a line of weights to lane `lane` of a panel of zeros. In int4 no weight may be larger than kMostF16.
void place_int8(const std::vector<float> &line, int64_t lane, uint8_t *panel);
void place_int4(const std::vector<float> &line, int64_t lane, uint8_t *panel);

// Write lane `lane` of a panel to values [size].
void unpack_int8(const uint8_t *panel, int64_t lane, int64_t size, float *values);
void unpack_int4(const uint8_t *panel, int64_t lane, int64_t size, float *values);

}  // namespace paradraft
