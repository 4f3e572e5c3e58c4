#include "row_views.h"

#include <algorithm>

namespace paradraft {

void RowViews::lay_out(const paradraft_pass &pass) {
    rows_.clear();
    slots_.clear();
    blocks_.clear();
    tails_.clear();
    tokens_.clear();
    tail_starts_.clear();
    for (int64_t row = 0; row < pass.num_rows; ++row) lay_out_row(pass, row);
    // Tails have stopped growing, so their addresses stay.
    for (size_t token = 0; token < tokens_.size(); ++token) tokens_[token].tail = tails_.data() + tail_starts_[token];
}

void RowViews::lay_out_row(const paradraft_pass &pass, int64_t number) {
    const int64_t first = pass.row_starts[number], count = pass.row_starts[number + 1] - first;
    const bool is_whole = pass.sees_both_ways != 0;
    const int32_t *slots = pass.slots + first, *parents = is_whole ? nullptr : pass.parents + first;
    const int32_t *context = pass.context_slots + pass.context_starts[number];
    const int32_t context_size = pass.context_starts[number + 1] - pass.context_starts[number];
    int64_t trunk = is_whole ? count : 0;
    while (trunk < count && parents[trunk] == trunk - 1) ++trunk;

    RowView row = {first, first + count, static_cast<int64_t>(slots_.size()), context_size + trunk, 0};
    slots_.insert(slots_.end(), context, context + context_size);
    slots_.insert(slots_.end(), slots, slots + trunk);
    find_blocks(row);
    rows_.push_back(row);

    for (int64_t token = 0; token < count; ++token) {
        const size_t tail_start = tails_.size();
        int64_t ancestor = is_whole ? count - 1 : token;  // the last of the trunk that it sees
        for (; ancestor >= trunk; ancestor = parents[ancestor]) tails_.push_back(slots[ancestor]);
        std::reverse(tails_.begin() + static_cast<std::ptrdiff_t>(tail_start), tails_.end());
        const int32_t shared = context_size + static_cast<int32_t>(ancestor) + 1;
        tokens_.push_back({0, shared, static_cast<int32_t>(tails_.size() - tail_start), nullptr});
        tail_starts_.push_back(static_cast<int64_t>(tail_start));
    }
}

void RowViews::find_blocks(RowView &row) {
    row.first_block = static_cast<int64_t>(blocks_.size());
    const int32_t *slots = slots_.data() + row.first_slot;
    for (int64_t first = 0; first < row.num_slots; first += kPanel) {
        const int64_t stop = std::min(row.num_slots, first + kPanel);
        bool is_run = slots[first] % kPanel == 0;
        for (int64_t i = first + 1; i < stop && is_run; ++i) is_run = slots[i] == slots[first] + (i - first);
        blocks_.push_back(is_run ? static_cast<int32_t>(slots[first] / kPanel) : -1);
    }
}

}  // namespace paradraft
