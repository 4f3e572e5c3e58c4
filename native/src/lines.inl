// Work on single lines of activations. Included inside the unnamed namespace of one instruction set.
//
// Order of sums. A sum over a line is 16 chains, lane i taking elements i, i + 16, ..., then halves added to halves.

inline float added_up(Vec a) {
    float lanes[16];
    store(lanes, a);
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
}

inline float largest_lane(Vec a) {
    float lanes[16];
    store(lanes, a);
    float most = lanes[0];
    for (int i = 1; i < 16; ++i) most = lanes[i] > most ? lanes[i] : most;
    return most;
}

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

void rms_norm(const float *line, const float *weight, int64_t size, float eps, float *output) {
    Vec squares = zero();
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec values = load_lanes(line + i, count);
        squares = multiply_add(values, values, squares);
    });
    const Vec factor = set(1.0f / __builtin_sqrtf(added_up(squares) / static_cast<float>(size) + eps));
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec scaled = multiply(load_lanes(line + i, count), factor);
        store_lanes(output + i, multiply(scaled, load_lanes(weight + i, count)), count);
    });
}

inline Vec with_bias(const float *values, const float *bias, int64_t i, int64_t count) {
    const Vec value = load_lanes(values + i, count);
    return bias == nullptr ? value : add(value, load_lanes(bias + i, count));
}

void store_line(const float *values, const float *bias, int64_t size, float *output) {
    for_lanes(size, [&](int64_t i, int64_t count) { store_lanes(output + i, with_bias(values, bias, i, count), count); });
}

void add_line(const float *values, const float *bias, int64_t size, float *output) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec sum = add(load_lanes(output + i, count), with_bias(values, bias, i, count));
        store_lanes(output + i, sum, count);
    });
}

void gate_line(const float *gate, const float *gate_bias, const float *up, const float *up_bias, int64_t size,
               float *output) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec x = with_bias(gate, gate_bias, i, count);
        const Vec divisor = add(set(1.0f), exponential(least(subtract(zero(), x), set(88.0f))));
        store_lanes(output + i, multiply(divide(x, divisor), with_bias(up, up_bias, i, count)), count);
    });
}

void rotate(float *head, const float *cosines, const float *sines, int64_t half) {
    for_lanes(half, [&](int64_t i, int64_t count) {
        const Vec first = load_lanes(head + i, count), second = load_lanes(head + half + i, count);
        const Vec cosine = load_lanes(cosines + i, count), sine = load_lanes(sines + i, count);
        const Vec turned = multiply_add(second, subtract(zero(), sine), multiply(first, cosine));
        store_lanes(head + half + i, multiply_add(first, sine, multiply(second, cosine)), count);
        store_lanes(head + i, turned, count);
    });
}

inline void prepare_f32(const float *line, int64_t size, uint32_t *words, int64_t stride) {
    for (int64_t i = 0; i < size; ++i) __builtin_memcpy(words + i * stride, line + i, sizeof(float));
}

inline void prepare_bf16(const float *line, int64_t size, uint32_t *words, int64_t stride) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        uint32_t pairs[8];
        uint16_t values[16];
        store_bf16(values, load_lanes(line + i, count));  // lanes behind the line are 0
        __builtin_memcpy(pairs, values, sizeof pairs);
        const int64_t number = (count + 1) / 2;
        for (int64_t k = 0; k < number; ++k) words[(i / 2 + k) * stride] = pairs[k];
    });
}

inline void prepare_int8(const float *line, int64_t size, uint32_t *words, float *factors, int64_t stride) {
    for (int64_t start = 0; start < size; start += kInt8Group, factors += 2 * stride) {
        const int64_t length = size - start < kInt8Group ? size - start : kInt8Group;
        Vec most = zero();
        for_lanes(length, [&](int64_t i, int64_t count) {
            most = largest(magnitude(load_lanes(line + start + i, count)), most);
        });
        const float limit = largest_lane(most);
        const Vec factor = set(limit > 0.0f ? 127.0f / limit : 0.0f);
        int32_t sum = 0;
        for_lanes(length, [&](int64_t i, int64_t count) {
            uint32_t quads[4];
            int8_t values[16];
            store_int8(values, multiply(load_lanes(line + start + i, count), factor));
            for (int k = 0; k < 16; ++k) sum += values[k];
            __builtin_memcpy(quads, values, sizeof quads);
            const int64_t number = (count + 3) / 4;
            for (int64_t k = 0; k < number; ++k) words[((start + i) / 4 + k) * stride] = quads[k];
        });
        const int32_t surplus = 128 * sum;
        factors[0] = limit / 127.0f;
        __builtin_memcpy(factors + stride, &surplus, sizeof surplus);
    }
}

void prepare_line(int32_t kind, const float *line, int64_t size, uint32_t *words, float *factors, int64_t stride) {
    if (kind == PARADRAFT_F32)
        prepare_f32(line, size, words, stride);
    else if (kind == PARADRAFT_BF16)
        prepare_bf16(line, size, words, stride);
    else
        prepare_int8(line, size, words, factors, stride);
}

void store_key(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache) {
    const int64_t steps = steps_of(kind, size);
    uint32_t *words = reinterpret_cast<uint32_t *>(cache) + slot / kPanel * steps * kPanel + slot % kPanel;
    prepare_line(kind, line, size, words, nullptr, kPanel);
}

void store_value(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache) {
    const int64_t padded = round_up(size, kPanel);
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec values = load_lanes(line + i, count);
        if (kind == PARADRAFT_F32)
            store(reinterpret_cast<float *>(cache) + slot * padded + i, values);
        else
            store_bf16(reinterpret_cast<uint16_t *>(cache) + slot * padded + i, values);
    });
}
