#include "recent_counts.h"

#include <algorithm>

#include "interpolation.h"

namespace paradraft {
namespace {

constexpr double kDiscounts[4] = {0.0, 0.6, 0.9, 1.2};  // half of what is seen once comes again

}  // namespace

void RecentCounts::follow(const int32_t *text, int64_t length) {
    const int64_t first = std::max<int64_t>({num_counted_, length - max_tokens_, 1});
    for (int64_t place = first; place < length; ++place) {
        Key key;
        for (size_t order = 0; order < kLengths.size() && kLengths[order] <= place; ++order) {
            const uint64_t found = key.of(kLengths[order], [&](int32_t back) { return text[place - 1 - back]; });
            counts_[order][found].add(text[place]);
        }
    }
    num_counted_ = length;
}

Law RecentCounts::shares(const Context &context) const {
    std::vector<Seen> found;
    Key key;
    for (size_t order = 0; order < kLengths.size() && kLengths[order] <= context.size; ++order) {
        const auto at = counts_[order].find(key.of(kLengths[order], context));
        if (at == counts_[order].end()) break;
        Seen &seen = found.emplace_back();
        seen.total = at->second.total();
        seen.discounts = kDiscounts;
        for (const Count &one : at->second) seen.add(one.token, one.count);
    }
    Law law;
    interpolate(found, law);
    keep_likeliest(law);
    return law;
}

}  // namespace paradraft
