#include "engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checks.h"
#include "dispatch.h"
#include "failure.h"
#include "pass.h"

namespace paradraft {
namespace {

const KernelTable &chosen_kernels(int32_t instruction_set) {
    if (const KernelTable *table = kernels_of(instruction_set)) return *table;
    throw Failure{PARADRAFT_NOT_SUPPORTED,
                  "Instruction set " + std::to_string(instruction_set) + " is not in this machine or this library."};
}

CacheShape cache_shape(const paradraft_model &model, const paradraft_options &options) {
    return {model.num_layers, model.num_key_heads, model.head_dim, options.num_slots, options.cache_kind};
}

}  // namespace

Engine::Engine(const paradraft_model &model, const paradraft_options &options, std::shared_ptr<Team> team)
    : model_(model),
      kernels_(chosen_kernels(options.instruction_set)),
      selection_(selection_of(options.instruction_set)),
      cache_(cache_shape(model, options)),
      thread_spaces_(static_cast<size_t>(team->size())),
      marks_(static_cast<size_t>(options.num_slots), 0),
      team_(std::move(team)) {
    layers_.assign(model.layers, model.layers + model.num_layers);
    inverse_frequencies_.assign(model.inverse_frequencies, model.inverse_frequencies + model.head_dim / 2);
    model_.layers = layers_.data();
    model_.inverse_frequencies = inverse_frequencies_.data();
}

void Engine::run(const paradraft_pass &pass, const paradraft_results &results) {
    check_pass(model_, cache_.shape().num_slots, pass, results, marks_.data(), next_mark());
    best_.resize(static_cast<size_t>(pass.num_scored));
    if (pass.num_tokens == 0) return;
    views_.lay_out(pass);
    set_aside(pass);
    Pass work(*this, pass, results);
    team_->run(
        [](void *context, int thread) { static_cast<Pass *>(context)->run(thread); }, static_cast<void *>(&work));
    for (int64_t i = 0; i < pass.num_scored; ++i) best_[static_cast<size_t>(i)] = best_of(i).id;
}

// The winner among what all threads made of a line.
Best Engine::best_of(int64_t line) const {
    Best most = kNoBest;
    for (const ThreadSpace &own : thread_spaces_) most = better(most, own.best.data()[line]);
    return most;
}

void Engine::best(int64_t count, int32_t *ids) const {
    if (count != static_cast<int64_t>(best_.size()) || (count > 0 && ids == nullptr))
        refuse("The last pass scored " + std::to_string(best_.size()) + " tokens, not " + std::to_string(count) + ".");
    std::copy(best_.begin(), best_.end(), ids);
}

void Engine::append(const paradraft_entries &entries) {
    check_entries(model_, cache_.shape().num_slots, entries, marks_.data(), next_mark());
    if (entries.num_entries == 0) return;
    const int32_t no_rows[] = {0};
    paradraft_pass pass = {};
    pass.num_tokens = entries.num_entries;
    pass.row_starts = pass.context_starts = no_rows;
    pass.positions = entries.positions;
    pass.slots = entries.slots;
    pass.states = entries.taps;
    const paradraft_results results = {};
    views_.lay_out(pass);
    set_aside(pass);
    Pass work(*this, pass, results);
    team_->run(
        [](void *context, int thread) { static_cast<Pass *>(context)->append(thread); }, static_cast<void *>(&work));
}

uint32_t Engine::next_mark() {
    if (++mark_ == 0) {  // after four billion passes
        std::fill(marks_.begin(), marks_.end(), 0u);
        mark_ = 1;
    }
    return mark_;
}

void Engine::move(const int32_t *sources, const int32_t *destinations, int64_t count) {
    check_move(cache_.shape().num_slots, sources, destinations, count);
    cache_.move(sources, destinations, count);
}

void Engine::set_aside(const paradraft_pass &pass) {
    const int64_t tokens = pass.num_tokens, size = model_.hidden_size, inner = model_.intermediate_size;
    const int64_t heads = model_.num_heads * model_.head_dim;
    const int64_t joined = heads + 2 * model_.num_key_heads * model_.head_dim;
    const int64_t read = std::any_of(layers_.begin(), layers_.end(),
                                     [](const paradraft_layer &layer) { return layer.side_norm != nullptr; })
                             ? 2 * size
                             : size;
    const int64_t widest = std::max({read, inner, heads, model_.taps.inputs});
    space_.states.reserve(tokens * size);
    space_.tapped.reserve(pass.num_tapped * size);
    space_.query_key_value.reserve(tokens * joined);
    space_.mixed.reserve(tokens * heads);
    space_.gated.reserve(tokens * inner);
    space_.cosines.reserve(tokens * model_.head_dim / 2);
    space_.sines.reserve(tokens * model_.head_dim / 2);
    space_.words.reserve(tokens * round_up(widest, 2 * kBlockSteps));  // of any kind: at most one an input
    space_.factors.reserve(tokens * factors_of(PARADRAFT_INT8, widest));
    for (ThreadSpace &own : thread_spaces_) {
        own.line.reserve(round_up(widest, kPanel));
        own.block.reserve(kBlockTokens * kBlockOutputs);
        own.block_up.reserve(kBlockTokens * kBlockOutputs);
        own.words.reserve(kOwnWords);
        own.factors.reserve(2 * kOwnWords);
        own.best.reserve(pass.num_scored);
        std::fill_n(own.best.data(), pass.num_scored, kNoBest);
        own.attention.reserve(AttentionScratch::words_for(model_.head_dim));
    }
}

}  // namespace paradraft
