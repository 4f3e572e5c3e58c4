// Looking over logits with one instruction set, compiled with flags of its own; see the kernels_ file of the set.

#include "selection_kernels.h"

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__) && defined(__AVX512VL__)

#include <immintrin.h>

namespace paradraft {
namespace {

#include "vector_avx512.h"

#include "lanes.inl"
#include "selection.inl"

constexpr SelectionTable kTable = {find_best, survey, collect, mass, find_largest};

}  // namespace

const SelectionTable *avx512_selection() { return &kTable; }

}  // namespace paradraft

#else

namespace paradraft {

const SelectionTable *avx512_selection() { return nullptr; }

}  // namespace paradraft

#endif
