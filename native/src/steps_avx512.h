// Products of packed weights and prepared inputs in AVX512 with BF16 and VNNI, step by step. For kernels_avx512.cpp
// only, behind vector_avx512.h.

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    static constexpr int kParts = 1;
    using Weights = __m512;
    static Weights read(const uint8_t *step, int) { return _mm512_loadu_ps(step); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m512 input = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*word)));
        return {_mm512_fmadd_ps(input, weights, sums.lanes)};
    }
};

// One step of bf16 weights: two products per lane, in the order of the instruction.
struct Bf16Steps {
    static constexpr int kParts = 1;
    using Weights = __m512i;
    static Weights read(const uint8_t *step, int) { return _mm512_loadu_si512(step); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m512i input = _mm512_set1_epi32(static_cast<int>(*word));
        return {_mm512_dpbf16_ps(sums.lanes, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(input))};
    }
};

// One step of int8 weights: four products per lane, exact, of the weights as they are stored.
struct Int8Steps {
    static constexpr int kParts = 1;
    using Weights = __m512i;
    using Sums = __m512i;
    static Weights read(const uint8_t *step, int) { return _mm512_loadu_si512(step); }
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

// One step of int4 weights, exact: four products per lane, then four.
struct Int4Steps {
    static constexpr int kParts = 2;
    using Sums = Int8Steps::Sums;
    using Weights = __m512i;
    static Weights read(const uint8_t *step, int part) {
        const __m512i pairs = _mm512_loadu_si512(step);
        return _mm512_and_si512(part == 0 ? pairs : _mm512_srli_epi32(pairs, 4), _mm512_set1_epi8(15));
    }
    static Sums none() { return Int8Steps::none(); }
    static Vec value(Sums sums) { return Int8Steps::value(sums); }
    static Sums sum(Sums sums, Weights weights, const uint32_t *word) { return Int8Steps::sum(sums, weights, word); }
    // The lower (0) or upper (1) half of each lane, an f16.
    static Vec numbers(const uint8_t *step, int half) {
        const __m512i pairs = _mm512_loadu_si512(step);
        const __m512i halves = half == 0 ? pairs : _mm512_srli_epi32(pairs, 16);
        return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves))};
    }
};

// Up to 14 tokens two panels at a time, then one: 32 registers hold no more sums. One panel at a time costs a twentieth,
// but up to 16 tokens it reads weights once. Int4 pairs up to 4 tokens; that was measured while a step's parts were held
// together, in four registers.
constexpr int kMostTokens = 16;
constexpr int most_paired(int32_t kind) { return kind == PARADRAFT_INT4 ? 4 : 14; }
constexpr int most_tokens(int32_t kind, int64_t of) { return of <= kMostTokens || kind == PARADRAFT_INT4 ? 16 : 14; }
constexpr int panels_at_once(int32_t kind, int tokens) { return tokens <= most_paired(kind) ? 2 : 1; }
// Sums of values: queries times registers of a head.
constexpr int kValueQueries = 6;
constexpr int kValueColumns = 4;
