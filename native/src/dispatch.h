// Which kernels this machine runs.

#pragma once

#include "kernels.h"

namespace paradraft {

// The table of an instruction set, or of the best one for PARADRAFT_BEST; null where build or machine lack it.
const KernelTable *kernels_of(int32_t instruction_set);

}  // namespace paradraft
