// How weights, prepared activations and the cache lie in memory. One layout for all instruction sets.
//
// A packed matrix [outputs, inputs] is a row of panels of 16 outputs. A panel is a row of steps of 64 bytes: for each
// of its 16 outputs one word of 32 bits, which holds 1 (f32), 2 (bf16) or 4 (int8) consecutive inputs. So a pass reads
// weights front to back, and a step is one AVX512 register. Missing inputs and outputs are zeros. An int8 panel opens
// with the scales of its outputs, 16 floats; its weights are stored plus 128, as one side of the AVX512 instruction for
// bytes is unsigned.
//
// An int4 panel is a row of blocks of 64 inputs, two groups of 32. A block opens with a step of scales and a step of
// least values: for each output two halves (f16), the first group's in the lower bits. Eight steps of weights follow, of
// 8 inputs per output: byte k of a word holds input k in its lower bits and input k + 4 in its upper ones, as whole
// scales above the least value of the group.
//
// Activations are prepared into the same words: for a tile of M tokens, 16 steps by 16 steps, each token's 16 words in a
// row, so that they are written as they are made and read at fixed distances. Int8 activations come with factors: group
// by group, the scales of M tokens, then M whole numbers, 128 times the sum of a token's group, which is what the stored
// weights are too much by. For int4 these are, group of 32 by group, the scales of M tokens, then M times scale times
// sum, by which least values are to be multiplied.
//
// Keys lie like a panel: blocks of 16 slots, step by step, 16 words, so that 16 scores come out of one register.
// Values lie slot by slot, each padded to a multiple of 16 elements.

#pragma once

#include <cstdint>

#include "paradraft_native.h"

namespace paradraft {

constexpr int64_t kPanel = 16;       // outputs of a panel, slots of a block
constexpr int64_t kStepBytes = 64;   // of one panel
constexpr int64_t kBlockSteps = 16;  // steps whose words of a token stand together
// Inputs that share an activation scale; a multiple of 4. Activations of real models have single inputs thousands of times
// larger than the rest. On SmolLM2-135M the divergence from fp32 is .009 for groups of 32, .013 for 64, .019 for 128 and
// .048 without groups; a pass over 16 tokens takes a fifteenth longer in groups of 64 than in groups of 128.
constexpr int64_t kInt8Group = 64;

static_assert(kInt8Group == 4 * kBlockSteps, "a group of int8 inputs is a block of words");

constexpr int64_t kInt4Group = 32;                    // inputs that share scales, of weights and of activations
constexpr int64_t kInt4Block = 2 * kInt4Group;        // inputs
constexpr int64_t kInt4BlockBytes = 10 * kStepBytes;  // of one panel

static_assert(kInt4Block == 4 * kBlockSteps, "a block of int4 inputs is a block of words");

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
constexpr int64_t round_up(int64_t value, int64_t to) { return divide_up(value, to) * to; }

// Inputs per word of a token that is prepared for a packed kind; 0 for other kinds.
constexpr int64_t inputs_per_word(int32_t kind) {
    const bool is_whole = kind == PARADRAFT_INT8 || kind == PARADRAFT_INT4;
    return kind == PARADRAFT_F32 ? 1 : kind == PARADRAFT_BF16 ? 2 : is_whole ? 4 : 0;
}

constexpr int64_t steps_of(int32_t kind, int64_t inputs) { return divide_up(inputs, inputs_per_word(kind)); }

// Words per prepared token, the last block padded.
constexpr int64_t words_of(int32_t kind, int64_t inputs) { return round_up(steps_of(kind, inputs), kBlockSteps); }

constexpr int64_t panel_bytes(int32_t kind, int64_t inputs) {
    if (kind == PARADRAFT_INT4) return divide_up(inputs, kInt4Block) * kInt4BlockBytes;
    return steps_of(kind, inputs) * kStepBytes + (kind == PARADRAFT_INT8 ? kPanel * int64_t{sizeof(float)} : 0);
}

// Factors per token.
constexpr int64_t factors_of(int32_t kind, int64_t inputs) {
    if (kind == PARADRAFT_INT4) return 4 * divide_up(inputs, kInt4Block);
    return kind == PARADRAFT_INT8 ? 2 * divide_up(inputs, kInt8Group) : 0;
}

// How the tokens of a pass are cut into tiles that a kernel takes at once: as even as possible.
struct Tiling {
    int64_t tokens = 0;
    int64_t count = 0;

    int64_t start(int64_t tile) const {
        const int64_t size = tokens / count, longer = tokens % count;
        return tile * size + (tile < longer ? tile : longer);
    }
    int64_t size(int64_t tile) const { return start(tile + 1) - start(tile); }
};

}  // namespace paradraft
