// What an instruction set must be able to do. Every table computes the same sums in the same order; only the rounding
// inside a bf16 product differs between them.

#pragma once

#include <cstdint>

#include "layout.h"

namespace paradraft {

// A stretch of panels times a stretch of token tiles.
struct MultiplyTask {
    const uint8_t *panels;  // the first panel
    int64_t panel_bytes;
    int64_t panel_count;
    int64_t steps;
    const uint32_t *words;  // of all tokens, prepared
    const float *factors;   // int8 and int4: of all tokens
    int64_t inputs;
    Tiling tiling;
    int64_t first_tile, stop_tile;
    const float *bias;     // of the first panel's first output on, or null
    int64_t output_count;  // of these panels; the last one may be partly empty
    bool is_added;         // to what outputs hold, instead of replacing it
    float *outputs;        // of the first tile's first token, the first panel's first output
    int64_t stride;        // floats between tokens
};

// What one token sees: `shared` keys from its row's slots, then its tail; from logical index `first` on.
struct TokenView {
    int32_t first;
    int32_t shared;
    int32_t tail_count;
    const int32_t *tail;  // slots
    int32_t total() const { return shared + tail_count; }
};

constexpr int64_t kMostQueries = 12;    // of one attention task
constexpr int64_t kScoreSpan = 256;     // keys that are summed up before sums are merged; a multiple of 16
constexpr int64_t kMostHeadDim = 1024;  // bounds scratch

// The queries of some tokens of one row that share a key head.
struct AttentionTask {
    const uint8_t *keys;    // of the layer and the key head
    const uint8_t *values;  // likewise
    int32_t cache_kind;
    int64_t head_dim;
    const int32_t *slots;   // of the row, in logical order
    const int32_t *blocks;  // per 16 logical indices: the cache block that holds them in order, or -1
    int64_t num_slots;
    const TokenView *tokens;
    int64_t num_tokens;
    int64_t heads;           // queries per token
    const float *queries;    // [tokens, heads, head_dim] at strides query_stride and head_dim
    int64_t query_stride;    // floats between tokens
    float scale;
    float *outputs;          // [tokens, heads, head_dim] at strides output_stride and head_dim
    int64_t output_stride;
    float *entropy;          // [tokens, heads] at stride entropy_stride, or null
    int64_t entropy_stride;
};

// Memory of one thread for attention.
struct AttentionScratch {
    uint32_t *words;  // of kMostQueries prepared queries
    float *scores;    // [kMostQueries, kScoreSpan]
    float *block;     // [kMostQueries, padded head_dim] sums of one span
    float *sums;      // [kMostQueries, padded head_dim]
    uint32_t *keys;   // [head_dim, 16] a gathered block
    static int64_t query_words(int64_t head_dim) { return round_up(head_dim, 2 * kBlockSteps); }  // of any kind
    static int64_t words_for(int64_t head_dim) {
        const int64_t padded = round_up(head_dim, kPanel);
        return kMostQueries * (query_words(head_dim) + kScoreSpan + 2 * padded) + head_dim * kPanel + 5 * kPanel;
    }
};

struct KernelTable {
    int32_t instruction_set;
    // The tiling for products of so many tokens and weights of a kind.
    Tiling (*tile)(int32_t kind, int64_t tokens);
    // Words of a prepared token for each step of a kind.
    int64_t (*parts_of_step)(int32_t kind);
    // Matrix products; the kinds' numbers are those of the interface.
    void (*multiply_f32)(const MultiplyTask &task);
    void (*multiply_bf16)(const MultiplyTask &task);
    void (*multiply_int8)(const MultiplyTask &task);
    void (*multiply_int4)(const MultiplyTask &task);
    // Turn a line into words of a kind and factors; `lines` are prepared side by side, words and factors being its own
    // first ones.
    void (*prepare)(int32_t kind, const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines);
    // Divide a line by its root mean square and multiply by a weight; output may be the line.
    void (*rms_norm)(const float *line, const float *weight, int64_t size, float eps, float *output);
    // output = silu(gate) * up.
    void (*gate)(const float *gate, const float *up, int64_t size, float *output);
    // Turn the pairs (i, i + half) of a head by angles.
    void (*rotate)(float *head, const float *cosines, const float *sines, int64_t half);
    // Write a key or a value to its slot; `cache` is that of the layer and the key head.
    void (*store_key)(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache);
    void (*store_value)(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache);
    void (*attend)(const AttentionTask &task, const AttentionScratch &scratch);

    // Words per prepared token, and those of it that stand together.
    int64_t words_of(int32_t kind, int64_t inputs) const {
        return parts_of_step(kind) * round_up(steps_of(kind, inputs), kBlockSteps);
    }
    int64_t block_words(int32_t kind) const { return parts_of_step(kind) * kBlockSteps; }

    void multiply(int32_t kind, const MultiplyTask &task) const {
        const auto multiply_whole = kind == PARADRAFT_INT8 ? multiply_int8 : multiply_int4;
        (kind == PARADRAFT_F32 ? multiply_f32 : kind == PARADRAFT_BF16 ? multiply_bf16 : multiply_whole)(task);
    }
};

// Null where this build lacks the set; whether the machine has it is for dispatch.h to say.
const KernelTable *portable_kernels();
const KernelTable *avx2_kernels();
const KernelTable *avx512_kernels();

}  // namespace paradraft
