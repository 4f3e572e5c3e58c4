// Whether models and passes can be right. Both throw Failure, naming the value.

#pragma once

#include "cache.h"
#include "paradraft_native.h"

namespace paradraft {

void check_model(const paradraft_model &model, const paradraft_options &options);

// `marks` holds one number per slot, all below `mark`; fed slots are marked. So in check_entries.
void check_pass(const paradraft_model &model, int64_t num_slots, const paradraft_pass &pass,
                const paradraft_results &results, uint32_t *marks, uint32_t mark);

void check_entries(const paradraft_model &model, int64_t num_slots, const paradraft_entries &entries, uint32_t *marks,
                   uint32_t mark);

void check_move(int64_t num_slots, const int32_t *sources, const int32_t *destinations, int64_t count);

}  // namespace paradraft
