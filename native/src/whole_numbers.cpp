#include "whole_numbers.h"

#include <algorithm>
#include <cmath>

namespace paradraft {
namespace {

// Round to nearest, ties to even. Sizes are at most kMostF16.
uint16_t to_f16(float value) {
    const float size = std::fabs(value);
    uint32_t bits;
    std::memcpy(&bits, &size, sizeof bits);
    const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
    if (size < 1.0f / 16384) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(size * 16777216.0f)));
    return static_cast<uint16_t>(sign | ((bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13));
}

// Where an output's byte of weight or scale stands in its int8 panel.
int64_t int8_scale_at(int64_t group, int64_t lane) {
    return kInt8Units + group / kInt8Groups * kInt8BlockBytes + group % kInt8Groups * kPanel + lane;
}

int64_t int8_weight_at(int64_t input, int64_t lane) {
    const int64_t group = input / kGroup, step = group % kInt8Groups * kGroupWords + input % kGroup / 4;
    return kInt8Units + group / kInt8Groups * kInt8BlockBytes + (1 + step) * kStepBytes + lane * 4 + input % 4;
}

// Rows whose weights are all below this become zeros: their units would lose bits.
constexpr float kLeastInt8 = 1e-30f;
// Scales that are tried for a group, in units from the one that just reaches its largest weight. On normally distributed
// weights the best of these leaves 15 % less of squared errors than that one.
constexpr int kUnitsBelow = 2, kUnitsAbove = 8;

float largest_size(const float *values, int64_t count) {
    float most = 0.0f;
    for (int64_t k = 0; k < count; ++k) most = std::fmax(most, std::fabs(values[k]));
    return most;
}

// The whole number of scales that a weight is stored as. Adding 1.5 * 2^23 rounds to nearest, ties to even.
float int8_level(float value, float factor) {
    const float level = (value * factor + 12582912.0f) - 12582912.0f;
    return level > 127.0f ? 127.0f : level < -127.0f ? -127.0f : level;
}

// The sum of squared errors of a group at a scale, in chains of their own, which compilers can run side by side.
float int8_error(const float *values, float scale) {
    const float factor = 1.0f / scale;
    float errors[8] = {};
    for (int64_t first = 0; first < kGroup; first += 8)
        for (int64_t k = 0; k < 8; ++k) {
            const float error = values[first + k] - int8_level(values[first + k], factor) * scale;
            errors[k] += error * error;
        }
    float sum = 0.0f;
    for (float error : errors) sum += error;
    return sum;
}

// Multiply a group by the Hadamard matrix of order kGroup.
void mix(float *values) {
    for (int64_t stride = kGroup / 2; stride > 0; stride /= 2)
        for (int64_t k = 0; k < kGroup; ++k) {
            if ((k & stride) != 0) continue;
            const float first = values[k], second = values[k + stride];
            values[k] = first + second;
            values[k + stride] = first - second;
        }
}

// How many units the scale of a group [kGroup] is that loses least, 0 if its weights are all zeros; weights in units.
float int8_units(const float *values) {
    const float most = largest_size(values, kGroup);
    if (most == 0.0f) return 0.0f;
    const float reached = std::ceil(most / 127.0f);
    float best = std::fmin(std::fmax(reached - kUnitsBelow, 1.0f), kMostUnits), least = int8_error(values, best);
    for (float units = best + 1.0f; units <= std::fmin(reached + kUnitsAbove, kMostUnits); ++units) {
        const float error = int8_error(values, units);
        if (error >= least) continue;
        least = error;
        best = units;
    }
    return best;
}

// Where an output's f16 of scale, its least value a step behind, and its weight stand in their int4 block.
int64_t int4_half_at(int64_t input, int64_t lane) {
    const int64_t group = input / kGroup;
    return group / kInt4Groups * kInt4BlockBytes + lane * 4 + group % kInt4Groups * 2;
}

int64_t int4_pair_at(int64_t input, int64_t lane) {
    const int64_t block_inputs = kInt4Groups * kGroup;
    return input / block_inputs * kInt4BlockBytes + (2 + input % block_inputs / 8) * kStepBytes + lane * 4 + input % 4;
}

int int4_shift(int64_t input) { return static_cast<int>(input % 8 / 4 * 4); }

}  // namespace

float from_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), from_bits(sign | 0x3f800000u));
    if (exponent == 31) return from_bits(sign | 0x7f800000u | (fraction << 13));
    return from_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

void place_int8(const std::vector<float> &line, int64_t lane, uint8_t *panel) {
    const int64_t size = static_cast<int64_t>(line.size());
    std::vector<float> mixed(static_cast<size_t>(round_up(size, kGroup)));
    for (int64_t k = 0; k < size; ++k) mixed[static_cast<size_t>(k)] = line[static_cast<size_t>(k)] / kGroup;
    for (size_t first = 0; first < mixed.size(); first += kGroup) mix(&mixed[first]);
    const float most = largest_size(mixed.data(), static_cast<int64_t>(mixed.size()));
    const float unit = most < kLeastInt8 ? 0.0f : most / (127.0f * kMostUnits);
    std::memcpy(panel + lane * 4, &unit, sizeof unit);
    for (float &value : mixed) value = unit > 0.0f ? value / unit : 0.0f;
    for (int64_t first = 0; first < size; first += kGroup) {
        const float *values = &mixed[static_cast<size_t>(first)];
        const float units = int8_units(values), factor = units > 0.0f ? 1.0f / units : 0.0f;
        panel[int8_scale_at(first / kGroup, lane)] = static_cast<uint8_t>(units);
        for (int64_t k = 0; k < kGroup; ++k)
            panel[int8_weight_at(first + k, lane)] = static_cast<uint8_t>(int8_level(values[k], factor) + 128.0f);
    }
}

void unpack_int8(const uint8_t *panel, int64_t lane, int64_t size, float *values) {
    float unit;
    std::memcpy(&unit, panel + lane * 4, sizeof unit);
    for (int64_t first = 0; first < size; first += kGroup) {
        const float scale = static_cast<float>(panel[int8_scale_at(first / kGroup, lane)]) * unit;
        float group[kGroup];
        for (int64_t k = 0; k < kGroup; ++k)
            group[k] = static_cast<float>(panel[int8_weight_at(first + k, lane)] - 128) * scale;
        mix(group);
        std::copy_n(group, smaller(kGroup, size - first), values + first);
    }
}

// The least weight of a group becomes 0, the largest 15.
void place_int4(const std::vector<float> &line, int64_t lane, uint8_t *panel) {
    const int64_t size = static_cast<int64_t>(line.size());
    for (int64_t first = 0; first < size; first += kGroup) {
        const int64_t stop = smaller(first + kGroup, size);
        const auto ends = std::minmax_element(line.begin() + first, line.begin() + stop);
        const uint16_t scale_bits = to_f16((*ends.second - *ends.first) / 15.0f), least_bits = to_f16(*ends.first);
        uint8_t *half = panel + int4_half_at(first, lane);
        std::memcpy(half, &scale_bits, sizeof scale_bits);
        std::memcpy(half + kStepBytes, &least_bits, sizeof least_bits);
        const float scale = from_f16(scale_bits), least = from_f16(least_bits);
        for (int64_t k = first; k < stop && scale > 0.0f; ++k) {
            const float level = std::nearbyint((line[static_cast<size_t>(k)] - least) / scale);
            const int number = static_cast<int>(std::fmin(std::fmax(level, 0.0f), 15.0f));
            uint8_t &pair = panel[int4_pair_at(k, lane)];
            pair = static_cast<uint8_t>(pair | number << int4_shift(k));
        }
    }
}

void unpack_int4(const uint8_t *panel, int64_t lane, int64_t size, float *values) {
    for (int64_t k = 0; k < size; ++k) {
        const uint8_t *half = panel + int4_half_at(k, lane);
        uint16_t scale, least;
        std::memcpy(&scale, half, sizeof scale);
        std::memcpy(&least, half + kStepBytes, sizeof least);
        const int number = panel[int4_pair_at(k, lane)] >> int4_shift(k) & 15;
        values[k] = static_cast<float>(number) * from_f16(scale) + from_f16(least);
    }
}

}  // namespace paradraft
