// What every fed token of a pass sees, worked out once per pass.
//
// The fed tokens of a row that follow each other from its context on are its trunk. A row's slots are those of its
// context and its trunk; a token off the trunk shares them up to where its branch leaves, and has the rest as a tail.
// In a pass that sees both ways all fed tokens of a row are its trunk, and each of them sees all of it.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace paradraft {

struct RowView {
    int64_t first_token, stop_token;  // fed
    int64_t first_slot, num_slots;    // in RowViews::slots
    int64_t first_block;              // in RowViews::blocks
};

class RowViews {
  public:
    // The pass must have been checked. Throws std::bad_alloc.
    void lay_out(const paradraft_pass &pass);

    const std::vector<RowView> &rows() const { return rows_; }
    const int32_t *slots(const RowView &row) const { return slots_.data() + row.first_slot; }
    const int32_t *blocks(const RowView &row) const { return blocks_.data() + row.first_block; }
    // Of a fed token, without a window.
    const TokenView &token(int64_t token) const { return tokens_[static_cast<size_t>(token)]; }

  private:
    void lay_out_row(const paradraft_pass &pass, int64_t row);
    void find_blocks(RowView &row);

    std::vector<RowView> rows_;
    std::vector<int32_t> slots_, blocks_, tails_;
    std::vector<TokenView> tokens_;
    std::vector<int64_t> tail_starts_;
};

}  // namespace paradraft
