// Work on single lines of activations. Included inside the unnamed namespace of one instruction set.
//
// Order of sums. A sum over a line is 16 chains, lane i taking elements i, i + 16, ..., then halves added to halves.

#include "lanes.inl"

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

void gate_line(const float *gate, const float *up, int64_t size, float *output) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        const Vec x = load_lanes(gate + i, count);
        const Vec divisor = add(set(1.0f), exponential(least(subtract(zero(), x), set(88.0f))));
        store_lanes(output + i, multiply(divide(x, divisor), load_lanes(up + i, count)), count);
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

// Lines are prepared a vector at a time; lanes behind a line's end become words of zeros.

inline void prepare_f32(const float *line, int64_t size, uint32_t *words, int64_t lines) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        store(reinterpret_cast<float *>(words + i * lines), load_lanes(line + i, count));
    });
}

inline void prepare_bf16(const float *line, int64_t size, uint32_t *words, int64_t lines) {
    constexpr int64_t block = 2 * kBlockSteps;  // inputs
    for_lanes(size, [&](int64_t i, int64_t count) {
        uint16_t *values = reinterpret_cast<uint16_t *>(words + i / block * kBlockSteps * lines);
        store_bf16(values + i % block, load_lanes(line + i, count));
    });
}

inline void prepare_int8(const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines) {
    for (int64_t start = 0; start < size; start += kInt8Group, words += kBlockSteps * lines, factors += 2 * lines) {
        const int64_t length = smaller(kInt8Group, size - start);
        Vec most = zero();
        for_lanes(length, [&](int64_t i, int64_t count) {
            most = largest(magnitude(load_lanes(line + start + i, count)), most);
        });
        const float limit = largest_lane(most);
        const Vec factor = set(limit > 0.0f ? 127.0f / limit : 0.0f);
        int8_t *values = reinterpret_cast<int8_t *>(words);
        int32_t sum = 0;
        for_lanes(length, [&](int64_t i, int64_t count) {
            store_int8(values + i, multiply(load_lanes(line + start + i, count), factor));
            for (int k = 0; k < 16; ++k) sum += values[i + k];
        });
        const int32_t surplus = 128 * sum;
        factors[0] = limit / 127.0f;
        __builtin_memcpy(factors + lines, &surplus, sizeof surplus);
    }
}

// Quantise up to kInt4Group inputs to values [kInt4Group], absent ones to 0.
inline void prepare_int4_group(const float *line, int64_t size, int8_t *values, float *factors, int64_t lines) {
    Vec most = zero();
    for_lanes(size, [&](int64_t i, int64_t count) { most = largest(magnitude(load_lanes(line + i, count)), most); });
    const float limit = largest_lane(most), scale = limit / 127.0f;
    const Vec factor = set(limit > 0.0f ? 127.0f / limit : 0.0f);
    int32_t sum = 0;
    for (int64_t i = 0; i < kInt4Group; i += kPanel) {
        const int64_t count = smaller(kPanel, size - i);
        store_int8(values + i, count > 0 ? multiply(load_lanes(line + i, count), factor) : zero());
        for (int k = 0; k < 16; ++k) sum += values[i + k];
    }
    factors[0] = scale;
    factors[lines] = scale * static_cast<float>(sum);
}

inline void prepare_int4(const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines) {
    for (int64_t start = 0; start < size; start += kInt4Block, words += kBlockSteps * lines) {
        int8_t *values = reinterpret_cast<int8_t *>(words);
        for (int64_t i = 0; i < kInt4Block; i += kInt4Group, factors += 2 * lines) {
            const int64_t rest = size - start - i, count = rest < 0 ? 0 : smaller(rest, kInt4Group);
            prepare_int4_group(line + start + i, count, values + i, factors, lines);
        }
    }
}

void prepare_line(int32_t kind, const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines) {
    if (kind == PARADRAFT_F32)
        prepare_f32(line, size, words, lines);
    else if (kind == PARADRAFT_BF16)
        prepare_bf16(line, size, words, lines);
    else if (kind == PARADRAFT_INT4)
        prepare_int4(line, size, words, factors, lines);
    else
        prepare_int8(line, size, words, factors, lines);
}

// A key is one lane of its block, as an output is of its panel.
void store_key(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache) {
    const int64_t steps = steps_of(kind, size);
    uint32_t words[kMostHeadDim];
    prepare_line(kind, line, size, words, nullptr, 1);
    uint32_t *lane = reinterpret_cast<uint32_t *>(cache) + slot / kPanel * steps * kPanel + slot % kPanel;
    for (int64_t step = 0; step < steps; ++step) lane[step * kPanel] = words[step];
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
