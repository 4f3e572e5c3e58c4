// The plain C side of the decode core.

#include <memory>
#include <string>
#include <utility>

#include "checks.h"
#include "dispatch.h"
#include "engine.h"
#include "guarded.h"
#include "packing.h"
#include "paradraft_native.h"
#include "selection.h"

struct paradraft_engine {
    paradraft::Engine engine;
};

namespace {

using paradraft::Failure;
using paradraft::guarded;

void check_packed(const paradraft_matrix *matrix) {
    if (matrix == nullptr || matrix->data == nullptr ||
        paradraft::packed_bytes(matrix->kind, matrix->outputs, matrix->inputs) == 0)
        paradraft::refuse("A matrix is missing or has no packed form.");
}

void check_sampling(const paradraft_sampling &sampling) {
    if (!(sampling.temperature > 0.0) || !(sampling.top_p > 0.0 && sampling.top_p <= 1.0) ||
        !(sampling.min_p >= 0.0 && sampling.min_p <= 1.0) || sampling.top_k < 0)
        paradraft::refuse("Temperature " + std::to_string(sampling.temperature) + ", top_p " +
                          std::to_string(sampling.top_p) + ", min_p " + std::to_string(sampling.min_p) + " and top_k " +
                          std::to_string(sampling.top_k) + " describe no law.");
}

// Multiply on the calling thread, all panels at once.
void multiply_alone(const paradraft_matrix &matrix, int64_t num_tokens, const float *inputs, float *outputs,
                    const paradraft::KernelTable &kernels) {
    using namespace paradraft;
    const int64_t words_of_token = kernels.words_of(matrix.kind, matrix.inputs);
    const int64_t factors_of_token = factors_of(matrix.kind, matrix.inputs);
    Buffer<uint32_t> words;
    Buffer<float> factors;
    words.reserve(num_tokens * words_of_token);
    factors.reserve(num_tokens * factors_of_token + kPanel);
    MultiplyTask task = {};
    task.tiling = kernels.tile(matrix.kind, num_tokens);
    for (int64_t tile = 0; tile < task.tiling.count; ++tile) {
        const int64_t start = task.tiling.start(tile), size = task.tiling.size(tile);
        for (int64_t i = 0; i < size; ++i)
            kernels.prepare(matrix.kind, inputs + (start + i) * matrix.inputs, matrix.inputs,
                            words.data() + start * words_of_token + i * kernels.block_words(matrix.kind),
                            factors.data() + start * factors_of_token + i, size);
    }
    task.panels = static_cast<const uint8_t *>(matrix.data);
    task.panel_bytes = panel_bytes(matrix.kind, matrix.inputs);
    task.panel_count = divide_up(matrix.outputs, kPanel);
    task.steps = steps_of(matrix.kind, matrix.inputs);
    task.words = words.data();
    task.factors = factors_of_token == 0 ? nullptr : factors.data();
    task.inputs = matrix.inputs;
    task.stop_tile = task.tiling.count;
    task.bias = matrix.bias;
    task.output_count = matrix.outputs;
    task.outputs = outputs;
    task.stride = matrix.outputs;
    kernels.multiply(matrix.kind, task);
}

}  // namespace

int32_t paradraft_version(void) { return PARADRAFT_NATIVE_VERSION; }

int32_t paradraft_has(int32_t instruction_set) {
    return instruction_set >= 0 && paradraft::kernels_of(instruction_set) != nullptr ? 1 : 0;
}

int64_t paradraft_packed_bytes(int32_t kind, int64_t outputs, int64_t inputs) {
    return paradraft::packed_bytes(kind, outputs, inputs);
}

int32_t paradraft_pack(int32_t kind, int64_t outputs, int64_t inputs, int64_t first_output, int64_t source_rows,
                       const void *source, int32_t source_kind, void *destination, paradraft_error *error) {
    return guarded(error, [&] {
        paradraft::pack_rows(kind, outputs, inputs, first_output, source_rows, source, source_kind, destination);
    });
}

int32_t paradraft_unpack_row(const paradraft_matrix *matrix, int64_t row, float *values, paradraft_error *error) {
    return guarded(error, [&] {
        check_packed(matrix);
        if (row < 0 || row >= matrix->outputs)
            paradraft::refuse("Row " + std::to_string(row) + " is outside 0 .. " + std::to_string(matrix->outputs - 1) + ".");
        paradraft::unpack_row(*matrix, row, values);
    });
}

int32_t paradraft_engine_create(const paradraft_model *model, const paradraft_options *options,
                                paradraft_engine **engine, paradraft_error *error) {
    return guarded(error, [&] {
        if (model == nullptr || options == nullptr || engine == nullptr) paradraft::refuse("An argument is missing.");
        paradraft::check_model(*model, *options);
        auto team = options->shares != nullptr ? options->shares->engine.team()
                                               : std::make_shared<paradraft::Team>(options->num_threads);
        *engine = new paradraft_engine{{*model, *options, std::move(team)}};
    });
}

void paradraft_engine_destroy(paradraft_engine *engine) { delete engine; }

int32_t paradraft_engine_instruction_set(const paradraft_engine *engine) { return engine->engine.instruction_set(); }

int64_t paradraft_engine_cache_bytes(const paradraft_engine *engine) { return engine->engine.cache_bytes(); }

int32_t paradraft_engine_run(paradraft_engine *engine, const paradraft_pass *pass, const paradraft_results *results,
                             paradraft_error *error) {
    return guarded(error, [&] {
        if (engine == nullptr || pass == nullptr || results == nullptr) paradraft::refuse("An argument is missing.");
        engine->engine.run(*pass, *results);
    });
}

int32_t paradraft_engine_append(paradraft_engine *engine, const paradraft_entries *entries, paradraft_error *error) {
    return guarded(error, [&] {
        if (engine == nullptr || entries == nullptr) paradraft::refuse("An argument is missing.");
        engine->engine.append(*entries);
    });
}

int32_t paradraft_engine_move(paradraft_engine *engine, const int32_t *sources, const int32_t *destinations,
                              int64_t count, paradraft_error *error) {
    return guarded(error, [&] {
        if (engine == nullptr) paradraft::refuse("An argument is missing.");
        engine->engine.move(sources, destinations, count);
    });
}

int32_t paradraft_multiply(const paradraft_matrix *matrix, int64_t num_tokens, const float *inputs, float *outputs,
                           int32_t instruction_set, paradraft_error *error) {
    return guarded(error, [&] {
        check_packed(matrix);
        const paradraft::KernelTable *kernels = paradraft::kernels_of(instruction_set);
        if (kernels == nullptr)
            throw Failure{PARADRAFT_NOT_SUPPORTED, "Instruction set " + std::to_string(instruction_set) +
                                                       " is not in this machine or this library."};
        if (num_tokens < 0 || inputs == nullptr || outputs == nullptr) paradraft::refuse("Inputs or outputs are missing.");
        if (num_tokens > 0) multiply_alone(*matrix, num_tokens, inputs, outputs, *kernels);
    });
}

int32_t paradraft_engine_best(const paradraft_engine *engine, int64_t count, int32_t *best, paradraft_error *error) {
    return guarded(error, [&] {
        if (engine == nullptr) paradraft::refuse("An argument is missing.");
        engine->engine.best(count, best);
    });
}

int32_t paradraft_choose(const float *logits, int64_t vocab_size, const paradraft_sampling *sampling, uint64_t position,
                         int32_t instruction_set, int32_t *token, paradraft_error *error) {
    return guarded(error, [&] {
        if (logits == nullptr || sampling == nullptr || token == nullptr) paradraft::refuse("An argument is missing.");
        if (vocab_size <= 0 || vocab_size > INT32_MAX)
            paradraft::refuse("vocab_size is " + std::to_string(vocab_size) + ", which cannot be.");
        check_sampling(*sampling);
        *token = paradraft::choose(logits, vocab_size, *sampling, position, paradraft::selection_of(instruction_set));
    });
}

int32_t paradraft_largest(const float *logits, int64_t vocab_size, int64_t count, int32_t instruction_set, int32_t *ids,
                          float *values, int32_t *is_done, paradraft_error *error) {
    return guarded(error, [&] {
        if (logits == nullptr || ids == nullptr || values == nullptr || is_done == nullptr)
            paradraft::refuse("An argument is missing.");
        if (count <= 0 || count > vocab_size || vocab_size > INT32_MAX)
            paradraft::refuse(std::to_string(count) + " of " + std::to_string(vocab_size) + " logits cannot be the largest.");
        *is_done = paradraft::largest_of(logits, vocab_size, count, paradraft::selection_of(instruction_set), ids, values);
    });
}
