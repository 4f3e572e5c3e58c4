#include "votes.h"

#include <algorithm>
#include <utility>

namespace paradraft {
namespace {

constexpr int32_t kMaxVoters = 5;  // of one body
constexpr size_t kLengths = 10;
// Occurrences a match must outweigh, by its length; the reasons are in drafters/suffix.py.
constexpr std::array<std::array<double, kLengths>, 2> kCautions = {{
    {2.0, 1.0, 0.5, 0.5, 0.4, 0.3, 0.25, 0.18, 0.11, 0.08},
    {3.0, 2.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1},
}};

struct Step {
    size_t end;  // of the voters of one match length
    double share;
};

double caution_at(size_t body, int32_t length) {
    return kCautions[body][std::min(static_cast<size_t>(length), kLengths) - 1];
}

// Give each voter the sum of the steps of its own match length and of all shorter ones, times its weight.
void spread(const std::vector<Occurrence> &voters, int32_t level, const std::vector<Step> &steps, Law &law) {
    double scale = 0.0;
    for (const Step &step : steps) scale += step.share;
    size_t begin = 0;
    for (const Step &step : steps) {
        for (size_t place = begin; place < step.end; ++place)
            entry(law, voters[place].word(level), 0.0).share += voters[place].weight * scale;
        scale -= step.share;
        begin = step.end;
    }
}

// Spread mass over the words of voters; return what is left.
double vote(size_t body, const std::vector<Occurrence> &voters, int32_t level, double mass, Law &law) {
    std::vector<Step> steps;
    const double begin_mass = mass;
    double total = 0.0;
    int32_t length = voters[0].length;
    const auto close = [&](size_t end) {
        const double pull = caution_at(body, length + level);
        steps.push_back({end, mass / (total + pull)});
        mass *= pull / (total + pull);
    };
    bool is_one_word = true;
    for (size_t place = 0; place < voters.size(); ++place) {
        if (voters[place].length != length) {
            close(place);
            length = voters[place].length;
        }
        total += voters[place].weight;
        is_one_word = is_one_word && voters[place].word(level) == voters[0].word(level);
    }
    close(voters.size());
    if (is_one_word) {
        Share &one = entry(law, voters[0].word(level), 0.0);
        one.share = one.share + begin_mass - mass;
    } else {
        spread(voters, level, steps, law);
    }
    return mass;
}

}  // namespace

Camp find_voters(const TokenIndex &own, const TokenIndex *shared, int32_t depth) {
    std::vector<int32_t> context = own.last(kMaxMatch);
    std::reverse(context.begin(), context.end());
    Camp camp;
    camp[0] = own.find(context, kMaxVoters, depth);
    for (size_t place = 0; place < camp[0].size(); ++place) camp[0][place].weight = 1.0 / static_cast<double>(place + 1);
    if (shared != nullptr) camp[1] = shared->find(context, kMaxVoters, depth);
    for (auto &voters : camp)
        std::stable_sort(voters.begin(), voters.end(),
                         [](const Occurrence &one, const Occurrence &other) { return one.length > other.length; });
    return camp;
}

bool is_empty(const Camp &camp) { return camp[0].empty() && camp[1].empty(); }

Law votes(const Camp &camp, int32_t level) {
    Law law;
    double mass = 1.0;
    for (size_t body = 0; body < camp.size(); ++body)
        if (!camp[body].empty()) mass = vote(body, camp[body], level, mass, law);
    // Where a text ends, its vote is lost: that it ended there says little about this one.
    law.erase(std::remove_if(law.begin(), law.end(), [](const Share &one) { return one.token == kSeparator; }), law.end());
    keep_likeliest(law);
    return law;
}

Camp agreeing(const Camp &camp, int32_t level, int32_t token) {
    Camp kept;
    for (size_t body = 0; body < camp.size(); ++body)
        std::copy_if(camp[body].begin(), camp[body].end(), std::back_inserter(kept[body]),
                     [&](const Occurrence &voter) { return voter.word(level) == token; });
    return kept;
}

uint32_t bodies_of(const Camp &camp, int32_t level, int32_t token) {
    uint32_t bits = 0;
    for (size_t body = 0; body < camp.size(); ++body)
        for (const Occurrence &voter : camp[body])
            if (voter.word(level) == token) bits |= 1u << body;
    return bits;
}

}  // namespace paradraft
