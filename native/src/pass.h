// One pass over all layers, run by every thread of an engine's team in one parallel region.
//
// Stages are separated by meeting points: input norm with query_key_value | norms of heads, rotation and append |
// attention | output | inner norm with gate and up | down. What a stage reads as prepared words each thread prepares
// for itself when that is little work, which saves a meeting; prepared together or alone, the words are the same.
// Nobody reads the states while heads are placed, so a layer that goes on from normed ones norms them then.

#pragma once

#include <vector>

#include "engine.h"

namespace paradraft {

constexpr int64_t kBlockTokens = 96;         // tokens whose activations stay close while weights pass by
constexpr int64_t kBlockOutputs = 32;        // of one claim that gates
constexpr int64_t kLongPanel = 1 << 13;      // bytes from which on a claim is half as many panels
constexpr int64_t kFetchedBytes = 1 << 20;   // of the weights behind attention
constexpr int64_t kFetchedStart = 1 << 16;   // bytes of the weights behind other stages, per thread
constexpr int64_t kOwnWords = 1 << 14;       // words that each thread prepares for itself

class Pass {
  public:
    Pass(Engine &engine, const paradraft_pass &pass, const paradraft_results &results);

    // The work of one thread: a whole pass, or keys and values of context entries, whose taps are the pass's states.
    void run(int thread);
    void append(int thread);

  private:
    // Lines that a product reads: normed first if there is a norm; picked by index if there are picks; behind their
    // sides, normed too, if there are any.
    struct Source {
        const float *lines;
        int64_t width;
        const float *norm;
        const int32_t *picks;
        int64_t count;
        const float *sides = nullptr;
        const float *side_norm = nullptr;

        int64_t read_width() const { return side_norm == nullptr ? width : 2 * width; }
    };
    struct Prepared {
        const uint32_t *words;
        const float *factors;
        Tiling tiling;
    };
    enum class Sink { kStore, kAdd, kScore };  // kScore: store, and find the best output of each line
    struct AttentionItem {
        int64_t row, key_head, first_token, num_tokens, first_head, num_heads;
    };

    Team &team() const { return *engine_.team_; }
    bool is_asked_behind_keys() const;
    void embed(int thread);
    void find_state(int64_t token, float *state) const;
    void find_angles(int64_t token);
    void tap(int thread, int64_t layer);
    Prepared prepare(int thread, int32_t kind, const Source &source);
    const float *read_line(int thread, const Source &source, int64_t line);
    void prepare_line(int thread, int32_t kind, const Source &source, const Tiling &tiling, int64_t line,
                      uint32_t *words, float *factors);
    template <class Body>
    void share_out(int thread, const paradraft_matrix &matrix, int64_t skipped, const Prepared &prepared,
                   int64_t most_panels, Body body);
    static void aim(MultiplyTask &task, const paradraft_matrix &matrix, int64_t output);
    void project(int thread, const paradraft_matrix &matrix, const Source &source, Sink sink, float *outputs,
                 int64_t skipped = 0);
    void find_best(int thread, const MultiplyTask &task, int64_t line, int64_t output);
    void project_gated(int thread, const paradraft_layer &layer, const Source &source, float *outputs);
    void norm_states(int thread, const float *norm);
    void place_heads(int thread, int64_t layer, int64_t first_head);
    void place_head(const paradraft_layer &layer, int64_t number, int64_t token, int64_t head, float *lines);
    void plan_attention();
    void attend(int thread, int64_t layer);
    void meet_before(int thread, const paradraft_matrix &matrix);
    static void fetch_part(const paradraft_matrix &matrix, int64_t part, int64_t parts);
    void attend_item(const AttentionItem &item, int thread, int64_t layer, float *entropy);
    float *entropy_of(int64_t layer) const;
    void tell_normed(int thread, const Source &source);
    void sum_up(int thread);
    float log_total(int64_t line, float temperature) const;

    Engine &engine_;
    const paradraft_model &model_;
    const KernelTable &kernels_;
    const paradraft_pass &pass_;
    const paradraft_results &results_;
    const int64_t tokens_, heads_width_, joined_width_;
    std::vector<AttentionItem> items_;
};

}  // namespace paradraft
