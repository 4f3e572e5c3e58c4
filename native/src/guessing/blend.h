// Blends what several sources say of one token into one law; the twin of drafters/blend.py, which gives the formula.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "law.h"
#include "position_noise.h"

namespace paradraft {

constexpr size_t kMaxSources = 3;

struct SourceWeights {
    double hit_slope, hit, miss_slope, miss, rest_slope, silent;
};

struct Weights {
    std::array<SourceWeights, kMaxSources> sources = {};
    std::array<double, PARADRAFT_DEPTHS> depth = {};
    double noise = 0.0;
};

// A blended law and what learning needs of how it came about.
struct Blend {
    std::array<Law, kMaxSources> told;
    std::array<double, kMaxSources> rests = {};  // log of what each leaves to tokens that it does not name
    int32_t depth = 0;
    bool is_bent = false;
    Law shares;
    std::vector<double> gumbels;  // of shares, if the law is bent
    double none = 1.0;            // chance of a token that nobody names
};

class Pool {
  public:
    Pool(const double *weights, size_t num_sources);

    // Blend what the sources say of a place at a depth; noise, if there is any, bends it towards the target's choice.
    Blend blend(std::array<Law, kMaxSources> told, int32_t depth, const PositionNoise *noise) const;
    // Take one step towards the token that the target chose.
    void learn(const Blend &blend, int32_t token);
    void write(double *weights) const;

  private:
    size_t num_sources_;
    Weights prior_, weights_;
    int64_t num_steps_ = 0;
};

}  // namespace paradraft
