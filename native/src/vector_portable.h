// Sixteen floats in plain C++. Inside the unnamed namespace of a file of that instruction set.

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
