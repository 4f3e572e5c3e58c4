#include "packing.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "failure.h"
#include "whole_numbers.h"

namespace paradraft {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // keeps every size in bytes far from overflow

float from_bf16(uint16_t bits) { return from_bits(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even. Packed values are finite.
uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Write a line into its place in a panel: lane `lane` of every step.
void place_f32(const std::vector<float> &line, int64_t lane, uint8_t *panel) {
    for (size_t k = 0; k < line.size(); ++k)
        std::memcpy(panel + k * kStepBytes + lane * 4, &line[k], sizeof(float));
}

void place_bf16(const std::vector<float> &line, int64_t lane, uint8_t *panel) {
    for (size_t k = 0; k < line.size(); ++k) {
        const uint16_t value = to_bf16(line[k]);
        std::memcpy(panel + k / 2 * kStepBytes + lane * 4 + k % 2 * 2, &value, sizeof value);
    }
}

void place(int32_t kind, const std::vector<float> &line, int64_t lane, uint8_t *panel) {
    if (kind == PARADRAFT_F32)
        place_f32(line, lane, panel);
    else if (kind == PARADRAFT_BF16)
        place_bf16(line, lane, panel);
    else if (kind == PARADRAFT_INT4)
        place_int4(line, lane, panel);
    else
        place_int8(line, lane, panel);
}

// A value that is too large for bf16, or for the f16 of int4's least values, would round to infinity.
bool is_finite(int32_t kind, const std::vector<float> &line) {
    for (float value : line)
        if (!std::isfinite(value) || (kind == PARADRAFT_BF16 && !std::isfinite(from_bf16(to_bf16(value)))) ||
            (kind == PARADRAFT_INT4 && std::fabs(value) > kMostF16))
            return false;
    return true;
}

}  // namespace

int64_t packed_bytes(int32_t kind, int64_t outputs, int64_t inputs) {
    if (inputs_per_word(kind) == 0 || outputs < 1 || inputs < 1 || outputs > kMostElements / inputs) return 0;
    return divide_up(outputs, kPanel) * panel_bytes(kind, inputs);
}

void widen_row(const void *source, int32_t source_kind, int64_t row, int64_t size, float *values) {
    if (source_kind == PARADRAFT_F32) {
        std::memcpy(values, static_cast<const float *>(source) + row * size, static_cast<size_t>(size) * sizeof(float));
        return;
    }
    const uint16_t *from = static_cast<const uint16_t *>(source) + row * size;
    for (int64_t k = 0; k < size; ++k)
        values[k] = source_kind == PARADRAFT_BF16 ? from_bf16(from[k]) : from_f16(from[k]);
}

void pack_rows(int32_t kind, int64_t outputs, int64_t inputs, int64_t first_output, int64_t source_rows,
               const void *source, int32_t source_kind, void *destination) {
    if (packed_bytes(kind, outputs, inputs) == 0)
        refuse("A matrix of " + std::to_string(outputs) + " x " + std::to_string(inputs) + " has no packed form of kind " +
               std::to_string(kind) + ".");
    if (source_kind != PARADRAFT_F32 && source_kind != PARADRAFT_BF16 && source_kind != PARADRAFT_F16)
        refuse("Source kind " + std::to_string(source_kind) + " is not f32, bf16 or f16.");
    const int64_t stop = first_output + source_rows;
    if (first_output < 0 || source_rows < 0 || stop > outputs || first_output % kPanel != 0 ||
        (stop % kPanel != 0 && stop != outputs))
        refuse("Rows " + std::to_string(first_output) + " to " + std::to_string(stop) + " of " +
               std::to_string(outputs) + " cannot be packed by themselves: pieces are whole panels of 16.");
    std::vector<float> line(static_cast<size_t>(inputs));
    const int64_t size = panel_bytes(kind, inputs);
    for (int64_t row = first_output; row < stop; ++row) {
        uint8_t *panel = static_cast<uint8_t *>(destination) + row / kPanel * size;
        if (row % kPanel == 0) std::memset(panel, 0, static_cast<size_t>(size));
        widen_row(source, source_kind, row - first_output, inputs, line.data());
        if (!is_finite(kind, line)) refuse("Row " + std::to_string(row) + " of a matrix holds values that are not finite.");
        place(kind, line, row % kPanel, panel);
    }
}

void unpack_row(const paradraft_matrix &matrix, int64_t row, float *values) {
    const uint8_t *panel =
        static_cast<const uint8_t *>(matrix.data) + row / kPanel * panel_bytes(matrix.kind, matrix.inputs);
    const int64_t lane = row % kPanel;
    if (matrix.kind == PARADRAFT_INT8) return unpack_int8(panel, lane, matrix.inputs, values);
    if (matrix.kind == PARADRAFT_INT4) return unpack_int4(panel, lane, matrix.inputs, values);
    for (int64_t k = 0; k < matrix.inputs; ++k) {
        if (matrix.kind == PARADRAFT_F32) {
            std::memcpy(values + k, panel + k * kStepBytes + lane * 4, sizeof(float));
        } else {
            uint16_t bits;
            std::memcpy(&bits, panel + k / 2 * kStepBytes + lane * 4 + k % 2 * 2, sizeof bits);
            values[k] = from_bf16(bits);
        }
    }
}

}  // namespace paradraft
