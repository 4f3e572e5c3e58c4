#include "checks.h"

#include <string>

#include "failure.h"
#include "kernels.h"

namespace paradraft {
namespace {

std::string text(int64_t value) { return std::to_string(value); }

void require(bool is_right, const char *what, int64_t value) {
    if (!is_right) refuse(std::string(what) + " is " + text(value) + ", which cannot be.");
}

void check_matrix(const paradraft_matrix &matrix, int64_t outputs, int64_t inputs, const std::string &name) {
    if (matrix.data == nullptr || matrix.outputs != outputs || matrix.inputs != inputs)
        refuse(name + " has the shape [" + text(matrix.outputs) + ", " + text(matrix.inputs) + "]; the model asks for [" +
               text(outputs) + ", " + text(inputs) + "].");
    if (inputs_per_word(matrix.kind) == 0) refuse(name + " is of kind " + text(matrix.kind) + ", which is not packed.");
    if (reinterpret_cast<uintptr_t>(matrix.data) % 64 != 0) refuse(name + " is not aligned to 64 bytes.");
}

void check_layer(const paradraft_model &model, int64_t number) {
    const paradraft_layer &layer = model.layers[number];
    const std::string name = "of layer " + text(number);
    const int64_t heads = model.num_heads * model.head_dim, size = model.hidden_size, inner = model.intermediate_size;
    check_matrix(layer.query_key_value, heads + 2 * model.num_key_heads * model.head_dim,
                 layer.side_norm == nullptr ? size : 2 * size, "query_key_value " + name);
    check_matrix(layer.output, size, heads, "output " + name);
    check_matrix(layer.gate, inner, size, "gate " + name);
    check_matrix(layer.up, inner, size, "up " + name);
    check_matrix(layer.down, size, inner, "down " + name);
    if (layer.gate.kind != layer.up.kind) refuse("gate and up " + name + " are of different kinds.");
    if (layer.input_norm == nullptr || layer.inner_norm == nullptr) refuse("A norm " + name + " is missing.");
    if ((layer.query_norm == nullptr) != (layer.key_norm == nullptr))
        refuse("Only one of query_norm and key_norm " + name + " is there.");
    require(layer.window >= 0, "window", layer.window);
    require(layer.goes_on_normed == 0 || layer.goes_on_normed == 1, "goes_on_normed", layer.goes_on_normed);
}

void check_starts(const int32_t *starts, int64_t rows, const char *what) {
    require(starts != nullptr && starts[0] == 0, what, starts == nullptr ? -1 : starts[0]);
    for (int64_t row = 0; row < rows; ++row) require(starts[row + 1] >= starts[row], what, starts[row + 1]);
}

void check_range(const int32_t *values, int64_t count, int64_t first, int64_t stop, const char *what) {
    if (count > 0 && values == nullptr) refuse(std::string(what) + " is missing.");
    for (int64_t i = 0; i < count; ++i)
        if (values[i] < first || values[i] >= stop)
            refuse(std::string(what) + " " + text(values[i]) + " at " + text(i) + " is outside " + text(first) + " .. " +
                   text(stop - 1) + ".");
}

void check_fed(const int32_t *slots, int64_t count, int64_t num_slots, uint32_t *marks, uint32_t mark) {
    check_range(slots, count, 0, num_slots, "slot");
    for (int64_t i = 0; i < count; ++i) {
        if (marks[slots[i]] == mark) refuse("Slot " + text(slots[i]) + " is fed twice in one pass.");
        marks[slots[i]] = mark;
    }
}

void check_slots(const paradraft_pass &pass, int64_t num_slots, uint32_t *marks, uint32_t mark) {
    const int64_t seen = pass.context_starts[pass.num_rows];
    check_range(pass.context_slots, seen, 0, num_slots, "context slot");
    check_fed(pass.slots, pass.num_tokens, num_slots, marks, mark);
    for (int64_t i = 0; i < seen; ++i)
        if (marks[pass.context_slots[i]] == mark)
            refuse("Slot " + text(pass.context_slots[i]) + " is fed and read as context in one pass.");
}

// The first layer that reads sides, -1 if none does.
int64_t find_wide(const paradraft_model &model) {
    for (int64_t layer = 0; layer < model.num_layers; ++layer)
        if (model.layers[layer].side_norm != nullptr) return layer;
    return -1;
}

void check_entering(const paradraft_model &model, const paradraft_pass &pass) {
    require(pass.num_tapped >= 0, "num_tapped", pass.num_tapped);
    if (pass.num_tapped > 0 && model.taps.data == nullptr) refuse("This model has no taps, so none can enter it.");
    if (pass.num_tapped > 0 && pass.taps == nullptr) refuse("taps is missing.");
    check_range(pass.tapped, pass.num_tapped, 0, pass.num_tokens, "tapped token");
    for (int64_t i = 1; i < pass.num_tapped; ++i)
        if (pass.tapped[i] <= pass.tapped[i - 1])
            refuse("Tapped token " + text(pass.tapped[i]) + " does not stand behind " + text(pass.tapped[i - 1]) + ".");
    if (pass.states == nullptr && pass.num_tapped < pass.num_tokens)
        check_range(pass.tokens, pass.num_tokens, 0, model.vocab_size, "token");
    const int64_t wide = find_wide(model);
    if (wide >= 0 && pass.sides == nullptr && pass.num_tokens > 0)
        refuse("Layer " + text(wide) + " reads sides, and they are missing.");
}

void check_parents(const paradraft_pass &pass) {
    check_range(pass.parents, pass.num_tokens, -1, INT32_MAX, "parent");
    for (int64_t row = 0; row < pass.num_rows; ++row)
        for (int64_t i = pass.row_starts[row]; i < pass.row_starts[row + 1]; ++i)
            if (pass.parents[i] >= i - pass.row_starts[row])
                refuse("Parent " + text(pass.parents[i]) + " of token " + text(i - pass.row_starts[row]) + " of row " +
                       text(row) + " does not come before it.");
}

void check_results(const paradraft_model &model, const paradraft_pass &pass, const paradraft_results &results) {
    if ((pass.num_scored > 0 && results.logits == nullptr) || (pass.num_hidden_layers > 0 && results.hidden == nullptr) ||
        (pass.num_entropy_layers > 0 && results.entropy == nullptr) ||
        (results.candidates == nullptr) != (results.candidate_logits == nullptr))
        refuse("Memory for a result that is asked for is missing.");
    if (results.candidates != nullptr && (pass.num_candidates < 0 || pass.num_candidates > model.vocab_size))
        refuse("num_candidates is " + text(pass.num_candidates) + ", and there are " + text(model.vocab_size) + " tokens.");
    if (results.log_totals == nullptr || pass.num_scored == 0) return;
    if (pass.temperatures == nullptr) refuse("Temperatures are missing.");
    for (int64_t i = 0; i < pass.num_scored; ++i)
        if (!(pass.temperatures[i] > 0.0f)) refuse("Temperature " + std::to_string(pass.temperatures[i]) + " is not above 0.");
}

}  // namespace

void check_model(const paradraft_model &model, const paradraft_options &options) {
    require(model.num_layers > 0, "num_layers", model.num_layers);
    require(model.vocab_size > 0, "vocab_size", model.vocab_size);
    require(model.hidden_size > 0, "hidden_size", model.hidden_size);
    require(model.intermediate_size > 0, "intermediate_size", model.intermediate_size);
    require(model.num_key_heads > 0, "num_key_heads", model.num_key_heads);
    require(model.num_heads > 0 && model.num_heads % model.num_key_heads == 0, "num_heads", model.num_heads);
    require(model.head_dim > 0 && model.head_dim % 2 == 0 && model.head_dim <= kMostHeadDim, "head_dim", model.head_dim);
    require(options.num_slots > 0 && options.num_slots < INT32_MAX, "num_slots", options.num_slots);
    require(options.cache_kind == PARADRAFT_F32 || options.cache_kind == PARADRAFT_BF16, "cache_kind", options.cache_kind);
    if (options.shares == nullptr)
        require(options.num_threads > 0 && options.num_threads <= 1024, "num_threads", options.num_threads);
    if (model.layers == nullptr || model.final_norm == nullptr || model.inverse_frequencies == nullptr)
        refuse("Layers, final norm or inverse frequencies are missing.");
    for (int64_t layer = 0; layer < model.num_layers; ++layer) check_layer(model, layer);
    check_matrix(model.head, model.vocab_size, model.hidden_size, "head");
    if (model.embedding != nullptr)
        require(model.embedding_kind >= PARADRAFT_F32 && model.embedding_kind <= PARADRAFT_F16, "embedding_kind",
                model.embedding_kind);
    if (model.taps.data == nullptr && model.taps_norm != nullptr) refuse("There is a taps_norm, and there are no taps.");
    if (model.taps.data == nullptr) return;
    require(model.taps.inputs > 0, "inputs of taps", model.taps.inputs);
    check_matrix(model.taps, model.hidden_size, model.taps.inputs, "taps");
}

void check_pass(const paradraft_model &model, int64_t num_slots, const paradraft_pass &pass,
                const paradraft_results &results, uint32_t *marks, uint32_t mark) {
    require(pass.num_rows >= 0, "num_rows", pass.num_rows);
    check_starts(pass.row_starts, pass.num_rows, "row start");
    check_starts(pass.context_starts, pass.num_rows, "context start");
    if (pass.row_starts[pass.num_rows] != pass.num_tokens)
        refuse("Rows end at token " + text(pass.row_starts[pass.num_rows]) + " of " + text(pass.num_tokens) + ".");
    require(pass.sees_both_ways == 0 || pass.sees_both_ways == 1, "sees_both_ways", pass.sees_both_ways);
    check_entering(model, pass);
    check_range(pass.positions, pass.num_tokens, 0, INT32_MAX, "position");
    check_slots(pass, num_slots, marks, mark);
    if (pass.sees_both_ways == 0) check_parents(pass);
    for (int64_t layer = 0; layer < model.num_layers && pass.sees_both_ways != 0; ++layer)
        if (model.layers[layer].window > 0) refuse("Layer " + text(layer) + " has a window, which does not go both ways.");
    check_range(pass.scored, pass.num_scored, 0, pass.num_tokens, "scored token");
    check_range(pass.hidden_layers, pass.num_hidden_layers, -1, model.num_layers, "tapped layer");
    check_range(pass.entropy_layers, pass.num_entropy_layers, 0, model.num_layers, "entropy layer");
    for (int64_t i = 0; i < pass.num_entropy_layers; ++i)
        for (int64_t k = 0; k < i; ++k)
            if (pass.entropy_layers[i] == pass.entropy_layers[k])
                refuse("Entropy layer " + text(pass.entropy_layers[i]) + " is named twice.");
    check_results(model, pass, results);
}

void check_entries(const paradraft_model &model, int64_t num_slots, const paradraft_entries &entries, uint32_t *marks,
                   uint32_t mark) {
    if (model.taps.data == nullptr) refuse("This model has no taps, so nothing but tokens can be its context.");
    const int64_t wide = find_wide(model);
    if (wide >= 0) refuse("Layer " + text(wide) + " reads sides, which entries of contexts do not have.");
    require(entries.num_entries >= 0, "num_entries", entries.num_entries);
    if (entries.num_entries > 0 && entries.taps == nullptr) refuse("taps is missing.");
    check_range(entries.positions, entries.num_entries, 0, INT32_MAX, "position");
    check_fed(entries.slots, entries.num_entries, num_slots, marks, mark);
}

void check_move(int64_t num_slots, const int32_t *sources, const int32_t *destinations, int64_t count) {
    require(count >= 0, "count", count);
    check_range(sources, count, 0, num_slots, "source slot");
    check_range(destinations, count, 0, num_slots, "destination slot");
}

}  // namespace paradraft
