// A model with its cache, scratch memory, and threads of its own or another's.

#pragma once

#include <memory>
#include <vector>

#include "cache.h"
#include "kernels.h"
#include "paradraft_native.h"
#include "row_views.h"
#include "selection.h"
#include "threads.h"

namespace paradraft {

// Memory that a pass works in. Lines are f32, one per fed token.
struct Workspace {
    Buffer<float> states;           // [T, C] the residual stream
    Buffer<float> tapped;           // [num_tapped, C] lines of taps
    Buffer<float> query_key_value;  // [T, (H + 2 N) D]
    Buffer<float> mixed;            // [T, H D] what attention gives
    Buffer<float> gated;            // [T, F]
    Buffer<float> cosines, sines;   // [T, D/2]
    Buffer<uint32_t> words;         // prepared activations of all tokens
    Buffer<float> factors;
};

// What each thread has for itself.
struct ThreadSpace {
    Buffer<float> line;             // one line of any width
    Buffer<float> block, block_up;  // outputs of a stretch of panels
    Buffer<uint32_t> words;         // prepared activations of few tokens
    Buffer<float> factors;
    Buffer<uint32_t> attention;
    Buffer<Best> best;  // [S] among the outputs that the thread made
};

class Engine {
  public:
    // The model must have been checked. Throws Failure, std::bad_alloc.
    Engine(const paradraft_model &model, const paradraft_options &options, std::shared_ptr<Team> team);

    // Throws Failure or std::bad_alloc, before anything is written.
    void run(const paradraft_pass &pass, const paradraft_results &results);
    // The best ids of the last pass. Throws Failure unless count is its number of scored tokens.
    void best(int64_t count, int32_t *ids) const;
    void append(const paradraft_entries &entries);
    void move(const int32_t *sources, const int32_t *destinations, int64_t count);

    const std::shared_ptr<Team> &team() const { return team_; }
    int32_t instruction_set() const { return kernels_.instruction_set; }
    int64_t cache_bytes() const { return cache_.bytes(); }

  private:
    friend class Pass;

    uint32_t next_mark();
    void set_aside(const paradraft_pass &pass);
    Best best_of(int64_t line) const;

    std::vector<paradraft_layer> layers_;
    std::vector<float> inverse_frequencies_;
    paradraft_model model_;
    const KernelTable &kernels_;
    const SelectionTable &selection_;
    Cache cache_;
    RowViews views_;
    Workspace space_;
    std::vector<ThreadSpace> thread_spaces_;
    std::vector<uint32_t> marks_;  // by slot: the last pass that fed it
    uint32_t mark_ = 0;
    std::vector<int32_t> best_;  // [S] of the last pass
    std::shared_ptr<Team> team_;
};

}  // namespace paradraft
