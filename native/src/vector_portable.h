// Sixteen floats and dot products in plain C++. For kernels_portable.cpp only, inside its unnamed namespace.

struct Vec {
    float lanes[16];
};

#define PARADRAFT_LANES for (int i = 0; i < 16; ++i)

inline float product_sum(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;  // two roundings: without the instruction a fused one takes a hundred times as long
#endif
}
inline Vec zero() { return {}; }
inline Vec set(float value) {
    Vec a;
    PARADRAFT_LANES a.lanes[i] = value;
    return a;
}
inline Vec load(const float *from) {
    Vec a;
    PARADRAFT_LANES a.lanes[i] = from[i];
    return a;
}
inline void store(float *to, const Vec &a) { PARADRAFT_LANES to[i] = a.lanes[i]; }
inline Vec load_part(const float *from, int64_t count) {
    Vec a = {};
    for (int64_t i = 0; i < count; ++i) a.lanes[i] = from[i];
    return a;
}
inline void store_part(float *to, const Vec &a, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = a.lanes[i];
}
inline Vec add(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] += b.lanes[i];
    return a;
}
inline Vec subtract(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] -= b.lanes[i];
    return a;
}
inline Vec multiply(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] *= b.lanes[i];
    return a;
}
inline Vec divide(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] /= b.lanes[i];
    return a;
}
inline Vec multiply_add(const Vec &a, const Vec &b, Vec c) {
    PARADRAFT_LANES c.lanes[i] = product_sum(a.lanes[i], b.lanes[i], c.lanes[i]);
    return c;
}
inline Vec largest(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] = a.lanes[i] > b.lanes[i] ? a.lanes[i] : b.lanes[i];
    return a;
}
inline Vec least(Vec a, const Vec &b) {
    PARADRAFT_LANES a.lanes[i] = a.lanes[i] < b.lanes[i] ? a.lanes[i] : b.lanes[i];
    return a;
}
// Halves are added to halves, until one lane is left.
inline float added_up(Vec a) {
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) a.lanes[i] += a.lanes[i + width];
    return a.lanes[0];
}
// Lane i of the result is lane i ^ stride: 1, 2, 4 or 8.
template <int stride>
inline Vec exchanged(const Vec &a) {
    Vec b;
    PARADRAFT_LANES b.lanes[i] = a.lanes[i ^ stride];
    return b;
}
inline float largest_lane(const Vec &a) {
    float most = a.lanes[0];
    for (int i = 1; i < 16; ++i) most = a.lanes[i] > most ? a.lanes[i] : most;
    return most;
}
inline uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
inline Vec magnitude(Vec a) {
    PARADRAFT_LANES a.lanes[i] = float_of(bits_of(a.lanes[i]) & 0x7fffffffu);
    return a;
}
// a where x is at least limit, 0 elsewhere.
inline Vec keep_from(const Vec &x, float limit, Vec a) {
    PARADRAFT_LANES a.lanes[i] = x.lanes[i] >= limit ? a.lanes[i] : 0.0f;
    return a;
}
// One bit per lane: a is not at most the limit, which holds too where either is not a number.
inline uint32_t lanes_beyond(const Vec &a, const Vec &limit) {
    uint32_t lanes = 0;
    PARADRAFT_LANES lanes |= static_cast<uint32_t>(!(a.lanes[i] <= limit.lanes[i])) << i;
    return lanes;
}
// 2 to the power of the whole number in the lowest bits of a.
inline Vec power_of_two(Vec a) {
    PARADRAFT_LANES a.lanes[i] = float_of((bits_of(a.lanes[i]) << 23) + 0x3f800000u);
    return a;
}
inline Vec load_bf16(const uint16_t *from) {
    Vec a;
    PARADRAFT_LANES a.lanes[i] = float_of(static_cast<uint32_t>(from[i]) << 16);
    return a;
}
// Round to nearest, ties to even; what is not a number stays so.
inline void store_bf16(uint16_t *to, const Vec &a) {
    PARADRAFT_LANES {
        const uint32_t bits = bits_of(a.lanes[i]);
        const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
        to[i] = static_cast<uint16_t>((a.lanes[i] != a.lanes[i] ? bits | 0x00400000u : rounded) >> 16);
    }
}
// Lanes rounded to whole numbers. Adding 1.5 * 2^23 rounds to nearest, ties to even.
inline void store_int8(int8_t *to, const Vec &a) {
    PARADRAFT_LANES to[i] = static_cast<int8_t>(bits_of(a.lanes[i] + 12582912.0f) & 0xffu);
}

// The sum of 32 whole numbers.
inline int32_t added_bytes(const int8_t *values) {
    int32_t sum = 0;
    for (int i = 0; i < 32; ++i) sum += values[i];
    return sum;
}

inline void prefetch(const uint8_t *) {}
inline void prefetch_far(const uint8_t *) {}

// One step of f32 weights: sums += weight * word.
struct F32Steps {
    using Weights = Vec;
    static Weights read(const uint8_t *step) { return load(reinterpret_cast<const float *>(step)); }
    static Vec sum(Vec sums, const Weights &weights, const uint32_t *word) {
        const float input = float_of(*word);
        PARADRAFT_LANES sums.lanes[i] = product_sum(input, weights.lanes[i], sums.lanes[i]);
        return sums;
    }
};

// One step of bf16 weights, widened: the even input's product, then the odd one's.
struct Bf16Steps {
    struct Weights {
        Vec even, odd;
    };
    static Weights read(const uint8_t *step) {
        Weights weights;
        const uint32_t *pairs = reinterpret_cast<const uint32_t *>(step);
        PARADRAFT_LANES {
            weights.even.lanes[i] = float_of(pairs[i] << 16);
            weights.odd.lanes[i] = float_of(pairs[i] & 0xffff0000u);
        }
        return weights;
    }
    static Vec sum(Vec sums, const Weights &weights, const uint32_t *word) {
        const float even = float_of(*word << 16), odd = float_of(*word & 0xffff0000u);
        PARADRAFT_LANES sums.lanes[i] = product_sum(even, weights.even.lanes[i], sums.lanes[i]);
        PARADRAFT_LANES sums.lanes[i] = product_sum(odd, weights.odd.lanes[i], sums.lanes[i]);
        return sums;
    }
};

// One step of int8 weights: four products per lane, exact.
struct Int8Steps {
    struct Weights {
        int32_t values[64];
    };
    struct Sums {
        int32_t lanes[16];
    };
    static Weights read(const uint8_t *step) {
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

// One step of int4 weights: eight products per lane, exact.
struct Int4Steps {
    struct Weights {
        Int8Steps::Weights low, high;
    };
    static Weights read(const uint8_t *step) {
        Weights weights;
        for (int i = 0; i < 64; ++i) {
            weights.low.values[i] = step[i] & 15;
            weights.high.values[i] = step[i] >> 4;
        }
        return weights;
    }
    static Int8Steps::Sums sum(const Int8Steps::Sums &sums, const Weights &weights, const uint32_t *words) {
        return Int8Steps::sum(Int8Steps::sum(sums, weights.low, words), weights.high, words + 1);
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
constexpr int most_of_many(int32_t) { return 2; }
constexpr int panels_at_once(int32_t, int) { return 1; }
constexpr int kValueQueries = 1;
constexpr int kValueColumns = 2;
