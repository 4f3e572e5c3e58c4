// Weighs what came after a context of several lengths; the twin of drafters/table/interpolation.py.

#pragma once

#include <array>
#include <vector>

#include "counts.h"
#include "law.h"

namespace paradraft {

constexpr size_t kMostSeen = 2 * kMaxEntries;  // what a table and what a tenant's answers know of one context

// How often a context was seen, what came after it, and what is taken off counts of 0, 1, 2 and more.
struct Seen {
    int64_t total = 0;
    const double *discounts = nullptr;  // [4]
    size_t size = 0;
    std::array<Count, kMostSeen> entries;

    void add(int32_t token, int32_t count) {
        for (size_t at = 0; at < size; ++at) {
            if (entries[at].token != token) continue;
            entries[at].count += count;
            return;
        }
        entries[size++] = {token, count};
    }
};

// Add the chances to an empty law, and return what is left of certainty. found: the contexts known, the shortest first.
inline double interpolate(const std::vector<Seen> &found, Law &law) {
    constexpr double kEnough = 0.02;  // what is left below which shorter contexts are not asked
    double mass = 1.0;
    for (size_t at = found.size(); at-- > 0;) {
        const Seen &seen = found[at];
        const double scale = mass / static_cast<double>(seen.total);
        for (size_t place = 0; place < seen.size; ++place) {
            const Count &one = seen.entries[place];
            const double part = (one.count - seen.discounts[one.count < 3 ? one.count : 3]) * scale;
            mass -= part;
            entry(law, one.token, 0.0).share += part;
        }
        if (mass < kEnough) break;
    }
    return mass;
}

}  // namespace paradraft
