#include "dispatch.h"

#include <initializer_list>

namespace paradraft {
namespace {

// The compiler's own look at the processor also asks whether the system saves the wide registers.
bool machine_has(int32_t instruction_set) {
    if (instruction_set == PARADRAFT_PORTABLE) return true;
#if defined(__x86_64__) || defined(__i386__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
    if (instruction_set == PARADRAFT_AVX2) return true;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

const KernelTable *built(int32_t instruction_set) {
    switch (instruction_set) {
        case PARADRAFT_PORTABLE:
            return portable_kernels();
        case PARADRAFT_AVX2:
            return avx2_kernels();
        case PARADRAFT_AVX512:
            return avx512_kernels();
        default:
            return nullptr;
    }
}

}  // namespace

const KernelTable *kernels_of(int32_t instruction_set) {
    if (instruction_set == PARADRAFT_BEST) {
        for (int32_t set : {PARADRAFT_AVX512, PARADRAFT_AVX2})
            if (const KernelTable *table = kernels_of(set)) return table;
        return portable_kernels();
    }
    const KernelTable *table = built(instruction_set);
    return table != nullptr && machine_has(instruction_set) ? table : nullptr;
}

}  // namespace paradraft
