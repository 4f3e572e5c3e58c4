// A drafter of one tree per row from what is known of texts; the twin of drafters/merged.py over its free sources.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "growth.h"
#include "overlay.h"
#include "path_tree.h"
#include "recent_counts.h"
#include "shared_texts.h"
#include "table.h"
#include "token_index.h"

namespace paradraft {

class Guesser {
  public:
    explicit Guesser(const paradraft_guesser_options &options);

    int64_t begin(const paradraft_guesser_row &given);
    void end(int64_t row, const int32_t *text, int64_t length);
    // Read on and look up. Steps are checked by the caller, so here and below.
    void look_up(const paradraft_guesser_step *steps, int64_t num_rows);
    // The draft of a row that was looked up, an empty one for others.
    Draft draft(int64_t row, const Budget &budget);
    void observe(const paradraft_guesser_step *steps, int64_t num_rows, const int32_t *starts, const int32_t *tokens);

    // The guesses of a row; null where it has none that can be asked still.
    PathTree *paths(int64_t row) const;
    const Law &shares(int64_t row, int64_t path);

    const Pool &pool(bool is_warm) const { return pools_[is_warm ? 1 : 0]; }
    bool has_row(int64_t row) const { return rows_.count(row) != 0; }
    int64_t vocab_size() const { return vocab_size_; }
    int64_t width() const { return width_; }
    size_t num_sources() const { return kinds_.size(); }
    // Throws Failure unless a row is there and its text holds tokens; what was checked before is not looked at again.
    void check_step(const paradraft_guesser_step &step);
    void check_tokens(const int32_t *tokens, int64_t count) const;

  private:
    struct Row {
        Row(const paradraft_guesser_row &given, int64_t row_tokens, int64_t counted_tokens);

        std::string tenant;
        int64_t answer_from, num_checked = 0;
        uint64_t seed, choice;
        bool is_warm, has_noise;
        TokenIndex own;
        std::vector<int32_t> tail;  // committed in the last step, not indexed yet
        RecentCounts recent;
        std::optional<PathTree> paths;
    };

    bool has(int32_t kind) const;
    PathTree looked_up(Row &row, const paradraft_guesser_step &step) const;
    Row &row_of(int64_t row) const { return *rows_.at(row); }

    int64_t vocab_size_, width_, row_tokens_, counted_tokens_;
    std::vector<int32_t> kinds_;
    std::array<Pool, 2> pools_;
    Table table_;
    SharedTexts shared_;
    Overlay learned_;
    std::unordered_map<int64_t, std::unique_ptr<Row>> rows_;
    std::vector<int64_t> asked_;  // rows that have guesses
    int64_t next_row_ = 0;
};

}  // namespace paradraft
