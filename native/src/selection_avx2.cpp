// Looking over logits with one instruction set, compiled with flags of its own; see the kernels_ file of the set.

#include "selection_kernels.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

namespace paradraft {
namespace {

#include "vector_avx2.h"

#include "lanes.inl"
#include "selection.inl"

constexpr SelectionTable kTable = {find_best, survey, collect, mass, find_largest};

}  // namespace

const SelectionTable *avx2_selection() { return &kTable; }

}  // namespace paradraft

#else

namespace paradraft {

const SelectionTable *avx2_selection() { return nullptr; }

}  // namespace paradraft

#endif
