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

int64_t parts_of_step(int32_t kind) {
    return kind == PARADRAFT_BF16 ? Bf16Steps::kParts : kind == PARADRAFT_INT8 ? Int8Steps::kParts : 1;
}

// Lines are prepared a vector at a time; lanes behind a line's end become words of zeros.

inline void prepare_f32(const float *line, int64_t size, uint32_t *words, int64_t lines) {
    for_lanes(size, [&](int64_t i, int64_t count) {
        store(reinterpret_cast<float *>(words + i * lines), load_lanes(line + i, count));
    });
}

// Two inputs a word, as weights and keys lie.
inline void pair_bf16(const float *line, int64_t size, uint32_t *words, int64_t lines) {
    constexpr int64_t block = 2 * kBlockSteps;  // inputs
    for_lanes(size, [&](int64_t i, int64_t count) {
        uint16_t *values = reinterpret_cast<uint16_t *>(words + i / block * kBlockSteps * lines);
        store_bf16(values + i % block, load_lanes(line + i, count));
    });
}

// The same values, widened again where products take them so.
inline void prepare_bf16(const float *line, int64_t size, uint32_t *words, int64_t lines) {
    if constexpr (Bf16Steps::kParts == 1) return pair_bf16(line, size, words, lines);
    constexpr int64_t block = 2 * kBlockSteps;  // inputs, and words
    for_lanes(size, [&](int64_t i, int64_t count) {
        uint16_t values[kPanel];
        store_bf16(values, load_lanes(line + i, count));
        store(reinterpret_cast<float *>(words + i / block * block * lines + i % block), load_bf16(values));
    });
}

struct Signs {
    float lanes[16];
};

constexpr Signs signs_of(int stride) {
    Signs signs = {};
    for (int i = 0; i < 16; ++i) signs.lanes[i] = (i & stride) == 0 ? 1.0f : -1.0f;
    return signs;
}

// Add each lane to its partner's: the lower of the two gets the sum, the upper one the difference.
template <int stride>
inline Vec mixed_lanes(Vec a) {
    static constexpr Signs kSigns = signs_of(stride);
    return multiply_add(a, load(kSigns.lanes), exchanged<stride>(a));
}

// Multiply the inputs of a group by the Hadamard matrix of order 32, as its weights were: see the layout.
inline void mix_group(Vec (&parts)[kGroup / kPanel]) {
    const Vec sum = add(parts[0], parts[1]), difference = subtract(parts[0], parts[1]);
    parts[0] = mixed_lanes<1>(mixed_lanes<2>(mixed_lanes<4>(mixed_lanes<8>(sum))));
    parts[1] = mixed_lanes<1>(mixed_lanes<2>(mixed_lanes<4>(mixed_lanes<8>(difference))));
}

// Quantise up to kGroup inputs to values [kGroup], mixed ones for int8, absent ones being 0. Returns the scale; sum is
// that of values.
inline float quantise_group(int32_t kind, const float *line, int64_t size, int8_t *values, int32_t &sum) {
    Vec parts[kGroup / kPanel], most = zero();
    for (int64_t i = 0; i < kGroup / kPanel; ++i) {
        const int64_t count = smaller(kPanel, size - i * kPanel);
        parts[i] = count > 0 ? load_lanes(line + i * kPanel, count) : zero();
    }
    if (kind == PARADRAFT_INT8) mix_group(parts);
    for (const Vec &part : parts) most = largest(magnitude(part), most);
    const float limit = largest_lane(most);
    const Vec factor = set(limit > 0.0f ? 127.0f / limit : 0.0f);
    for (int64_t i = 0; i < kGroup / kPanel; ++i) store_int8(values + i * kPanel, multiply(parts[i], factor));
    sum = added_bytes(values);
    return limit / 127.0f;
}

// Four bytes a word, unless products of int8 take them wider.
template <class Steps>
inline void store_group(int32_t kind, const int8_t *values, uint32_t *words) {
    if constexpr (Steps::kParts == 2) {
        if (kind == PARADRAFT_INT8) return Steps::spread(values, words);
    }
    __builtin_memcpy(words, values, kGroup);
}

inline void prepare_whole(int32_t kind, const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines) {
    constexpr int64_t block = 4 * kBlockSteps;  // inputs
    const int64_t words_of_group = kGroupWords * parts_of_step(kind);
    for (int64_t start = 0; start < size; start += block, words += block / kGroup * words_of_group * lines) {
        for (int64_t group = 0; group < block / kGroup; ++group, factors += 2 * lines) {
            const int64_t place = start + group * kGroup;
            int8_t values[kGroup];
            int32_t sum;
            factors[0] = quantise_group(kind, line + place, size - place, values, sum);
            store_group<Int8Steps>(kind, values, words + group * words_of_group);
            const int32_t makeup = -128 * sum;
            if (kind == PARADRAFT_INT8)
                __builtin_memcpy(factors + lines, &makeup, sizeof makeup);
            else
                factors[lines] = factors[0] * static_cast<float>(sum);
        }
    }
}

void prepare_line(int32_t kind, const float *line, int64_t size, uint32_t *words, float *factors, int64_t lines) {
    if (kind == PARADRAFT_F32)
        prepare_f32(line, size, words, lines);
    else if (kind == PARADRAFT_BF16)
        prepare_bf16(line, size, words, lines);
    else
        prepare_whole(kind, line, size, words, factors, lines);
}

// A key is one lane of its block, as an output is of its panel.
void store_key(int32_t kind, const float *line, int64_t size, int64_t slot, uint8_t *cache) {
    const int64_t steps = steps_of(kind, size);
    uint32_t words[kMostHeadDim];
    (kind == PARADRAFT_F32 ? prepare_f32 : pair_bf16)(line, size, words, 1);
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
