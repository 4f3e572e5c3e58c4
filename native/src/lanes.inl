// Sums, exponentials and loops over lanes. Included inside the unnamed namespace of one instruction set.

// e to the power of x: 2^n times a polynomial on the rest; 0 below -87, where floats lose their precision. The error is
// below 2 units in the last place. x must not exceed 88.
inline Vec exponential(Vec x) {
    const Vec magic = set(12582912.0f);  // 1.5 * 2^23: adding it leaves a whole number in the lowest bits
    const Vec bounded = largest(x, set(-87.0f));
    const Vec shifted = multiply_add(bounded, set(1.44269504f), magic);
    const Vec whole = subtract(shifted, magic);
    Vec rest = multiply_add(whole, set(-0.693145752f), bounded);  // ln 2 in two parts
    rest = multiply_add(whole, set(-1.42860677e-6f), rest);
    Vec value = set(1.0f / 5040);
    const float factors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    for (float factor : factors) value = multiply_add(value, rest, set(factor));
    return keep_from(x, -87.0f, multiply(value, power_of_two(shifted)));
}

inline float exponential(float x) {
    float lanes[16];
    store(lanes, exponential(set(x)));
    return lanes[0];
}

// Whole vectors of a line, then what is left, as (index, count).
template <class Body>
inline void for_lanes(int64_t size, Body body) {
    int64_t i = 0;
    for (; i + 16 <= size; i += 16) body(i, int64_t{16});
    if (i < size) body(i, size - i);
}

inline Vec load_lanes(const float *from, int64_t count) { return count == 16 ? load(from) : load_part(from, count); }

inline void store_lanes(float *to, Vec a, int64_t count) {
    if (count == 16)
        store(to, a);
    else
        store_part(to, a, count);
}
