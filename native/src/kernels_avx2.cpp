// The kernels of one instruction set, compiled with flags of their own. Everything is in an unnamed namespace and no
// template or inline function of the standard library is used, so no code of this file can stand in for another's.

#include "kernels.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

namespace paradraft {
namespace {

#include "vector_avx2.h"
#include "steps_avx2.h"

#include "lines.inl"
#include "linear.inl"
#include "attention.inl"

constexpr KernelTable kTable = {
    PARADRAFT_AVX2, tile_tokens, parts_of_step, multiply_f32, multiply_bf16, multiply_int8, multiply_int4,
    prepare_line, rms_norm, gate_line, rotate, store_key, store_value, attend,
};

}  // namespace

const KernelTable *avx2_kernels() { return &kTable; }

}  // namespace paradraft

#else

namespace paradraft {

const KernelTable *avx2_kernels() { return nullptr; }

}  // namespace paradraft

#endif
