#include "pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "packing.h"

namespace paradraft {
namespace {

// Panels of one claim: long ones make a claim of fewer.
int64_t panels_of_claim(const paradraft_matrix &matrix) {
    return panel_bytes(matrix.kind, matrix.inputs) < kLongPanel ? 4 : 2;
}

}  // namespace

Pass::Pass(Engine &engine, const paradraft_pass &pass, const paradraft_results &results)
    : engine_(engine),
      model_(engine.model_),
      kernels_(engine.kernels_),
      pass_(pass),
      results_(results),
      tokens_(pass.num_tokens),
      heads_width_(model_.num_heads * model_.head_dim),
      joined_width_(heads_width_ + 2 * model_.num_key_heads * model_.head_dim) {
    plan_attention();
}

void Pass::run(int thread) {
    Workspace &space = engine_.space_;
    const int64_t size = model_.hidden_size;
    float *states = space.states.data();
    const int64_t last = is_asked_behind_keys() ? model_.num_layers : model_.num_layers - 1;
    embed(thread);
    team().meet();
    for (int64_t number = 0; number < model_.num_layers; ++number) {
        const paradraft_layer &layer = model_.layers[number];
        tap(thread, number - 1);
        project(thread, layer.query_key_value,
                {states, size, layer.input_norm, nullptr, tokens_, pass_.sides, layer.side_norm}, Sink::kStore,
                space.query_key_value.data(), number == last ? heads_width_ / kPanel : 0);
        team().meet();
        place_heads(thread, number, number == last ? model_.num_heads : 0);
        if (number == last) return;
        if (layer.goes_on_normed != 0) norm_states(thread, layer.input_norm);
        team().meet();
        attend(thread, number);
        team().meet();
        project(thread, layer.output, {space.mixed.data(), heads_width_, nullptr, nullptr, tokens_}, Sink::kAdd, states);
        meet_before(thread, layer.gate);
        project_gated(thread, layer, {states, size, layer.inner_norm, nullptr, tokens_}, space.gated.data());
        meet_before(thread, layer.down);
        project(thread, layer.down, {space.gated.data(), model_.intermediate_size, nullptr, nullptr, tokens_}, Sink::kAdd,
                states);
        meet_before(thread, number + 1 < model_.num_layers ? model_.layers[number + 1].query_key_value : model_.head);
    }
    tap(thread, model_.num_layers - 1);
    if (pass_.num_scored == 0) return;
    const Source scored = {states, size, model_.final_norm, pass_.scored, pass_.num_scored};
    tell_normed(thread, scored);
    project(thread, model_.head, scored, Sink::kScore, results_.logits);
    if (results_.candidates == nullptr && results_.log_totals == nullptr) return;
    team().meet();
    sum_up(thread);
}

// Whether anything is asked for that the keys and values of the last layer are not enough for.
bool Pass::is_asked_behind_keys() const {
    const int64_t last = model_.num_layers - 1;
    const int32_t *hidden = pass_.hidden_layers, *entropy = pass_.entropy_layers;
    return pass_.num_scored > 0 || std::count(hidden, hidden + pass_.num_hidden_layers, last) > 0 ||
           std::count(entropy, entropy + pass_.num_entropy_layers, last) > 0;
}

// Of the joined products only the panels from the first key on are made.
void Pass::append(int thread) {
    Workspace &space = engine_.space_;
    float *states = space.states.data();
    for (int64_t token = thread; token < tokens_; token += team().size()) find_angles(token);
    project(thread, model_.taps, {pass_.states, model_.taps.inputs, nullptr, nullptr, tokens_}, Sink::kStore, states);
    for (int64_t number = 0; number < model_.num_layers; ++number) {
        team().meet();
        project(thread, model_.layers[number].query_key_value,
                {states, model_.hidden_size, model_.taps_norm, nullptr, tokens_}, Sink::kStore,
                space.query_key_value.data(), heads_width_ / kPanel);
        team().meet();
        place_heads(thread, number, model_.num_heads);
    }
}

void Pass::embed(int thread) {
    const int64_t size = model_.hidden_size;
    const float *lines = engine_.space_.tapped.data();
    if (pass_.num_tapped > 0) {
        project(thread, model_.taps, {pass_.taps, model_.taps.inputs, nullptr, nullptr, pass_.num_tapped}, Sink::kStore,
                engine_.space_.tapped.data());
        team().meet();
    }
    int64_t next = 0;  // among those tapped
    for (int64_t token = thread; token < tokens_; token += team().size()) {
        float *state = engine_.space_.states.data() + token * size;
        while (next < pass_.num_tapped && pass_.tapped[next] < token) ++next;
        if (next == pass_.num_tapped || pass_.tapped[next] != token)
            find_state(token, state);
        else if (model_.taps_norm != nullptr)
            kernels_.rms_norm(lines + next * size, model_.taps_norm, size, model_.norm_eps, state);
        else
            std::memcpy(state, lines + next * size, static_cast<size_t>(size) * sizeof(float));
        find_angles(token);
    }
}

// Write what enters the first layer for a token that has no taps.
void Pass::find_state(int64_t token, float *state) const {
    const int64_t size = model_.hidden_size;
    if (pass_.states != nullptr)
        std::memcpy(state, pass_.states + token * size, static_cast<size_t>(size) * sizeof(float));
    else if (model_.embedding != nullptr)
        widen_row(model_.embedding, model_.embedding_kind, pass_.tokens[token], size, state);
    else
        unpack_row(model_.head, pass_.tokens[token], state);
}

// Angles are f32 as in the models' own code; their cosines and sines are rounded once.
void Pass::find_angles(int64_t token) {
    const int64_t half = model_.head_dim / 2;
    const float position = static_cast<float>(pass_.positions[token]);
    float *cosines = engine_.space_.cosines.data() + token * half, *sines = engine_.space_.sines.data() + token * half;
    for (int64_t i = 0; i < half; ++i) {
        const float angle = position * model_.inverse_frequencies[i];
        cosines[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * model_.rope_factor;
        sines[i] = static_cast<float>(std::sin(static_cast<double>(angle))) * model_.rope_factor;
    }
}

// Copy the residual stream behind a layer. Nothing changes it before the next layer's first meeting.
void Pass::tap(int thread, int64_t layer) {
    const int64_t size = model_.hidden_size;
    for (int64_t i = 0; i < pass_.num_hidden_layers; ++i) {
        if (pass_.hidden_layers[i] != layer) continue;
        for (int64_t token = thread; token < tokens_; token += team().size())
            std::memcpy(results_.hidden + (i * tokens_ + token) * size, engine_.space_.states.data() + token * size,
                        static_cast<size_t>(size) * sizeof(float));
    }
}

// A line as the product reads it; it may lie in the thread's own memory.
const float *Pass::read_line(int thread, const Source &source, int64_t line) {
    const int64_t place = (source.picks == nullptr ? line : source.picks[line]) * source.width;
    if (source.norm == nullptr) return source.lines + place;
    float *normed = engine_.thread_spaces_[static_cast<size_t>(thread)].line.data(), *behind = normed;
    if (source.side_norm != nullptr) {
        kernels_.rms_norm(source.sides + place, source.side_norm, source.width, model_.norm_eps, normed);
        behind += source.width;
    }
    kernels_.rms_norm(source.lines + place, source.norm, source.width, model_.norm_eps, behind);
    return normed;
}

void Pass::prepare_line(int thread, int32_t kind, const Source &source, const Tiling &tiling, int64_t line,
                        uint32_t *words, float *factors) {
    const float *from = read_line(thread, source, line);
    const int64_t width = source.read_width();
    int64_t tile = line * tiling.count / tiling.tokens;  // at most one too few
    while (tiling.start(tile + 1) <= line) ++tile;
    while (tiling.start(tile) > line) --tile;
    const int64_t start = tiling.start(tile), size = tiling.size(tile), lane = line - start;
    kernels_.prepare(kind, from, width, words + start * kernels_.words_of(kind, width) + lane * kernels_.block_words(kind),
                     factors + start * factors_of(kind, width) + lane, size);
}

Pass::Prepared Pass::prepare(int thread, int32_t kind, const Source &source) {
    const Tiling tiling = kernels_.tile(kind, source.count);
    const bool is_own = source.count * kernels_.words_of(kind, source.read_width()) <= kOwnWords;
    ThreadSpace &own = engine_.thread_spaces_[static_cast<size_t>(thread)];
    uint32_t *words = is_own ? own.words.data() : engine_.space_.words.data();
    float *factors = is_own ? own.factors.data() : engine_.space_.factors.data();
    const int64_t stride = is_own ? 1 : team().size();
    for (int64_t line = is_own ? 0 : thread; line < source.count; line += stride)
        prepare_line(thread, kind, source, tiling, line, words, factors);
    if (!is_own) team().meet();
    return {words, factors_of(kind, 1) > 0 ? factors : nullptr, tiling};
}

// Share out the products of a matrix, but for the panels that are skipped, and its prepared lines: body gets a task
// without outputs, its first line and its first output.
template <class Body>
void Pass::share_out(int thread, const paradraft_matrix &matrix, int64_t skipped, const Prepared &prepared,
                     int64_t most_panels, Body body) {
    const int64_t panels = divide_up(matrix.outputs, kPanel), pieces = divide_up(panels - skipped, most_panels);
    const int64_t tiles = std::max<int64_t>(1, kBlockTokens / prepared.tiling.size(0));
    const int64_t blocks = divide_up(prepared.tiling.count, tiles);
    MultiplyTask task = {};
    task.panel_bytes = panel_bytes(matrix.kind, matrix.inputs);
    task.steps = steps_of(matrix.kind, matrix.inputs);
    task.words = prepared.words;
    task.factors = prepared.factors;
    task.inputs = matrix.inputs;
    task.tiling = prepared.tiling;
    for (int64_t claim; (claim = team().claim(thread, pieces * blocks)) < pieces * blocks;) {
        const int64_t first_panel = skipped + claim % pieces * most_panels;
        task.panel_count = std::min(most_panels, panels - first_panel);
        task.output_count = std::min(task.panel_count * kPanel, matrix.outputs - first_panel * kPanel);
        task.first_tile = claim / pieces * tiles;
        task.stop_tile = std::min(task.first_tile + tiles, prepared.tiling.count);
        body(task, prepared.tiling.start(task.first_tile), first_panel * kPanel);
    }
}

// Point a task at a matrix, from one of its outputs on.
void Pass::aim(MultiplyTask &task, const paradraft_matrix &matrix, int64_t output) {
    task.panels = static_cast<const uint8_t *>(matrix.data) + output / kPanel * task.panel_bytes;
    task.bias = matrix.bias == nullptr ? nullptr : matrix.bias + output;
}

void Pass::project(int thread, const paradraft_matrix &matrix, const Source &source, Sink sink, float *outputs,
                   int64_t skipped) {
    share_out(thread, matrix, skipped, prepare(thread, matrix.kind, source), panels_of_claim(matrix),
              [&](MultiplyTask &task, int64_t line, int64_t output) {
                  aim(task, matrix, output);
                  task.is_added = sink == Sink::kAdd;
                  task.outputs = outputs + line * matrix.outputs + output;
                  task.stride = matrix.outputs;
                  kernels_.multiply(matrix.kind, task);
                  if (sink == Sink::kScore) find_best(thread, task, line, output);
              });
}

// Let the outputs of a finished task compete, while they are close. Those of lower ids compete apart, since of equal ones
// the lowest wins.
void Pass::find_best(int thread, const MultiplyTask &task, int64_t line, int64_t output) {
    Best *best = engine_.thread_spaces_[static_cast<size_t>(thread)].best.data() + line;
    const int64_t lines = task.tiling.start(task.stop_tile) - line;
    for (int64_t i = 0; i < lines; ++i) {
        const bool is_behind = best[i].id <= output;
        Best apart = kNoBest;
        engine_.selection_.find_best(task.outputs + i * task.stride, task.output_count, output,
                                     is_behind ? best + i : &apart);
        if (!is_behind) best[i] = better(best[i], apart);
    }
}

void Pass::project_gated(int thread, const paradraft_layer &layer, const Source &source, float *outputs) {
    ThreadSpace &own = engine_.thread_spaces_[static_cast<size_t>(thread)];
    const int64_t width = layer.gate.outputs;
    share_out(thread, layer.gate, 0, prepare(thread, layer.gate.kind, source), kBlockOutputs / kPanel,
              [&](MultiplyTask &task, int64_t line, int64_t output) {
                  task.stride = kBlockOutputs;
                  aim(task, layer.gate, output);
                  task.outputs = own.block.data();
                  kernels_.multiply(layer.gate.kind, task);
                  aim(task, layer.up, output);
                  task.outputs = own.block_up.data();
                  kernels_.multiply(layer.up.kind, task);
                  const int64_t lines = task.tiling.start(task.stop_tile) - line;
                  for (int64_t i = 0; i < lines; ++i)
                      kernels_.gate(own.block.data() + i * kBlockOutputs, own.block_up.data() + i * kBlockOutputs,
                                    task.output_count, outputs + (line + i) * width + output);
              });
}

void Pass::norm_states(int thread, const float *norm) {
    const int64_t size = model_.hidden_size;
    for (int64_t token = thread; token < tokens_; token += team().size()) {
        float *state = engine_.space_.states.data() + token * size;
        kernels_.rms_norm(state, norm, size, model_.norm_eps, state);
    }
}

// Norm and rotate queries and keys, from one head on, where they lie; write keys and values to their slots.
void Pass::place_heads(int thread, int64_t number, int64_t first_head) {
    const int64_t heads = model_.num_heads + model_.num_key_heads - first_head, total = tokens_ * heads;
    const int64_t threads = team().size();
    for (int64_t i = total * thread / threads; i < total * (thread + 1) / threads; ++i)
        place_head(model_.layers[number], number, i / heads, first_head + i % heads,
                   engine_.space_.query_key_value.data() + i / heads * joined_width_);
}

void Pass::place_head(const paradraft_layer &layer, int64_t number, int64_t token, int64_t head, float *lines) {
    const int64_t dim = model_.head_dim, half = dim / 2, key_head = head - model_.num_heads;
    float *line = lines + head * dim;
    const float *norm = key_head < 0 ? layer.query_norm : layer.key_norm;
    if (norm != nullptr) kernels_.rms_norm(line, norm, dim, model_.norm_eps, line);
    if (layer.has_rope != 0)
        kernels_.rotate(line, engine_.space_.cosines.data() + token * half, engine_.space_.sines.data() + token * half,
                        half);
    if (key_head < 0) return;
    Cache &cache = engine_.cache_;
    const int32_t kind = cache.shape().kind;
    const int64_t slot = pass_.slots[token];
    kernels_.store_key(kind, line, dim, slot, cache.keys(number, key_head));
    kernels_.store_value(kind, line + model_.num_key_heads * dim, dim, slot, cache.values(number, key_head));
}

// Tokens of a row share a task as far as their queries fit; heads part ways where there are too few tasks for all
// threads.
void Pass::plan_attention() {
    const int64_t group = model_.num_heads / model_.num_key_heads;
    const int64_t most_tokens = std::max<int64_t>(1, kMostQueries / group);
    int64_t tasks = 0;
    for (const RowView &row : engine_.views_.rows())
        tasks += divide_up(row.stop_token - row.first_token, most_tokens) * model_.num_key_heads;
    const bool is_few = tasks < 4 * team().size() && team().size() > 1;
    const int64_t most_heads = is_few ? 1 : std::min(group, kMostQueries);
    for (size_t row = 0; row < engine_.views_.rows().size(); ++row) {
        const RowView &view = engine_.views_.rows()[row];
        for (int64_t token = view.first_token; token < view.stop_token; token += most_tokens)
            for (int64_t key_head = 0; key_head < model_.num_key_heads; ++key_head)
                for (int64_t head = 0; head < group; head += most_heads)
                    items_.push_back({static_cast<int64_t>(row), key_head, token,
                                      std::min(most_tokens, view.stop_token - token), key_head * group + head,
                                      std::min(most_heads, group - head)});
    }
}

void Pass::attend(int thread, int64_t layer) {
    float *entropy = entropy_of(layer);
    const int64_t count = static_cast<int64_t>(items_.size());
    for (int64_t claim; (claim = team().claim(thread, count)) < count;) {
        fetch_part(model_.layers[layer].output, claim, count);
        attend_item(items_[static_cast<size_t>(claim)], thread, layer, entropy);
    }
}

// Wait for the others; meanwhile the weights that the thread begins the next stage with come closer.
void Pass::meet_before(int thread, const paradraft_matrix &matrix) {
    const int64_t bytes = packed_bytes(matrix.kind, matrix.outputs, matrix.inputs), most_panels = panels_of_claim(matrix);
    const int64_t claims = divide_up(divide_up(matrix.outputs, kPanel), most_panels);
    const int64_t first = team().start_of(thread, claims) * most_panels * panel_bytes(matrix.kind, matrix.inputs);
    const uint8_t *data = static_cast<const uint8_t *>(matrix.data);
    for (int64_t at = first; at < std::min(first + kFetchedStart, bytes); at += kStepBytes)
        __builtin_prefetch(data + at, 0, 2);
    team().meet();
}

// Attention leaves memory idle: meanwhile the weights that are read next come closer, as far as caches hold them.
void Pass::fetch_part(const paradraft_matrix &matrix, int64_t part, int64_t parts) {
    const int64_t bytes = std::min(packed_bytes(matrix.kind, matrix.outputs, matrix.inputs), kFetchedBytes);
    const uint8_t *data = static_cast<const uint8_t *>(matrix.data);
    for (int64_t step = bytes / kStepBytes * part / parts; step < bytes / kStepBytes * (part + 1) / parts; ++step)
        __builtin_prefetch(data + step * kStepBytes, 0, 2);
}

void Pass::attend_item(const AttentionItem &item, int thread, int64_t layer, float *entropy) {
    const RowViews &views = engine_.views_;
    const RowView &row = views.rows()[static_cast<size_t>(item.row)];
    const int64_t dim = model_.head_dim, padded = round_up(dim, kPanel), window = model_.layers[layer].window;
    TokenView tokens[kMostQueries];
    for (int64_t i = 0; i < item.num_tokens; ++i) {
        tokens[i] = views.token(item.first_token + i);
        if (window > 0) tokens[i].first = static_cast<int32_t>(std::max<int64_t>(0, tokens[i].total() - window));
    }
    uint32_t *memory = engine_.thread_spaces_[static_cast<size_t>(thread)].attention.data();
    const auto take = [&memory](int64_t count) {
        uint32_t *taken = memory;
        memory += round_up(count, kPanel);
        return taken;
    };
    AttentionScratch scratch = {};
    scratch.words = take(kMostQueries * AttentionScratch::query_words(dim));
    scratch.scores = reinterpret_cast<float *>(take(kMostQueries * kScoreSpan));
    scratch.block = reinterpret_cast<float *>(take(kMostQueries * padded));
    scratch.sums = reinterpret_cast<float *>(take(kMostQueries * padded));
    scratch.keys = take(dim * kPanel);
    AttentionTask task = {};
    task.keys = engine_.cache_.keys(layer, item.key_head);
    task.values = engine_.cache_.values(layer, item.key_head);
    task.cache_kind = engine_.cache_.shape().kind;
    task.head_dim = dim;
    task.slots = views.slots(row);
    task.blocks = views.blocks(row);
    task.num_slots = row.num_slots;
    task.tokens = tokens;
    task.num_tokens = item.num_tokens;
    task.heads = item.num_heads;
    task.queries = engine_.space_.query_key_value.data() + item.first_token * joined_width_ + item.first_head * dim;
    task.query_stride = joined_width_;
    task.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    task.outputs = engine_.space_.mixed.data() + item.first_token * heads_width_ + item.first_head * dim;
    task.output_stride = heads_width_;
    task.entropy = entropy == nullptr ? nullptr : entropy + item.first_token * model_.num_heads + item.first_head;
    task.entropy_stride = model_.num_heads;
    kernels_.attend(task, scratch);
}

float *Pass::entropy_of(int64_t layer) const {
    for (int64_t i = 0; i < pass_.num_entropy_layers; ++i)
        if (pass_.entropy_layers[i] == layer) return results_.entropy + i * tokens_ * model_.num_heads;
    return nullptr;
}

void Pass::tell_normed(int thread, const Source &source) {
    for (int64_t i = thread; results_.normed != nullptr && i < source.count; i += team().size())
        kernels_.rms_norm(source.lines + source.picks[i] * source.width, source.norm, source.width, model_.norm_eps,
                          results_.normed + i * source.width);
}

// Find the best of each line of logits, and add all of it up.
void Pass::sum_up(int thread) {
    const int64_t size = model_.vocab_size, count = pass_.num_candidates;
    for (int64_t i; (i = team().claim(thread, pass_.num_scored)) < pass_.num_scored;) {
        const float *line = results_.logits + i * size;
        if (results_.candidates != nullptr)
            engine_.selection_.find_largest(line, size, count, results_.candidates + i * count,
                                            results_.candidate_logits + i * count);
        if (results_.log_totals != nullptr) results_.log_totals[i] = log_total(i, pass_.temperatures[i]);
    }
}

// The log of the sum of e^(logit / temperature) over a line of logits.
float Pass::log_total(int64_t line, float temperature) const {
    const int64_t size = model_.vocab_size;
    const float peak = engine_.best_of(line).value;
    const double mass = engine_.selection_.mass(results_.logits + line * size, size, peak, temperature);
    return static_cast<float>(static_cast<double>(peak) / static_cast<double>(temperature) + std::log(mass));
}

}  // namespace paradraft
