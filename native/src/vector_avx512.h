// Sixteen floats and dot products in AVX512. For kernels_avx512.cpp only, inside its unnamed namespace.

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

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    using Weights = __m512;
    static Weights read(const uint8_t *step) { return _mm512_loadu_ps(step); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m512 input = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*word)));
        return {_mm512_fmadd_ps(input, weights, sums.lanes)};
    }
};

// One step of bf16 weights: two products per lane, in the order of the instruction.
struct Bf16Steps {
    using Weights = __m512i;
    static Weights read(const uint8_t *step) { return _mm512_loadu_si512(step); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m512i input = _mm512_set1_epi32(static_cast<int>(*word));
        return {_mm512_dpbf16_ps(sums.lanes, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(input))};
    }
};

// One step of int8 weights: four products per lane, exact, of the weights as they are stored.
struct Int8Steps {
    using Weights = __m512i;
    using Sums = __m512i;
    static Weights read(const uint8_t *step) { return _mm512_loadu_si512(step); }
    static Sums none() { return _mm512_setzero_si512(); }
    // What sums of a group begin with, to make up for what is stored too much.
    static Sums start(const float *makeup) { return _mm512_castps_si512(_mm512_set1_ps(*makeup)); }
    static Sums sum(Sums sums, Weights weights, const uint32_t *word) {
        // The intrinsic of GCC 12 copies the sums on every step and runs out of registers.
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(weights), "m"(*word));
        return sums;
    }
    static Vec value(Sums sums) { return {_mm512_cvtepi32_ps(sums)}; }
    // Sixteen bytes.
    static Vec numbers(const uint8_t *from) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
        return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
    }
};

// One step of int4 weights: eight products per lane, exact.
struct Int4Steps {
    struct Weights {
        __m512i low, high;
    };
    static Weights read(const uint8_t *step) {
        const __m512i pairs = _mm512_loadu_si512(step), lower = _mm512_set1_epi8(15);
        return {_mm512_and_si512(pairs, lower), _mm512_and_si512(_mm512_srli_epi32(pairs, 4), lower)};
    }
    static Int8Steps::Sums sum(Int8Steps::Sums sums, const Weights &weights, const uint32_t *words) {
        return Int8Steps::sum(Int8Steps::sum(sums, weights.low, words), weights.high, words + 1);
    }
    // The lower (0) or upper (1) half of each lane, an f16.
    static Vec numbers(const uint8_t *step, int half) {
        const __m512i pairs = _mm512_loadu_si512(step);
        const __m512i halves = half == 0 ? pairs : _mm512_srli_epi32(pairs, 16);
        return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves))};
    }
};

// Up to 14 tokens two panels at a time, then one: 32 registers hold no more sums. One panel at a time costs a twentieth,
// but up to 16 tokens it reads weights once. Weights of int4 take four registers a step, so they pair up to 4 tokens.
constexpr int kMostTokens = 16;
constexpr int most_paired(int32_t kind) { return kind == PARADRAFT_INT4 ? 4 : 14; }
constexpr int most_of_many(int32_t kind) { return kind == PARADRAFT_INT4 ? 16 : 14; }
constexpr int panels_at_once(int32_t kind, int tokens) { return tokens <= most_paired(kind) ? 2 : 1; }
// Sums of values: queries times registers of a head.
constexpr int kValueQueries = 6;
constexpr int kValueColumns = 4;
