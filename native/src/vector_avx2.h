// Sixteen floats and dot products in AVX2 with FMA. For kernels_avx2.cpp only, inside its unnamed namespace.

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
    int32_t whole[16];
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(whole), _mm256_cvtps_epi32(a.low));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(whole + 8), _mm256_cvtps_epi32(a.high));
    for (int i = 0; i < 16; ++i) to[i] = static_cast<int8_t>(whole[i]);
}

inline void prefetch(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T0); }
// To the second cache, and past the first, which activations fill.
inline void prefetch_far(const uint8_t *address) { _mm_prefetch(reinterpret_cast<const char *>(address), _MM_HINT_T1); }

inline __m256i eight_words(const uint8_t *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    using Weights = Vec;
    static Weights read(const uint8_t *step) { return load(reinterpret_cast<const float *>(step)); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m256 input = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*word)));
        return {_mm256_fmadd_ps(input, weights.low, sums.low), _mm256_fmadd_ps(input, weights.high, sums.high)};
    }
};

// One step of bf16 weights, widened: the even input's product, then the odd one's.
struct Bf16Steps {
    struct Weights {
        Vec even, odd;
    };
    static __m256 even(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
    static __m256 odd(__m256i pairs) {
        return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    }
    static Weights read(const uint8_t *step) {
        const __m256i low = eight_words(step), high = eight_words(step + 32);
        return {{even(low), even(high)}, {odd(low), odd(high)}};
    }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m256i pair = _mm256_set1_epi32(static_cast<int>(*word));
        const __m256 first = even(pair), second = odd(pair);
        sums = {_mm256_fmadd_ps(first, weights.even.low, sums.low), _mm256_fmadd_ps(first, weights.even.high, sums.high)};
        return {_mm256_fmadd_ps(second, weights.odd.low, sums.low), _mm256_fmadd_ps(second, weights.odd.high, sums.high)};
    }
};

// One step of int8 weights: four products per lane, exact. The instruction takes one unsigned side and adds two products
// in 16 bits, which stored weights would overflow. So weights are signed again, and the unsigned side is the magnitude of
// the activation, whose sign goes to the weight: up to 127 each, that stays below 2^15.
struct Int8Steps {
    struct Weights {
        __m256i low, high;
    };
    using Sums = Weights;
    static Weights read(const uint8_t *step) {
        const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
        return {_mm256_xor_si256(eight_words(step), offset), _mm256_xor_si256(eight_words(step + 32), offset)};
    }
    static Sums none() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    // What sums of a group begin with: nothing, as weights are signed here.
    static Sums start(const float *) { return none(); }
    static __m256i products(__m256i input, __m256i weights) {
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(input), _mm256_sign_epi8(weights, input));
        return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    static Sums sum(Sums sums, Weights weights, const uint32_t *word) {
        const __m256i input = _mm256_set1_epi32(static_cast<int>(*word));
        return {_mm256_add_epi32(sums.low, products(input, weights.low)),
                _mm256_add_epi32(sums.high, products(input, weights.high))};
    }
    static Vec value(Sums sums) { return {_mm256_cvtepi32_ps(sums.low), _mm256_cvtepi32_ps(sums.high)}; }
    static __m256 eight_numbers(const uint8_t *from) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
        return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    }
    // Sixteen bytes.
    static Vec numbers(const uint8_t *from) { return {eight_numbers(from), eight_numbers(from + 8)}; }
};

// One step of int4 weights: eight products per lane, exact. Weights are at most 15, so four products of bytes add up
// within 16 bits.
struct Int4Steps {
    struct Weights {
        Int8Steps::Weights low, high;
    };
    static __m256i lower(__m256i pairs) { return _mm256_and_si256(pairs, _mm256_set1_epi8(15)); }
    static Weights read(const uint8_t *step) {
        const __m256i low = eight_words(step), high = eight_words(step + 32);
        return {{lower(low), lower(high)}, {lower(_mm256_srli_epi32(low, 4)), lower(_mm256_srli_epi32(high, 4))}};
    }
    static __m256i products(__m256i first, __m256i second, const uint32_t *words) {
        const __m256i low = _mm256_maddubs_epi16(first, _mm256_set1_epi32(static_cast<int>(words[0])));
        const __m256i high = _mm256_maddubs_epi16(second, _mm256_set1_epi32(static_cast<int>(words[1])));
        return _mm256_madd_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(1));
    }
    static Int8Steps::Sums sum(Int8Steps::Sums sums, const Weights &weights, const uint32_t *words) {
        return {_mm256_add_epi32(sums.low, products(weights.low.low, weights.high.low, words)),
                _mm256_add_epi32(sums.high, products(weights.low.high, weights.high.high, words))};
    }
    // f16 in the lower bits of each lane. The exponent is moved by a product, which gets small numbers right too.
    static __m256 widened(__m256i halves) {
        const __m256i size = _mm256_slli_epi32(_mm256_and_si256(halves, _mm256_set1_epi32(0x7fff)), 13);
        const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(size), _mm256_set1_ps(0x1p112f));
        const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(halves, _mm256_set1_epi32(0x8000)), 16);
        return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
    }
    // The lower (0) or upper (1) half of each lane, an f16.
    static Vec numbers(const uint8_t *step, int half) {
        const __m256i low = eight_words(step), high = eight_words(step + 32);
        if (half == 0) return {widened(low), widened(high)};
        return {widened(_mm256_srli_epi32(low, 16)), widened(_mm256_srli_epi32(high, 16))};
    }
};

// 16 registers hold the sums of four tokens and one panel.
constexpr int kMostTokens = 4;
constexpr int most_of_many(int32_t) { return 4; }
constexpr int panels_at_once(int32_t, int) { return 1; }
constexpr int kValueQueries = 3;
constexpr int kValueColumns = 2;
