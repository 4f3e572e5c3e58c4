// Choosing natively what src/paradraft/verify chooses in numpy, token for token.
//
// Two codes that round differently cannot both be followed blindly. So every quantity here comes with the interval in
// which numpy's lies: which prefix of the ranking the cuts leave, how much weight is behind the head, how fast a token
// runs. A token is returned if it wins for all values in these intervals; else the caller asks numpy. What is decided by
// comparing logits alone, ranks and ties, is the same in both.

#include "selection.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "buffer.h"
#include "dispatch.h"
#include "failure.h"
#include "noise.h"
#include "tail_race.h"

namespace paradraft {
namespace {

constexpr int64_t kHead = 256;  // HEAD of noise.py: ids that race one by one, the others as one and among themselves
// How far numpy's weights and sums may be from ours, relative to them. Exponentials in f32 differ by up to 5 units in the
// last place, 6e-7, and a sum of them in f32 by a little more.
constexpr double kSlack = 0x1p-16;
constexpr double kNear = 1e-5;      // exponents that differ by more keep their order as f32 weights
constexpr double kHopeless = -60.0; // exponents below cannot win: the peak's speed is above 1/37, theirs below 1e-10
constexpr double kLeastMinP = 1e-25;  // weights down here are hopeless

constexpr float kColdest = 1e-30f;

struct Candidate {
    float value;
    int32_t id;
};

bool ranks_before(const Candidate &a, const Candidate &b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// All values down to some `margin` below the count-th largest, the first `count` of them in ranking order.
struct Ranking {
    bool is_finite = false;
    float peak = 0.0f;
    std::vector<Candidate> candidates;
};

float lowered(float bound, float peak, double margin) {
    const double rounding = (std::fabs(static_cast<double>(bound)) + std::fabs(static_cast<double>(peak))) * 0x1p-22;
    const double least = std::max(static_cast<double>(bound) - margin - rounding, -static_cast<double>(FLT_MAX));
    return std::nextafter(static_cast<float>(least), -INFINITY);
}

Ranking rank(const float *values, int64_t size, int64_t count, double margin, const SelectionTable &kernels) {
    Ranking ranking;
    Buffer<float> maxima;
    maxima.reserve(size / 64 + kSurveyed);
    const Survey survey = kernels.survey(values, size, maxima.data());
    ranking.is_finite = survey.is_finite;
    ranking.peak = survey.peak;
    if (!survey.is_finite) return ranking;
    float bound = -INFINITY;  // at least `count` values are above
    if (survey.num_maxima >= count) {
        float *nth = maxima.data() + count - 1;
        std::nth_element(maxima.data(), nth, maxima.data() + survey.num_maxima, [](float a, float b) { return a > b; });
        bound = lowered(*nth, survey.peak, margin);
    }
    Buffer<int32_t> ids;
    ids.reserve(size);
    const int64_t found = kernels.collect(values, size, bound, ids.data());
    ranking.candidates.reserve(static_cast<size_t>(found));
    for (int64_t i = 0; i < found; ++i) ranking.candidates.push_back({values[ids.data()[i]], ids.data()[i]});
    const auto first = ranking.candidates.begin(), stop = first + count;
    if (found > count) std::nth_element(first, stop, ranking.candidates.end(), ranks_before);
    std::sort(first, stop, ranks_before);
    return ranking;
}

// Draws from one row. Interval ends are called least and most.
class Draw {
  public:
    Draw(const float *logits, int64_t size, const paradraft_sampling &sampling, const SelectionTable &kernels)
        : logits_(logits),
          size_(size),
          head_size_(std::min({size, kHead, sampling.top_k > 0 ? sampling.top_k : kHead})),
          sampling_(sampling),
          kernels_(kernels),
          temperature_(std::max(static_cast<float>(sampling.temperature), kColdest)),
          ranking_(rank(logits, size, head_size_, 2 * kNear * static_cast<double>(temperature_), kernels)) {}

    int32_t token(uint64_t key) {
        if (!ranking_.is_finite) return kUnsure;
        weigh_head();
        least_ = most_ = sampling_.top_k > 0 ? std::min(sampling_.top_k, size_) : size_;
        if (sampling_.min_p > 0.0 && !cut_by_min_p()) return kUnsure;
        if (sampling_.top_p < 1.0) cut_by_top_p();
        return race(key);
    }

  private:
    // As numpy computes them, in f32 to the bit.
    double exponent(float value) const { return static_cast<double>((value - ranking_.peak) / temperature_); }

    float value(int64_t rank) const { return ranking_.candidates[static_cast<size_t>(rank)].value; }
    int32_t id(int64_t rank) const { return ranking_.candidates[static_cast<size_t>(rank)].id; }

    void weigh_head() {
        double sum = 0.0;
        for (int64_t i = 0; i < head_size_; ++i) {
            const double power = exponent(value(i));
            weights_[i] = power < kHopeless ? 0.0 : std::exp(power);
            sums_[i] = sum += weights_[i];
        }
    }

    // The sum of all weights.
    double total() {
        if (total_ < 0.0) total_ = kernels_.mass(logits_, size_, ranking_.peak, temperature_);
        return total_;
    }

    void narrow(int64_t least, int64_t most) {
        least_ = std::min(least_, least);
        most_ = std::min(most_, most);
    }

    bool cut_by_min_p() {
        const double bound = static_cast<double>(static_cast<float>(sampling_.min_p));
        if (bound < kLeastMinP) return false;
        int64_t least = 0, most = 0;
        while (least < head_size_ && (value(least) == ranking_.peak || weights_[least] >= bound * (1.0 + kSlack))) ++least;
        while (most < head_size_ && weights_[most] >= bound * (1.0 - kSlack)) ++most;
        narrow(least, most < head_size_ ? most : most_);
        return true;
    }

    // The number of ranks whose weights reach a sum; `beyond` if the head does not.
    int64_t covering(double needed, int64_t beyond) const {
        const int64_t count = std::lower_bound(sums_, sums_ + head_size_, needed) - sums_ + 1;
        return count <= head_size_ ? count : beyond;
    }

    void cut_by_top_p() {
        const bool is_cut = sampling_.top_k > 0 || sampling_.min_p > 0.0;
        const double most = most_ <= head_size_ ? sums_[most_ - 1] : total();
        const double least = is_cut ? sums_[std::min(least_, head_size_) - 1] : most;
        narrow(covering(sampling_.top_p * least * (1.0 - kSlack), head_size_),
               covering(sampling_.top_p * most * (1.0 + kSlack), size_));
    }

    // Whether the head holds the same ids as numpy's, which ranks by weights in f32, wherever that can matter.
    bool is_head_sure() const {
        const float last = value(head_size_ - 1);
        if (exponent(last) < kHopeless) return true;
        for (const Candidate &candidate : ranking_.candidates)
            if (candidate.value != last && std::fabs(exponent(candidate.value) - exponent(last)) < kNear) return false;
        return true;
    }

    // Of a law without cuts.
    TailRace tail_race() const {
        return {logits_, size_, ranking_.peak, temperature_, value(head_size_ - 1), id(head_size_ - 1), kHopeless, kSlack};
    }

    int32_t race(uint64_t key) {
        const int64_t possible = std::min(most_, head_size_);
        int64_t winner = 0;
        double fastest = 0.0, second = 0.0;
        for (int64_t i = 0; i < possible && weights_[i] > 0.0; ++i) {
            const double speed = weights_[i] / exponential_of(key, static_cast<uint64_t>(id(i)));
            if (speed > fastest) {
                second = fastest;
                fastest = speed;
                winner = i;
            } else {
                second = std::max(second, speed);
            }
        }
        if (most_ > kHead) {
            if (!is_head_sure()) return kUnsure;
            const double tail = total() - sums_[head_size_ - 1], doubt = total() * kSlack;
            const double time = exponential_of(key, kTail);
            if (least_ == size_ && tail - doubt > fastest * (1.0 + kSlack) * time) return tail_winner(tail_race(), key);
            second = std::max(second, (std::max(0.0, tail) + doubt) / time);
        }
        const bool is_sure = winner < least_ && fastest > second * (1.0 + kSlack);
        return is_sure || most_ == 1 ? id(winner) : kUnsure;
    }

    const float *logits_;
    const int64_t size_, head_size_;
    const paradraft_sampling &sampling_;
    const SelectionTable &kernels_;
    const float temperature_;
    const Ranking ranking_;
    double weights_[kHead], sums_[kHead];  // of the head, in ranking order; sums from the first on
    double total_ = -1.0;                  // until it is known
    int64_t least_ = 0, most_ = 0;         // ranks in the law
};

}  // namespace

const SelectionTable &selection_of(int32_t instruction_set) {
    const KernelTable *kernels = kernels_of(instruction_set);
    if (kernels == nullptr)
        throw Failure{PARADRAFT_NOT_SUPPORTED, "Instruction set " + std::to_string(instruction_set) +
                                                   " is not in this machine or this library."};
    return *(kernels->instruction_set == PARADRAFT_AVX512 ? avx512_selection()
             : kernels->instruction_set == PARADRAFT_AVX2 ? avx2_selection()
                                                          : portable_selection());
}

Best better(const Best &a, const Best &b) {
    const bool is_a_number = a.value == a.value, is_b_number = b.value == b.value;
    if (is_a_number != is_b_number) return is_a_number ? b : a;
    if (is_a_number && a.value != b.value) return a.value > b.value ? a : b;
    return a.id < b.id ? a : b;
}

int32_t choose(const float *logits, int64_t vocab_size, const paradraft_sampling &sampling, uint64_t position,
               const SelectionTable &kernels) {
    return Draw(logits, vocab_size, sampling, kernels).token(key_of(sampling, position));
}

bool largest_of(const float *logits, int64_t vocab_size, int64_t count, const SelectionTable &kernels, int32_t *ids,
                float *values) {
    const Ranking ranking = rank(logits, vocab_size, count, 0.0, kernels);
    if (!ranking.is_finite) return false;
    for (int64_t i = 0; i < count; ++i) {
        ids[i] = ranking.candidates[static_cast<size_t>(i)].id;
        values[i] = ranking.candidates[static_cast<size_t>(i)].value;
    }
    return true;
}

}  // namespace paradraft
