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
// row, so that they are written as they are made and read at fixed distances. An instruction set may take a step in two
// parts, and its words wider, two for one: bf16 as f32, the even input and the odd one; int8 as 16 bits, the even two and
// the odd two. Int8 activations come with factors: group by group, the scales of M tokens, then M whole numbers, 128
// times the sum of a token's group, which is what the stored weights are too much by. For int4 these are, group of 32 by
// group, the scales of M tokens, then M times scale times sum, by which least values are to be multiplied.
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
constexpr int64_t kGroup = 32;       // inputs of whole numbers that share scales
constexpr int64_t kGroupWords = 8;   // of a token
static_assert(kGroup == 4 * kGroupWords && kBlockSteps % kGroupWords == 0, "a block of words holds whole groups");

constexpr int64_t kInt8Units = kPanel * int64_t{sizeof(float)};                // bytes that open a panel
constexpr int64_t kInt8Groups = kStepBytes / kPanel;                           // of a block
constexpr int64_t kInt8BlockBytes = (1 + kInt8Groups * kGroupWords) * kStepBytes;  // of one panel
constexpr float kMostUnits = 255.0f;                                           // of a group's scale

constexpr int64_t kInt4Groups = 2;                                                 // of a block
constexpr int64_t kInt4BlockBytes = (2 + kInt4Groups * kGroupWords / 2) * kStepBytes;  // of one panel

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

constexpr int64_t groups_of(int64_t inputs) { return divide_up(inputs, kGroup); }

constexpr int64_t panel_bytes(int32_t kind, int64_t inputs) {
    const int64_t groups = groups_of(inputs);
    if (kind == PARADRAFT_INT4) return divide_up(groups, kInt4Groups) * kInt4BlockBytes;
    if (kind == PARADRAFT_INT8)
        return kInt8Units + (divide_up(groups, kInt8Groups) + groups * kGroupWords) * kStepBytes;
    return steps_of(kind, inputs) * kStepBytes;
}

// Factors per token.
constexpr int64_t factors_of(int32_t kind, int64_t inputs) {
    const bool is_whole = kind == PARADRAFT_INT8 || kind == PARADRAFT_INT4;
    return is_whole ? 2 * divide_up(groups_of(inputs), kInt4Groups) * kInt4Groups : 0;
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
