#include "growth.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace paradraft {
namespace {

constexpr double kHope = 0.6, kCeiling = 0.98;  // drafters/growth.py and trust.py say why
constexpr int64_t kPlace = -1;

// A node that may come, or the place below one, which is written with the node's token, its number as the parent, and
// no rank.
struct Offer {
    double worth;
    int64_t rank;
    int32_t token, parent;
    int64_t depth;  // of the parent
    int64_t above;  // path of the parent
};

// Whether `one` waits longer than `other`.
bool is_later(const Offer &one, const Offer &other) {
    return std::make_tuple(-one.worth, one.rank, one.token, one.parent) >
           std::make_tuple(-other.worth, other.rank, other.token, other.parent);
}

bool pays(const Draft &draft, double confidence, const paradraft_price &price) {
    const auto count = static_cast<double>(draft.nodes.size());
    return confidence * (1.0 + price.draft + price.node * count) > price.node * draft.expected;
}

bool is_worthwhile(const Draft &draft, const paradraft_price &price) {
    const auto count = static_cast<double>(draft.nodes.size());
    return draft.expected >= (draft.nodes.empty() ? 1.0 : 1.0 + price.draft + price.node * count);
}

}  // namespace

Draft grow(PathTree &paths, const Pool &pool, const Budget &budget) {
    Draft draft;
    if (budget.nodes < 1 || budget.depth < 1) return draft;
    std::priority_queue<Offer, std::vector<Offer>, decltype(&is_later)> waiting(&is_later);
    waiting.push({1.0, kPlace, 0, -1, 0, 0});
    while (!waiting.empty()) {
        const Offer offer = waiting.top();
        waiting.pop();
        if (!pays(draft, offer.worth, budget.price)) break;
        if (offer.rank != kPlace) {
            const auto node = static_cast<int32_t>(draft.nodes.size());
            draft.nodes.push_back({offer.token, offer.parent, static_cast<int32_t>(offer.depth + 1),
                                   paths.source_of(offer.above, offer.token), offer.worth});
            draft.expected += offer.worth;
            if (node + 1 >= budget.nodes) break;
            if (offer.depth + 1 < budget.depth)
                waiting.push({offer.worth * kHope, kPlace, offer.token, node, offer.depth + 1, offer.above});
            continue;
        }
        const bool is_root = offer.parent < 0;
        const double confidence = is_root ? 1.0 : draft.nodes[static_cast<size_t>(offer.parent)].confidence;
        const int64_t path = is_root ? 0 : paths.descend(offer.above, offer.token);
        Law best = paths.shares(path, pool);
        sort_by_share(best);
        const int64_t room = std::min(budget.width, budget.nodes - static_cast<int64_t>(draft.nodes.size()));
        int64_t rank = (offer.parent + int64_t{1}) * budget.width;
        for (int64_t at = 0; at < room && at < static_cast<int64_t>(best.size()); ++at, ++rank) {
            const Share &one = best[static_cast<size_t>(at)];
            waiting.push({confidence * std::min(one.share, kCeiling), rank, one.token, offer.parent, offer.depth, path});
        }
    }
    return is_worthwhile(draft, budget.price) ? draft : Draft();
}

}  // namespace paradraft
