#include "blend.h"

#include <algorithm>
#include <cmath>

namespace paradraft {
namespace {

// What these mean is said in drafters/blend.py.
constexpr double kFaintest = 0.02, kLifted = 0.05, kLeastRest = 1e-3;
constexpr double kRate = 0.03, kRateHalved = 2000.0, kLeastRate = 0.004;
constexpr double kPull = 2e-5, kFarthest = 4.0;

void move(double &weight, double prior, double step) {
    double gap = weight - prior;
    gap -= kPull * gap + step;
    weight = prior + (gap > kFarthest ? kFarthest : gap < -kFarthest ? -kFarthest : gap);
}

// Leave the shares that are worth naming where the noise is known: faint ones only if it favours them.
void keep_lifted(Law &said, const PositionNoise &noise) {
    said.erase(std::remove_if(said.begin(), said.end(),
                              [&](const Share &one) {
                                  return one.share < kFaintest && one.share * std::exp(noise.of(one.token)) < kLifted;
                              }),
               said.end());
}

double sum_of(const Law &law) {
    double sum = 0.0;
    for (const Share &one : law) sum += one.share;
    return sum;
}

size_t class_of(int32_t depth) { return std::min(static_cast<size_t>(depth), size_t{PARADRAFT_DEPTHS} - 1); }

}  // namespace

Pool::Pool(const double *weights, size_t num_sources) : num_sources_(num_sources) {
    for (size_t number = 0; number < num_sources; ++number, weights += PARADRAFT_SOURCE_WEIGHTS)
        prior_.sources[number] = {weights[0], weights[1], weights[2], weights[3], weights[4], weights[5]};
    std::copy_n(weights, PARADRAFT_DEPTHS, prior_.depth.begin());
    prior_.noise = weights[PARADRAFT_DEPTHS];
    weights_ = prior_;
}

Blend Pool::blend(std::array<Law, kMaxSources> told, int32_t depth, const PositionNoise *noise) const {
    Blend blend;
    blend.depth = depth;
    blend.is_bent = noise != nullptr;
    const double faintest = noise == nullptr ? kFaintest : 0.0;
    Law odds;  // of each token, against one that nobody names
    double none = weights_.depth[class_of(depth)];
    for (size_t number = 0; number < num_sources_; ++number) {
        const SourceWeights &source = weights_.sources[number];
        Law &said = told[number];
        if (noise != nullptr) keep_lifted(said, *noise);
        if (said.empty()) {
            none += source.silent;
            continue;
        }
        const double rest = blend.rests[number] = std::log(std::max(1.0 - sum_of(said), kLeastRest));
        const double miss = source.miss_slope * rest + source.miss;
        none += source.rest_slope * rest - miss;
        const double hit = std::exp(source.hit - miss);
        for (const Share &one : said) {
            if (!(one.share >= faintest)) continue;
            Share &odd = entry(odds, one.token, 1.0);
            odd.share = odd.share * hit * std::pow(one.share, source.hit_slope);
        }
    }
    blend.told = std::move(told);
    if (odds.empty()) return blend;
    for (Share &one : odds) {
        if (noise == nullptr) break;
        blend.gumbels.push_back(noise->of(one.token));
        one.share *= std::exp(weights_.noise * blend.gumbels.back());
    }
    const double nobody = std::exp(none);
    const double total = nobody + sum_of(odds);
    for (Share &one : odds) one.share /= total;
    blend.shares = std::move(odds);
    blend.none = nobody / total;
    return blend;
}

void Pool::learn(const Blend &blend, int32_t token) {
    if (blend.shares.empty()) return;
    Law errors = blend.shares;
    double none = blend.none;
    if (find(errors, token) != nullptr)
        entry(errors, token, 0.0).share -= 1.0;
    else
        none -= 1.0;
    ++num_steps_;
    const double rate = std::max(kRate / std::sqrt(1.0 + static_cast<double>(num_steps_) / kRateHalved), kLeastRate);
    const size_t depth = class_of(blend.depth);
    const double faintest = blend.is_bent ? 0.0 : kFaintest;
    move(weights_.depth[depth], prior_.depth[depth], rate * none);
    if (blend.is_bent) {
        double slope = 0.0;
        for (size_t at = 0; at < errors.size(); ++at) slope += errors[at].share * blend.gumbels[at];
        move(weights_.noise, prior_.noise, rate * slope);
    }
    for (size_t number = 0; number < num_sources_; ++number) {
        SourceWeights &source = weights_.sources[number];
        const SourceWeights &start = prior_.sources[number];
        const double rest = blend.rests[number];
        if (blend.told[number].empty()) {
            move(source.silent, start.silent, rate * none);
            continue;
        }
        double named = 0.0, slope = 0.0;
        for (const Share &one : blend.told[number]) {
            if (!(one.share >= faintest)) continue;
            const double error = find(errors, one.token)->share;
            named += error;
            slope += error * std::log(one.share);
        }
        const double unnamed = -none - named;
        move(source.hit_slope, start.hit_slope, rate * slope);
        move(source.hit, start.hit, rate * named);
        move(source.miss_slope, start.miss_slope, rate * rest * unnamed);
        move(source.miss, start.miss, rate * unnamed);
        move(source.rest_slope, start.rest_slope, rate * rest * none);
    }
}

void Pool::write(double *weights) const {
    for (size_t number = 0; number < num_sources_; ++number) {
        const SourceWeights &source = weights_.sources[number];
        for (const double value : {source.hit_slope, source.hit, source.miss_slope, source.miss, source.rest_slope, source.silent})
            *weights++ = value;
    }
    weights = std::copy(weights_.depth.begin(), weights_.depth.end(), weights);
    *weights = weights_.noise;
}

}  // namespace paradraft
