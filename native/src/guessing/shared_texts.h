// Finished answers that later requests of the same tenant can draft from; the twin of drafters/shared.py.

#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "token_index.h"

namespace paradraft {

// All tenants together hold at most max_tokens tokens; the oldest text goes first, whoever's it is.
class SharedTexts {
  public:
    explicit SharedTexts(int64_t max_tokens) : max_tokens_(max_tokens) {}

    // The texts of a tenant, null if there are none.
    const TokenIndex *of(const std::string &tenant) const;
    // Take in a finished text; too long ones keep their end.
    void add(const std::string &tenant, std::vector<int32_t> text);

  private:
    struct Text {
        std::string tenant;
        int64_t size;
    };

    void evict();

    int64_t max_tokens_, num_tokens_ = 0;
    std::unordered_map<std::string, std::unique_ptr<TokenIndex>> indices_;
    std::deque<Text> texts_;
};

}  // namespace paradraft
