#include "tail_race.h"

#include <algorithm>
#include <cmath>

#include "noise.h"
#include "selection.h"

namespace paradraft {
namespace {

constexpr double kLargest = 0x1p52;  // bits of noise
// Below, a speed could be reached without weight: e^-60 over the least exponential variable, 1.1e-16, is 8e-11.
constexpr double kLeastSpeed = 1e-9;

bool is_tail(const TailRace &race, int64_t id) {
    const float value = race.logits[id];
    return value < race.last_value || (value == race.last_value && id > race.last_id);
}

double weight(const TailRace &race, float value) {
    const double exponent = static_cast<double>((value - race.peak) / race.temperature);  // as numpy's, in f32
    return exponent < race.least_exponent ? 0.0 : std::exp(exponent);
}

// The least bits with which a token can come near the fastest, no weight being above `most`.
uint64_t least_bits(double most, double fastest, double slack) {
    if (fastest <= 0.0) return 0;
    const double time = most / fastest * (1.0 + 4.0 * slack);
    return static_cast<uint64_t>(std::max(0.0, std::exp(-time) * (1.0 - 0x1p-40) * kLargest - 1.0));
}

}  // namespace

// Nearly all ids are out of the race by their noise alone, before anybody looks at their weight.
int32_t tail_winner(const TailRace &race, uint64_t key) {
    const double most = weight(race, race.last_value);
    double fastest = 0.0, second = 0.0;
    int64_t winner = -1;
    uint64_t bar = 0;
    for (int64_t id = 0; id < race.size; ++id) {
        const uint64_t bits = bits_of(key, static_cast<uint64_t>(id));
        if (bits < bar || !is_tail(race, id)) continue;
        const double speed = weight(race, race.logits[id]) / exponential_of_bits(bits);
        if (speed > fastest) {
            second = fastest;
            fastest = speed;
            winner = id;
            bar = least_bits(most, fastest, race.slack);
        } else {
            second = std::max(second, speed);
        }
    }
    const bool is_sure = fastest > kLeastSpeed && fastest > second * (1.0 + race.slack);
    return is_sure ? static_cast<int32_t>(winner) : kUnsure;
}

}  // namespace paradraft
