// The race among the ids of the tail, in the few draws that the tail has won.

#pragma once

#include <cstdint>

namespace paradraft {

// What a token runs with, and where the head ends.
struct TailRace {
    const float *logits;  // [size]
    int64_t size;
    float peak, temperature;
    float last_value;  // of the head: all that rank behind this value and id are the tail
    int32_t last_id;
    double least_exponent;  // exponents below have no weight
    double slack;           // by how much, relative to it, a speed may be off
};

// The fastest id of the tail; kUnsure if another may be as fast, or none is surely faster than those without weight.
int32_t tail_winner(const TailRace &race, uint64_t key);

}  // namespace paradraft
