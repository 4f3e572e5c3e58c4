// What choosing tokens asks of an instruction set: looking over whole rows of logits. Kept apart from kernels.h, whose
// files take long to compile.

#pragma once

#include <cstdint>

#include "paradraft_native.h"

namespace paradraft {

// The largest value so far; of equal ones the one with the lowest id. What is not a number counts as the largest.
struct Best {
    float value;
    int32_t id;
};

constexpr int64_t kSurveyed = 1024;  // values whose 16 lanes' maxima are noted

struct Survey {
    bool is_finite;
    float peak;
    int64_t num_maxima;
};

struct SelectionTable {
    // Let values, of the ids from first_id on, compete with the best of lower ids.
    void (*find_best)(const float *values, int64_t count, int64_t first_id, Best *best);
    // Note the maxima of disjoint groups of values, values of their own behind the last whole stretch:
    // [count / 64 + kSurveyed].
    Survey (*survey)(const float *values, int64_t count, float *maxima);
    // Write the ids of values above a bound, ascending, to [count] ids; return how many there are. No NaN.
    int64_t (*collect)(const float *values, int64_t count, float bound, int32_t *ids);
    // The sum of e to the power of (value - peak) / temperature, no value being above peak. The relative error is below
    // 2^-18.
    double (*mass)(const float *values, int64_t count, float peak, float temperature);
    // Write the `count` largest of some values, at most `size`, and their places, by (-value, place).
    void (*find_largest)(const float *line, int64_t size, int64_t count, int32_t *places, float *values);
};

// Null where this build lacks the set.
const SelectionTable *portable_selection();
const SelectionTable *avx2_selection();
const SelectionTable *avx512_selection();

}  // namespace paradraft
