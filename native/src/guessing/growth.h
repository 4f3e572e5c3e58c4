// Grows a draft from guesses: the likeliest node first, as long as it pays; the twin of drafters/growth.py.

#pragma once

#include <cstdint>
#include <vector>

#include "path_tree.h"

namespace paradraft {

struct Budget {
    int64_t nodes, depth, width;
    paradraft_price price;
};

struct Node {
    int32_t token, parent, depth;
    uint32_t sources;
    double confidence;
};

struct Draft {
    std::vector<Node> nodes;
    double expected = 1.0;  // tokens that a pass over this draft is expected to commit
};

// The draft that the guesses support, an empty one if none pays.
Draft grow(PathTree &paths, const Pool &pool, const Budget &budget);

}  // namespace paradraft
