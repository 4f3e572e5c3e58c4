// Runs one model in many ways and compares bits; built with sanitizers, which watch memory, arithmetic and threads.
//
//     cmake -S native -B native/build/thread -DPARADRAFT_SANITIZE=thread && cmake --build native/build/thread
//     native/build/thread/paradraft_native_bits

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "paradraft_selection.h"

namespace {

constexpr int64_t kHidden = 44, kInner = 90, kVocab = 51, kHeads = 6, kKeyHeads = 2, kHeadDim = 10, kLayers = 2;
constexpr int32_t kSlots = 64, kTokens = 37, kBlock = 5, kCandidates = 9;
constexpr int64_t kTapsWidth = 70;

void require(int32_t code, const paradraft_error &error) {
    if (code == PARADRAFT_OK) return;
    std::printf("failed: %s\n", error.message);
    std::exit(1);
}

float noise(uint32_t &state) {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0f;
}

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};

enum class Reads { kTokens, kEntries, kPairs };  // kPairs: taps enter the first layer, with sides

// A model of random weights with everything that layers may have; one that reads taps has no windows.
struct Model {
    explicit Model(int32_t kind, Reads reads = Reads::kTokens) {
        const int64_t joined = (kHeads + 2 * kKeyHeads) * kHeadDim;
        const bool has_taps = reads != Reads::kTokens;
        for (int64_t number = 0; number < kLayers; ++number) {
            paradraft_layer layer = {};
            const bool is_wide = reads == Reads::kPairs && number == 0;
            layer.query_key_value = packed(kind, joined, is_wide ? 2 * kHidden : kHidden);
            layer.side_norm = is_wide ? vector(kHidden) : nullptr;
            layer.goes_on_normed = is_wide ? 1 : 0;
            layer.output = packed(kind, kHidden, kHeads * kHeadDim);
            layer.gate = packed(kind, kInner, kHidden);
            layer.up = packed(kind, kInner, kHidden);
            layer.down = packed(kind, kHidden, kInner);
            layer.input_norm = vector(kHidden);
            layer.inner_norm = vector(kHidden);
            layer.query_norm = vector(kHeadDim);
            layer.key_norm = vector(kHeadDim);
            layer.window = number == 0 || has_taps ? 0 : 9;
            layer.has_rope = number == 0;
            layers.push_back(layer);
        }
        model.vocab_size = kVocab;
        model.hidden_size = kHidden;
        model.intermediate_size = kInner;
        model.num_layers = kLayers;
        model.num_heads = kHeads;
        model.num_key_heads = kKeyHeads;
        model.head_dim = kHeadDim;
        model.norm_eps = 1e-5f;
        model.rope_factor = 1.0f;
        model.inverse_frequencies = vector(kHeadDim / 2);
        model.layers = layers.data();
        model.final_norm = vector(kHidden);
        model.head = packed(kind, kVocab, kHidden);
        if (!has_taps) return;
        model.taps = packed(kind, kHidden, kTapsWidth);
        if (reads == Reads::kEntries) model.taps_norm = vector(kHidden);
        states = vector(kBlock * kHidden);
        entries = vector(kTokens * kTapsWidth);
        sides = vector(kTokens * kHidden);
    }

    const float *vector(int64_t size) {
        vectors.emplace_back(static_cast<size_t>(size));
        for (float &value : vectors.back()) value = noise(state);
        return vectors.back().data();
    }

    paradraft_matrix packed(int32_t kind, int64_t outputs, int64_t inputs) {
        const float *values = vector(outputs * inputs);
        const int64_t bytes = paradraft_packed_bytes(kind, outputs, inputs);
        memory.emplace_back(std::aligned_alloc(64, static_cast<size_t>(bytes)));
        paradraft_error error = {};
        require(paradraft_pack(kind, outputs, inputs, 0, outputs, values, PARADRAFT_F32, memory.back().get(), &error),
                error);
        return {memory.back().get(), vector(outputs), outputs, inputs, kind, 0};
    }

    uint32_t state = 7;
    std::vector<std::vector<float>> vectors;
    std::vector<std::unique_ptr<void, Free>> memory;
    std::vector<paradraft_layer> layers;
    paradraft_model model = {};
    const float *states = nullptr, *entries = nullptr, *sides = nullptr;
};

// Whether the best and the largest of logits are what a plain loop finds, and a draw from them an id.
void check_selection(paradraft_engine *engine, const float *logits, int32_t count, int32_t instruction_set) {
    paradraft_error error = {};
    std::vector<int32_t> best(static_cast<size_t>(count));
    require(paradraft_engine_best(engine, count, best.data(), &error), error);
    const paradraft_sampling sampling = {0.7, 0.9, 0.01, 20, 7, 1};
    for (int32_t i = 0; i < count; ++i, logits += kVocab) {
        const int32_t expected = static_cast<int32_t>(std::max_element(logits, logits + kVocab) - logits);
        int32_t ids[5], token = 0, is_done = 0;
        float values[5];
        require(paradraft_largest(logits, kVocab, 5, instruction_set, ids, values, &is_done, &error), error);
        require(paradraft_choose(logits, kVocab, &sampling, 3, instruction_set, &token, &error), error);
        if (best[static_cast<size_t>(i)] == expected && is_done == 1 && ids[0] == expected && token < kVocab) continue;
        std::printf("selection fails: best %d, largest %d, drawn %d, expected %d\n", best[static_cast<size_t>(i)], ids[0],
                    token, expected);
        std::exit(1);
    }
}

// Logits of all tokens, fed in chunks.
std::vector<float> run(const Model &model, int32_t instruction_set, int32_t threads, int32_t chunk) {
    paradraft_options options = {kSlots, PARADRAFT_BF16, threads, instruction_set, 0, nullptr};
    paradraft_engine *engine = nullptr;
    paradraft_error error = {};
    require(paradraft_engine_create(&model.model, &options, &engine, &error), error);
    std::vector<float> logits(static_cast<size_t>(kTokens * kVocab)), hidden(static_cast<size_t>(kTokens * kHidden));
    std::vector<float> entropy(static_cast<size_t>(kTokens * kHeads));
    std::vector<int32_t> tokens, positions, parents, scored;
    for (int32_t i = 0; i < kTokens; ++i) {
        tokens.push_back(i * 7 % static_cast<int32_t>(kVocab));
        positions.push_back(i);
        parents.push_back(i - 1);
        scored.push_back(i);
    }
    const int32_t tapped = 1;
    for (int32_t first = 0; first < kTokens; first += chunk) {
        const int32_t count = first + chunk < kTokens ? chunk : kTokens - first;
        const int32_t row_starts[] = {0, count}, context_starts[] = {0, first};
        paradraft_pass pass = {};
        pass.num_rows = 1;
        pass.num_tokens = pass.num_scored = count;
        pass.row_starts = row_starts;
        pass.tokens = tokens.data() + first;
        pass.positions = pass.slots = positions.data() + first;
        pass.parents = parents.data();
        pass.context_starts = context_starts;
        pass.context_slots = positions.data();
        pass.scored = scored.data();
        pass.num_hidden_layers = pass.num_entropy_layers = 1;
        pass.hidden_layers = pass.entropy_layers = &tapped;
        paradraft_results results = {};
        results.logits = logits.data() + first * kVocab;
        results.hidden = hidden.data();
        results.entropy = entropy.data();
        require(paradraft_engine_run(engine, &pass, &results, &error), error);
        check_selection(engine, results.logits, count, instruction_set);
    }
    paradraft_engine_destroy(engine);
    return logits;
}

// What a block says behind context entries, fed in chunks, on the threads of an engine that is gone by then.
std::vector<float> run_block(const Model &model, int32_t instruction_set, int32_t threads, int32_t chunk) {
    paradraft_options options = {kSlots, PARADRAFT_BF16, threads, instruction_set, 0, nullptr};
    paradraft_engine *owner = nullptr, *engine = nullptr;
    paradraft_error error = {};
    require(paradraft_engine_create(&model.model, &options, &owner, &error), error);
    options.shares = owner;
    require(paradraft_engine_create(&model.model, &options, &engine, &error), error);
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < kSlots; ++i) numbers.push_back(i);
    for (int32_t first = 0; first < kTokens; first += chunk) {
        const int32_t count = first + chunk < kTokens ? chunk : kTokens - first;
        const paradraft_entries entries = {count, model.entries + first * kTapsWidth, numbers.data() + first,
                                           numbers.data() + first};
        require(paradraft_engine_append(engine, &entries, &error), error);
    }
    paradraft_engine_destroy(owner);
    const std::vector<float> heat(kBlock, 0.7f);
    const int32_t row_starts[] = {0, kBlock}, context_starts[] = {0, kTokens};
    paradraft_pass pass = {};
    pass.num_rows = 1;
    pass.num_tokens = pass.num_scored = kBlock;
    pass.row_starts = row_starts;
    pass.positions = pass.slots = numbers.data() + kTokens;
    pass.context_starts = context_starts;
    pass.context_slots = pass.scored = numbers.data();
    pass.states = model.states;
    pass.temperatures = heat.data();
    pass.num_candidates = kCandidates;
    pass.sees_both_ways = 1;
    std::vector<float> logits(static_cast<size_t>(kBlock * kVocab)), normed(static_cast<size_t>(kBlock * kHidden));
    std::vector<float> best(static_cast<size_t>(kBlock * kCandidates)), totals(static_cast<size_t>(kBlock));
    std::vector<int32_t> candidates(best.size());
    paradraft_results results = {};
    results.logits = logits.data();
    results.normed = normed.data();
    results.candidates = candidates.data();
    results.candidate_logits = best.data();
    results.log_totals = totals.data();
    require(paradraft_engine_run(engine, &pass, &results, &error), error);
    paradraft_engine_destroy(engine);
    for (const std::vector<float> *part : {&normed, &best, &totals}) logits.insert(logits.end(), part->begin(), part->end());
    return logits;
}

// What nodes say behind entries that enter as taps and sides, fed in chunks that are asked for nothing. The nodes are two
// siblings and one of another row, and the first one's state comes of taps.
std::vector<float> run_pairs(const Model &model, int32_t instruction_set, int32_t threads, int32_t chunk) {
    paradraft_options options = {kSlots, PARADRAFT_BF16, threads, instruction_set, 0, nullptr};
    paradraft_engine *engine = nullptr;
    paradraft_error error = {};
    require(paradraft_engine_create(&model.model, &options, &engine, &error), error);
    std::vector<int32_t> numbers, parents;
    for (int32_t i = 0; i < kSlots; ++i) numbers.push_back(i), parents.push_back(i - 1);
    for (int32_t first = 0; first < kTokens; first += chunk) {
        const int32_t count = first + chunk < kTokens ? chunk : kTokens - first;
        const int32_t row_starts[] = {0, count}, context_starts[] = {0, first};
        paradraft_pass pass = {};
        pass.num_rows = 1;
        pass.num_tokens = pass.num_tapped = count;
        pass.row_starts = row_starts;
        pass.positions = pass.slots = numbers.data() + first;
        pass.parents = parents.data();
        pass.context_starts = context_starts;
        pass.context_slots = pass.tapped = numbers.data();
        pass.taps = model.entries + first * kTapsWidth;
        pass.sides = model.sides + first * kHidden;
        const paradraft_results results = {};
        require(paradraft_engine_run(engine, &pass, &results, &error), error);
    }
    constexpr int32_t kNodes = 3;
    const int32_t row_starts[] = {0, 2, kNodes}, context_starts[] = {0, kTokens, kTokens + 20}, none[] = {-1, -1, -1};
    std::vector<int32_t> context(numbers.begin(), numbers.begin() + kTokens);
    context.insert(context.end(), numbers.begin(), numbers.begin() + 20);
    const int32_t last = kLayers - 1;
    paradraft_pass pass = {};
    pass.num_rows = 2;
    pass.num_tokens = pass.num_scored = kNodes;
    pass.row_starts = row_starts;
    pass.positions = pass.slots = numbers.data() + kTokens;
    pass.parents = none;
    pass.context_starts = context_starts;
    pass.context_slots = context.data();
    pass.scored = pass.tapped = numbers.data();
    pass.num_hidden_layers = pass.num_tapped = 1;
    pass.hidden_layers = &last;
    pass.states = model.states;
    pass.taps = model.entries;
    pass.sides = model.sides;
    std::vector<float> logits(static_cast<size_t>(kNodes * kVocab)), hidden(static_cast<size_t>(kNodes * kHidden));
    paradraft_results results = {};
    results.logits = logits.data();
    results.hidden = hidden.data();
    require(paradraft_engine_run(engine, &pass, &results, &error), error);
    paradraft_engine_destroy(engine);
    logits.insert(logits.end(), hidden.begin(), hidden.end());
    return logits;
}

using Way = std::vector<float> (*)(const Model &model, int32_t instruction_set, int32_t threads, int32_t chunk);

// In how many ways of running a model its bits differ.
int count_differing(const char *name, Way way, const Model &model, int32_t kind) {
    int differing = 0;
    for (int32_t set : {PARADRAFT_PORTABLE, PARADRAFT_AVX2, PARADRAFT_AVX512}) {
        if (paradraft_has(set) == 0) continue;
        const std::vector<float> expected = way(model, set, 1, 1);
        for (int32_t threads : {1, 2, 3})
            for (int32_t chunk : {1, 5, 16, 37}) {
                const std::vector<float> found = way(model, set, threads, chunk);
                if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0) continue;
                std::printf("%s: kind %d, set %d, %d threads, chunks of %d differ\n", name, kind, set, threads, chunk);
                ++differing;
            }
    }
    return differing;
}

}  // namespace

int main() {
    int differing = 0;
    for (int32_t kind : {PARADRAFT_F32, PARADRAFT_BF16, PARADRAFT_INT8, PARADRAFT_INT4}) {
        differing += count_differing("tokens", run, Model(kind), kind);
        differing += count_differing("block", run_block, Model(kind, Reads::kEntries), kind);
        differing += count_differing("pairs", run_pairs, Model(kind, Reads::kPairs), kind);
    }
    std::printf(differing == 0 ? "all bits agree\n" : "%d differ\n", differing);
    return differing == 0 ? 0 : 1;
}
