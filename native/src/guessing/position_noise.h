// The noise that a row's target chooses with at one position; the twin of drafters/coupling.py.

#pragma once

#include <cmath>
#include <cstdint>

#include "../noise.h"

namespace paradraft {

class PositionNoise {
  public:
    explicit PositionNoise(uint64_t key) : key_(key) {}

    // The Gumbel variable of a token.
    double of(int32_t token) const { return gumbel(bits_of(key_, static_cast<uint64_t>(token))); }

    // A value that of(token) does not pass, found without a logarithm: -log(-log u) is at most -log(1 - u).
    double most(int32_t token) const {
        const uint64_t rest = (uint64_t{1} << 52) - 1 - bits_of(key_, static_cast<uint64_t>(token));
        return 0.6931471805599454 * (52 - std::ilogb(static_cast<double>(rest) + 0.5));
    }

  private:
    static double gumbel(uint64_t bits) { return -std::log(exponential_of_bits(bits)); }

    uint64_t key_;
};

}  // namespace paradraft
