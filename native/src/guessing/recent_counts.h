// Counts of a row's own text; the twin of drafters/table/recent.py.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "context.h"
#include "counts.h"
#include "law.h"

namespace paradraft {

class RecentCounts {
  public:
    // max_tokens: of a text that is first seen, its last ones are counted.
    explicit RecentCounts(int64_t max_tokens) : max_tokens_(max_tokens) {}

    // Count what a growing text has beyond what was counted.
    void follow(const int32_t *text, int64_t length);
    // The chances after a context.
    Law shares(const Context &context) const;

  private:
    static constexpr std::array<int32_t, 5> kLengths = {1, 2, 3, 4, 6};

    int64_t max_tokens_, num_counted_ = 0;
    std::array<std::unordered_map<uint64_t, Counts>, kLengths.size()> counts_;  // by length and key
};

}  // namespace paradraft
