/* Choosing tokens from logits: the part of the interface of paradraft_native.h that needs no model. Its rules hold here. */

#ifndef PARADRAFT_SELECTION_H
#define PARADRAFT_SELECTION_H

#include "paradraft_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of the largest logit of each scored token of the engine's last pass, best [count]: the lowest id on ties, and
   what is not a number counts as the largest. The threads that make the logits find it. count is that pass's
   num_scored. */
PARADRAFT_EXPORT int32_t paradraft_engine_best(const paradraft_engine *engine, int64_t count, int32_t *best,
                                               paradraft_error *error);

/* How a token is drawn. */
typedef struct {
    double temperature; /* above 0 */
    double top_p;       /* 1: no cut */
    double min_p;       /* 0: no cut */
    int64_t top_k;      /* 0: no limit */
    uint64_t seed;      /* of the noise, with choice and position */
    uint64_t choice;
} paradraft_sampling;

/* Draw the token of the law that temperature, top-k, min-p and top-p, in this order, make of logits [vocab_size], by
   the keyed races of src/paradraft/verify/noise.py. That code draws the same token: where its choice could hang on
   rounding, where a token outside the largest 256 may win after a cut and where logits are not finite, *token is -1, and
   it must be asked itself. */
PARADRAFT_EXPORT int32_t paradraft_choose(const float *logits, int64_t vocab_size, const paradraft_sampling *sampling,
                                          uint64_t position, int32_t instruction_set, int32_t *token,
                                          paradraft_error *error);

/* Ids and values of the largest `count` of logits, by (-logit, id), in [count]; count is at most vocab_size. *is_done
   is 0, and nothing is written, where a logit is not finite. */
PARADRAFT_EXPORT int32_t paradraft_largest(const float *logits, int64_t vocab_size, int64_t count,
                                           int32_t instruction_set, int32_t *ids, float *values, int32_t *is_done,
                                           paradraft_error *error);

#ifdef __cplusplus
}
#endif

#endif
