// What is said of the next token: shares by token, in the order in which they were first named, as in a Python dict.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "paradraft_guessing.h"

namespace paradraft {

struct Share {
    int32_t token;
    double share;
};

using Law = std::vector<Share>;

inline const Share *find(const Law &law, int32_t token) {
    for (const Share &one : law)
        if (one.token == token) return &one;
    return nullptr;
}

// The entry of a token, made with share `first` if there is none.
inline Share &entry(Law &law, int32_t token, double first) {
    for (Share &one : law)
        if (one.token == token) return one;
    law.push_back({token, first});
    return law.back();
}

inline void sort_by_share(Law &law) {
    std::stable_sort(law.begin(), law.end(), [](const Share &one, const Share &other) { return one.share > other.share; });
}

// Leave as many of the likeliest as one answer may have.
inline void keep_likeliest(Law &law) {
    if (law.size() <= PARADRAFT_MOST_SHARES) return;
    sort_by_share(law);
    law.resize(PARADRAFT_MOST_SHARES);
}

}  // namespace paradraft
