// The votes of earlier occurrences on the next token; the twin of drafters/votes.py and voter_guesses.py.

#pragma once

#include <array>
#include <vector>

#include "law.h"
#include "token_index.h"

namespace paradraft {

constexpr int32_t kMaxMatch = 12;  // longer matches count as this long

// The occurrences that agree with a path: of the row's own text, and of finished texts.
using Camp = std::array<std::vector<Occurrence>, 2>;

Camp find_voters(const TokenIndex &own, const TokenIndex *shared, int32_t depth);

bool is_empty(const Camp &camp);

// The shares of the tokens `level` behind the matches.
Law votes(const Camp &camp, int32_t level);

// Those who agree with a token too.
Camp agreeing(const Camp &camp, int32_t level, int32_t token);

// Bit 0: the row's own text has a voter for the token; bit 1: finished texts have.
uint32_t bodies_of(const Camp &camp, int32_t level, int32_t token);

}  // namespace paradraft
