// The keyed noise of src/paradraft/verify/noise.py: hashes, the same to the bit, and the exponential variables they give.

#pragma once

#include <cmath>
#include <cstdint>

#include "paradraft_selection.h"

namespace paradraft {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15u, kFirst = 0xBF58476D1CE4E5B9u, kSecond = 0x94D049BB133111EBu;
constexpr uint64_t kTail = uint64_t{1} << 40;  // the counter of the tail as a whole, which no id reaches

inline uint64_t mixed(uint64_t state) {
    state = (state ^ (state >> 30)) * kFirst;
    state = (state ^ (state >> 27)) * kSecond;
    return state ^ (state >> 31);
}

inline uint64_t absorbed(uint64_t state, uint64_t value) { return mixed(mixed(value + kStep) + state * kStep + 1); }

// The key of stream RACE.
inline uint64_t key_of(uint64_t seed, uint64_t choice, uint64_t position) {
    return absorbed(absorbed(absorbed(absorbed(0, seed), choice), position), 0);
}

inline uint64_t key_of(const paradraft_sampling &sampling, uint64_t position) {
    return key_of(sampling.seed, sampling.choice, position);
}

// 52 bits, the larger the smaller the exponential variable.
inline uint64_t bits_of(uint64_t key, uint64_t counter) { return mixed(key + counter * kStep) >> 12; }

inline double exponential_of_bits(uint64_t bits) { return -std::log((static_cast<double>(bits) + 0.5) * 0x1p-52); }

inline double exponential_of(uint64_t key, uint64_t counter) { return exponential_of_bits(bits_of(key, counter)); }

}  // namespace paradraft
