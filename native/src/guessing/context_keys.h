// Hashes of contexts (drafters/table/layout.py): each token of it, the newest first, times a power of a constant.

#pragma once

#include <array>
#include <cstdint>

namespace paradraft {

constexpr int32_t kMaxOrder = 16;  // tokens of the longest context

constexpr std::array<uint64_t, kMaxOrder> powers_of_step() {
    std::array<uint64_t, kMaxOrder> powers = {};
    uint64_t power = 1;
    for (uint64_t &one : powers) one = power *= 0x9E3779B97F4A7C15u;
    return powers;
}

constexpr std::array<uint64_t, kMaxOrder> kFactors = powers_of_step();

inline uint64_t weighed(int32_t token, int32_t back) {
    return static_cast<uint64_t>(static_cast<int64_t>(token)) * kFactors[static_cast<size_t>(back)];
}

}  // namespace paradraft
