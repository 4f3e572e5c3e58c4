// Looking over logits with one instruction set, compiled with flags of its own; see the kernels_ file of the set.

#include "selection_kernels.h"

namespace paradraft {
namespace {

#include "vector_portable.h"

#include "lanes.inl"
#include "selection.inl"

constexpr SelectionTable kTable = {find_best, survey, collect, mass, find_largest};

}  // namespace

const SelectionTable *portable_selection() { return &kTable; }

}  // namespace paradraft
