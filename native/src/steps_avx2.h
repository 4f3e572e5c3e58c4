// Products of packed weights and prepared inputs in AVX2, step by step. For kernels_avx2.cpp only, behind
// vector_avx2.h.

inline __m256i eight_words(const uint8_t *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    static constexpr int kParts = 1;
    using Weights = Vec;
    static Weights read(const uint8_t *step, int) { return load(reinterpret_cast<const float *>(step)); }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) {
        const __m256 input = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*word)));
        return {_mm256_fmadd_ps(input, weights.low, sums.low), _mm256_fmadd_ps(input, weights.high, sums.high)};
    }
};

// One step of bf16 weights, widened, and of inputs that are already: the even input's product, then the odd one's.
struct Bf16Steps {
    static constexpr int kParts = 2;
    using Weights = Vec;
    static __m256 widened(__m256i pairs, int part) {
        const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
        return _mm256_castsi256_ps(part == 0 ? _mm256_slli_epi32(pairs, 16) : _mm256_and_si256(pairs, upper));
    }
    static Weights read(const uint8_t *step, int part) {
        return {widened(eight_words(step), part), widened(eight_words(step + 32), part)};
    }
    static Vec sum(Vec sums, Weights weights, const uint32_t *word) { return F32Steps::sum(sums, weights, word); }
};

// Of whole numbers, each lane's.
struct WholeSums {
    __m256i low, high;
};
inline WholeSums all_lanes(int value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
inline Vec floats_of(WholeSums a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

// One step of int8 weights as they are stored, exact: the even inputs' products, then the odd ones', each two of 16 bits.
// The instruction for bytes would overflow, or need the weights' signs turned for every token: 3 operations instead of 2
// on the two units that multiply.
struct Int8Steps {
    static constexpr int kParts = 2;
    using Weights = WholeSums;
    using Sums = WholeSums;
    // The words of a group of inputs: of each four, the even two, then the odd two.
    static void spread(const int8_t *values, uint32_t *words) {
        const __m128i fours = _mm_set_epi64x(0x0f0e0b0a0d0c0908, 0x0706030205040100);
        const __m256i order = _mm256_broadcastsi128_si256(fours);
        for (int64_t i = 0; i < kGroup; i += 16, words += 8) {
            const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(values + i)));
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(words), _mm256_shuffle_epi8(wide, order));
        }
    }
    static __m256i halves(__m256i bytes, int part) {
        return part == 0 ? _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)) : _mm256_srli_epi16(bytes, 8);
    }
    static Weights read(const uint8_t *step, int part) {
        return {halves(eight_words(step), part), halves(eight_words(step + 32), part)};
    }
    // What sums of a group begin with, to make up for what is stored too much.
    static Sums start(const float *makeup) {
        int32_t value;
        __builtin_memcpy(&value, makeup, sizeof value);
        return all_lanes(value);
    }
    static Sums sum(Sums sums, Weights weights, const uint32_t *word) {
        const __m256i inputs = _mm256_set1_epi32(static_cast<int>(*word));
        return {_mm256_add_epi32(sums.low, _mm256_madd_epi16(weights.low, inputs)),
                _mm256_add_epi32(sums.high, _mm256_madd_epi16(weights.high, inputs))};
    }
    static Vec value(Sums sums) { return floats_of(sums); }
    // Sixteen bytes.
    static Vec numbers(const uint8_t *from) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
        return floats_of({_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))});
    }
};

// One step of int4 weights, exact: four products per lane, then four. A whole group adds up within 16 bits, as weights
// are at most 15: 16 products of 15 * 127.
struct Int4Steps {
    static constexpr int kParts = 2;
    using Weights = WholeSums;
    using Sums = WholeSums;
    static __m256i halves(__m256i pairs, int part) {
        return _mm256_and_si256(part == 0 ? pairs : _mm256_srli_epi16(pairs, 4), _mm256_set1_epi8(15));
    }
    static Weights read(const uint8_t *step, int part) {
        return {halves(eight_words(step), part), halves(eight_words(step + 32), part)};
    }
    static Sums none() { return all_lanes(0); }
    static Sums sum(Sums sums, Weights weights, const uint32_t *word) {
        const __m256i inputs = _mm256_set1_epi32(static_cast<int>(*word));
        return {_mm256_add_epi16(sums.low, _mm256_maddubs_epi16(weights.low, inputs)),
                _mm256_add_epi16(sums.high, _mm256_maddubs_epi16(weights.high, inputs))};
    }
    static Vec value(Sums sums) {
        const __m256i ones = _mm256_set1_epi16(1);
        return floats_of({_mm256_madd_epi16(sums.low, ones), _mm256_madd_epi16(sums.high, ones)});
    }
    // The lower (0) or upper (1) half of each lane, an f16. The exponent is moved by a product, which gets small numbers
    // right too.
    static __m256 widened(__m256i pairs, int half) {
        const __m256i halves = half == 0 ? pairs : _mm256_srli_epi32(pairs, 16);
        const __m256i size = _mm256_slli_epi32(_mm256_and_si256(halves, _mm256_set1_epi32(0x7fff)), 13);
        const __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(size), _mm256_set1_ps(0x1p112f));
        const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(halves, _mm256_set1_epi32(0x8000)), 16);
        return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
    }
    static Vec numbers(const uint8_t *step, int half) {
        return {widened(eight_words(step), half), widened(eight_words(step + 32), half)};
    }
};

// 16 registers hold the sums of six tokens and one panel, and its weights.
constexpr int kMostTokens = 6;
constexpr int most_tokens(int32_t, int64_t) { return kMostTokens; }
constexpr int panels_at_once(int32_t, int) { return 1; }
constexpr int kValueQueries = 3;
constexpr int kValueColumns = 2;
