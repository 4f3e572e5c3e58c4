// From row-major matrices to panels and back.

#pragma once

#include <cstdint>

#include "layout.h"

namespace paradraft {

// Bytes of a packed matrix; 0 for what cannot be packed.
int64_t packed_bytes(int32_t kind, int64_t outputs, int64_t inputs);

// Pack rows of a matrix; see the interface. Throws Failure.
void pack_rows(int32_t kind, int64_t outputs, int64_t inputs, int64_t first_output, int64_t source_rows,
               const void *source, int32_t source_kind, void *destination);

// Write row `row` of a packed matrix to values [inputs].
void unpack_row(const paradraft_matrix &matrix, int64_t row, float *values);

// Write line `row` of a row-major matrix of f32, bf16 or f16 to values [size].
void widen_row(const void *source, int32_t source_kind, int64_t row, int64_t size, float *values);

}  // namespace paradraft
