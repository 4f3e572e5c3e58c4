// Sixteen floats in AVX512. Inside the unnamed namespace of a file of that instruction set.

#include "vector_eight.h"

struct Vec {
    __m512 lanes;
};

inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec set(float value) { return {_mm512_set1_ps(value)}; }
inline Vec load(const float *from) { return {_mm512_loadu_ps(from)}; }
inline void store(float *to, Vec a) { _mm512_storeu_ps(to, a.lanes); }
inline __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
inline Vec load_part(const float *from, int64_t count) { return {_mm512_maskz_loadu_ps(first_lanes(count), from)}; }
inline void store_part(float *to, Vec a, int64_t count) { _mm512_mask_storeu_ps(to, first_lanes(count), a.lanes); }
inline Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.lanes, b.lanes)}; }
inline Vec subtract(Vec a, Vec b) { return {_mm512_sub_ps(a.lanes, b.lanes)}; }
inline Vec multiply(Vec a, Vec b) { return {_mm512_mul_ps(a.lanes, b.lanes)}; }
inline Vec divide(Vec a, Vec b) { return {_mm512_div_ps(a.lanes, b.lanes)}; }
inline Vec multiply_add(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }
inline Vec largest(Vec a, Vec b) { return {_mm512_max_ps(a.lanes, b.lanes)}; }
inline Vec least(Vec a, Vec b) { return {_mm512_min_ps(a.lanes, b.lanes)}; }
inline Vec magnitude(Vec a) { return {_mm512_abs_ps(a.lanes)}; }
// a where x is at least limit, 0 elsewhere.
inline Vec keep_from(Vec x, float limit, Vec a) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.lanes, _mm512_set1_ps(limit), _CMP_GE_OQ), a.lanes)};
}
// One bit per lane: a is not at most the limit, which holds too where either is not a number.
inline uint32_t lanes_beyond(Vec a, Vec limit) { return _mm512_cmp_ps_mask(a.lanes, limit.lanes, _CMP_NLE_UQ); }
// 2 to the power of the whole number in the lowest bits of a.
inline Vec power_of_two(Vec a) {
    const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(a.lanes), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_set1_epi32(0x3f800000)))};
}
// Halves are added to halves, until one lane is left.
inline float added_up(Vec a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.lanes), _mm512_extractf32x8_ps(a.lanes, 1));
    return added_eight(eight);
}
// Lane i of the result is lane i ^ stride: 1, 2, 4 or 8.
template <int stride>
inline Vec exchanged(Vec a) {
    if constexpr (stride <= 2) return {_mm512_permute_ps(a.lanes, stride == 1 ? 0xb1 : 0x4e)};
    return {_mm512_shuffle_f32x4(a.lanes, a.lanes, stride == 4 ? 0xb1 : 0x4e)};
}
inline float largest_lane(Vec a) {
    return largest_eight(_mm256_max_ps(_mm512_castps512_ps256(a.lanes), _mm512_extractf32x8_ps(a.lanes, 1)));
}
inline Vec load_bf16(const uint16_t *from) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline void store_bf16(uint16_t *to, Vec a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.lanes)));
}
// Lanes rounded to whole numbers.
inline void store_int8(int8_t *to, Vec a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.lanes)));
}

inline void prefetch(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T0); }
// To the second cache, and past the first, which activations fill.
inline void prefetch_far(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T1); }
