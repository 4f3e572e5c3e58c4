// Products of packed weights and prepared inputs in portable C++, step by step. For kernels_portable.cpp only, behind
// vector_portable.h.

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    static constexpr int kParts = 1;
    using Weights = Vec;
    static Weights read(const uint8_t *step, int) { return load(reinterpret_cast<const float *>(step)); }
    static Vec sum(Vec sums, const Weights &weights, const uint32_t *word) {
        const float input = float_of(*word);
        PARADRAFT_LANES sums.lanes[i] = product_sum(input, weights.lanes[i], sums.lanes[i]);
        return sums;
    }
};

// One step of bf16 weights, widened, and of inputs that are already: the even input's product, then the odd one's.
struct Bf16Steps {
    static constexpr int kParts = 2;
    using Weights = Vec;
    static Weights read(const uint8_t *step, int part) {
        Weights weights;
        const uint32_t *pairs = reinterpret_cast<const uint32_t *>(step);
        PARADRAFT_LANES weights.lanes[i] = float_of(part == 0 ? pairs[i] << 16 : pairs[i] & 0xffff0000u);
        return weights;
    }
    static Vec sum(Vec sums, const Weights &weights, const uint32_t *word) { return F32Steps::sum(sums, weights, word); }
};

// One step of int8 weights: four products per lane, exact.
struct Int8Steps {
    static constexpr int kParts = 1;
    struct Weights {
        int32_t values[64];
    };
    struct Sums {
        int32_t lanes[16];
    };
    static Weights read(const uint8_t *step, int) {
        Weights weights;
        for (int i = 0; i < 64; ++i) weights.values[i] = step[i] - 128;
        return weights;
    }
    static Sums none() { return {}; }
    // What sums of a group begin with: nothing, as weights are signed here.
    static Sums start(const float *) { return none(); }
    static Sums sum(Sums sums, const Weights &weights, const uint32_t *word) {
        int32_t inputs[4];
        for (int k = 0; k < 4; ++k) inputs[k] = static_cast<int8_t>((*word >> (8 * k)) & 0xffu);
        PARADRAFT_LANES for (int k = 0; k < 4; ++k) sums.lanes[i] += inputs[k] * weights.values[4 * i + k];
        return sums;
    }
    static Vec value(const Sums &sums) {
        Vec a;
        PARADRAFT_LANES a.lanes[i] = static_cast<float>(sums.lanes[i]);
        return a;
    }
    // Sixteen bytes.
    static Vec numbers(const uint8_t *from) {
        Vec a;
        PARADRAFT_LANES a.lanes[i] = static_cast<float>(from[i]);
        return a;
    }
};

// One step of int4 weights, exact: four products per lane, then four.
struct Int4Steps {
    static constexpr int kParts = 2;
    using Sums = Int8Steps::Sums;
    using Weights = Int8Steps::Weights;
    static Weights read(const uint8_t *step, int part) {
        Weights weights;
        for (int i = 0; i < 64; ++i) weights.values[i] = part == 0 ? step[i] & 15 : step[i] >> 4;
        return weights;
    }
    static Sums none() { return {}; }
    static Vec value(const Sums &sums) { return Int8Steps::value(sums); }
    static Sums sum(const Sums &sums, const Weights &weights, const uint32_t *word) {
        return Int8Steps::sum(sums, weights, word);
    }
    // The lower (0) or upper (1) half of each lane, an f16. The exponent is moved by a product, which gets small numbers
    // right too.
    static Vec numbers(const uint8_t *step, int half) {
        const uint32_t *pairs = reinterpret_cast<const uint32_t *>(step);
        Vec a;
        PARADRAFT_LANES {
            const uint32_t bits = half == 0 ? pairs[i] : pairs[i] >> 16;
            const float size = float_of((bits & 0x7fffu) << 13) * 0x1p112f;
            a.lanes[i] = float_of(bits_of(size) | (bits & 0x8000u) << 16);
        }
        return a;
    }
};

constexpr int kMostTokens = 2;
constexpr int most_tokens(int32_t, int64_t) { return kMostTokens; }
constexpr int panels_at_once(int32_t, int) { return 1; }
constexpr int kValueQueries = 1;
constexpr int kValueColumns = 2;
