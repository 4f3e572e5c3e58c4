// Looks over rows of logits. Included inside the unnamed namespace of one instruction set.

void find_best(const float *values, int64_t count, int64_t first_id, Best *best) {
    Vec bound = set(best->value);
    for_lanes(count, [&](int64_t i, int64_t lanes) {
        uint32_t beyond = lanes_beyond(load_lanes(values + i, lanes), bound) & ((1u << lanes) - 1u);
        if (beyond == 0) return;
        for (; beyond != 0; beyond &= beyond - 1) {
            const int64_t at = i + __builtin_ctz(beyond);
            if (best->value == best->value && !(values[at] <= best->value))
                *best = {values[at], static_cast<int32_t>(first_id + at)};
        }
        bound = set(best->value);
    });
}

// A value less itself is 0, unless it is infinite or not a number.
Survey survey(const float *values, int64_t count, float *maxima) {
    const int64_t whole = count / kSurveyed * kSurveyed;
    Vec peaks = set(-__builtin_inff()), differences = zero();
    for (int64_t start = 0; start < whole; start += kSurveyed) {
        Vec most = load(values + start);
        for (int64_t i = start; i < start + kSurveyed; i += 16) {
            const Vec some = load(values + i);
            most = largest(some, most);
            differences = add(differences, subtract(some, some));
        }
        store(maxima + start / 64, most);
        peaks = largest(most, peaks);
    }
    float peak = largest_lane(peaks), difference = added_up(differences);
    float *rest = maxima + whole / 64;
    for (int64_t i = whole; i < count; ++i) {
        *rest++ = values[i];
        peak = values[i] > peak ? values[i] : peak;
        difference += values[i] - values[i];
    }
    return {difference == 0.0f, peak, rest - maxima};
}

int64_t collect(const float *values, int64_t count, float bound, int32_t *ids) {
    int64_t found = 0;
    const Vec limit = set(bound);
    for_lanes(count, [&](int64_t i, int64_t lanes) {
        uint32_t above = lanes_beyond(load_lanes(values + i, lanes), limit) & ((1u << lanes) - 1u);
        for (; above != 0; above &= above - 1) ids[found++] = static_cast<int32_t>(i + __builtin_ctz(above));
    });
    return found;
}

// Sixteen additions per lane at most in f32, the rest in double: rounding stays below that of the exponentials.
double mass(const float *values, int64_t count, float peak, float temperature) {
    constexpr int64_t kStretch = 256;
    const Vec peaks = set(peak), divisor = set(temperature);
    double sum = 0.0;
    for (int64_t start = 0; start < count; start += kStretch) {
        Vec sums = zero();
        for_lanes(count - start < kStretch ? count - start : kStretch, [&](int64_t i, int64_t lanes) {
            const float *from = values + start + i;
            const Vec weights = exponential(divide(subtract(load_lanes(from, lanes), peaks), divisor));
            if (lanes == 16) {
                sums = add(sums, weights);
                return;
            }
            float parts[16];
            store(parts, weights);
            for (int64_t k = 0; k < lanes; ++k) sum += static_cast<double>(parts[k]);
        });
        float parts[16];
        store(parts, sums);
        for (float part : parts) sum += static_cast<double>(part);
    }
    return sum;
}

// Values are looked at one by one only in stretches whose largest is among the best so far. Meant for a few of many: it
// needs no memory, and places what it finds by insertion.
void find_largest(const float *line, int64_t size, int64_t count, int32_t *places, float *values) {
    constexpr int64_t stretch = 128;
    int64_t found = 0;
    const auto offer = [&](int64_t place) {
        const float value = line[place];
        if (found == count && !(value > values[count - 1])) return;
        int64_t at = found < count ? found++ : count - 1;
        for (; at > 0 && value > values[at - 1]; --at) {
            values[at] = values[at - 1];
            places[at] = places[at - 1];
        }
        values[at] = value;
        places[at] = static_cast<int32_t>(place);
    };
    if (count == 0) return;
    int64_t next = 0;
    for (; next < count; ++next) offer(next);
    for (; next + stretch <= size; next += stretch) {
        Vec most = load(line + next);
        for (int64_t i = 16; i < stretch; i += 16) most = largest(load(line + next + i), most);
        if (!(largest_lane(most) > values[count - 1])) continue;
        for (int64_t i = 0; i < stretch; ++i) offer(next + i);
    }
    for (; next < size; ++next) offer(next);
}
