// Tokens out of logits: the best, the largest, and the one that keyed noise draws. Same choices as src/paradraft/verify.

#pragma once

#include "paradraft_selection.h"
#include "selection_kernels.h"

namespace paradraft {

constexpr int32_t kUnsure = -1;
constexpr Best kNoBest = {-__builtin_inff(), 0};

// The table of an instruction set; throws Failure where machine or library lack it.
const SelectionTable &selection_of(int32_t instruction_set);

// The winner of two competitions over different ids.
Best better(const Best &a, const Best &b);

// See paradraft_choose; kUnsure where the numpy code must be asked. `sampling` must have been checked.
int32_t choose(const float *logits, int64_t vocab_size, const paradraft_sampling &sampling, uint64_t position,
               const SelectionTable &kernels);

// See paradraft_largest; false where a logit is not finite.
bool largest_of(const float *logits, int64_t vocab_size, int64_t count, const SelectionTable &kernels, int32_t *ids,
                float *values);

}  // namespace paradraft
