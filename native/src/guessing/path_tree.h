// What the sources say of one row, path by path; the twin of MergedGuesses in drafters/merged.py.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "blend.h"
#include "context.h"
#include "recent_counts.h"
#include "table.h"
#include "votes.h"

namespace paradraft {

// Where each source looks a row's next tokens up. Pointers are null where there is no such source.
struct Sources {
    const std::vector<int32_t> *kinds;
    const RecentCounts *recent;
    const Table *table;
    const TenantCounts *learned;
};

// Noise of a row's positions from its first new token on.
struct NoiseKey {
    bool is_on;
    uint64_t seed, choice;
    uint64_t start;

    PositionNoise at(int32_t depth) const { return PositionNoise(key_of(seed, choice, start + static_cast<uint64_t>(depth))); }
};

class PathTree {
  public:
    // camp: the voters of the row's suffix; paths are voted on up to `depth` tokens. history and known: the row's text,
    // and the part of it up to its last pending token.
    PathTree(const Sources &sources, const NoiseKey &noise, Camp camp, int32_t depth, const Context &history,
             const Context &known);

    bool has_any() const;
    // Whether it can be asked still. Once closed, it can only be learned from: the texts behind it may have gone.
    bool is_open() const { return is_open_; }
    void close() { is_open_ = false; }
    int64_t size() const { return static_cast<int64_t>(places_.size()); }
    // The likeliest tokens after a path, which number 0 is the empty one.
    const Law &shares(int64_t path, const Pool &pool);
    // The path one token further.
    int64_t descend(int64_t path, int32_t token);
    // Bits of the sources that named a token; 0 before shares() was asked for.
    uint32_t source_of(int64_t path, int32_t token) const;
    // Learn from the tokens that the target chose, as far as the path they make was asked about.
    void learn(const int32_t *tokens, int64_t count, Pool &pool) const;

  private:
    struct Place {
        int32_t depth = 0;
        Camp camp;  // empty where the suffix has nothing to say
        Context history, known;
        bool is_blended = false;
        Blend blend;
        Law likeliest;
        std::vector<std::pair<int32_t, int64_t>> below;
    };

    Law told(const Place &place, int32_t kind, const PositionNoise *noise) const;

    Sources sources_;
    NoiseKey noise_;
    int32_t depth_;
    bool is_open_ = true;
    std::vector<Place> places_;
};

}  // namespace paradraft
