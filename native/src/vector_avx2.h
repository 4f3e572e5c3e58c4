// Sixteen floats in AVX2 with FMA. Inside the unnamed namespace of a file of that instruction set.

#include "vector_eight.h"

struct Vec {
    __m256 low, high;
};

inline Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline Vec load(const float *from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float *to, Vec a) {
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
}
inline Vec load_part(const float *from, int64_t count) {
    float lanes[16] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
    return load(lanes);
}
inline void store_part(float *to, Vec a, int64_t count) {
    float lanes[16];
    store(lanes, a);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}
inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec subtract(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec multiply(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec divide(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Vec multiply_add(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec largest(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Vec least(Vec a, Vec b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Vec magnitude(Vec a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
// a where x is at least limit, 0 elsewhere.
inline Vec keep_from(Vec x, float limit, Vec a) {
    const __m256 limits = _mm256_set1_ps(limit);
    return {_mm256_and_ps(_mm256_cmp_ps(x.low, limits, _CMP_GE_OQ), a.low),
            _mm256_and_ps(_mm256_cmp_ps(x.high, limits, _CMP_GE_OQ), a.high)};
}
// One bit per lane: a is not at most the limit, which holds too where either is not a number.
inline uint32_t lanes_beyond(Vec a, Vec limit) {
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, limit.low, _CMP_NLE_UQ));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, limit.high, _CMP_NLE_UQ));
    return static_cast<uint32_t>(high << 8 | low);
}
// Halves are added to halves, until one lane is left.
inline float added_up(Vec a) { return added_eight(_mm256_add_ps(a.low, a.high)); }
// Lane i of the result is lane i ^ stride: 1, 2, 4 or 8.
template <int stride>
inline Vec exchanged(Vec a) {
    if constexpr (stride == 8) return {a.high, a.low};
    if constexpr (stride == 4)
        return {_mm256_permute2f128_ps(a.low, a.low, 1), _mm256_permute2f128_ps(a.high, a.high, 1)};
    constexpr int order = stride == 1 ? 0xb1 : 0x4e;
    return {_mm256_permute_ps(a.low, order), _mm256_permute_ps(a.high, order)};
}
inline float largest_lane(Vec a) { return largest_eight(_mm256_max_ps(a.low, a.high)); }
inline __m256 half_power_of_two(__m256 a) {
    const __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(a), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32(0x3f800000)));
}
// 2 to the power of the whole number in the lowest bits of a.
inline Vec power_of_two(Vec a) { return {half_power_of_two(a.low), half_power_of_two(a.high)}; }
inline __m256 half_of_bf16(const uint16_t *from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline Vec load_bf16(const uint16_t *from) { return {half_of_bf16(from), half_of_bf16(from + 8)}; }
// Round to nearest, ties to even; what is not a number stays so.
inline __m256i rounded_to_bf16(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
}
inline void store_bf16(uint16_t *to, Vec a) {
    const __m256i packed = _mm256_packus_epi32(rounded_to_bf16(a.low), rounded_to_bf16(a.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm256_permute4x64_epi64(packed, 0xd8));
}
// Lanes rounded to whole numbers.
inline void store_int8(int8_t *to, Vec a) {
    const __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
    const __m256i ordered = _mm256_permute4x64_epi64(pairs, 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), bytes);
}

inline void prefetch(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T0); }
// To the second cache, and past the first, which activations fill.
inline void prefetch_far(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T1); }
