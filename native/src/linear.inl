// Products of packed panels and prepared tokens. Included inside the unnamed namespace of one instruction set.
//
// Order of sums. Output o of token m is one chain: from 0, input step after input step, in a single accumulator; int8
// sums a group of inputs exactly and chains the groups. Tiles, panels and threads only choose which chains run side by
// side, so a token's bits are the same in every company.

constexpr int64_t kPrefetchBytes = 4096;  // ahead of the step being read; measured: 2 to 8 KB are alike

template <class Steps, int M, int P>
struct FloatTile {
    static void run(const MultiplyTask &task, const uint8_t *panel, const uint32_t *words, const float *,
                    float *outputs) {
        Vec sums[M][P];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) sums[m][p] = zero();
        }
        for (int64_t step = 0; step < task.steps; ++step, panel += kStepBytes, words += M) {
            typename Steps::Weights weights[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) {
                prefetch(panel + p * task.panel_bytes + kPrefetchBytes);
                weights[p] = Steps::read(panel + p * task.panel_bytes);
            }
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) sums[m][p] = Steps::sum(sums[m][p], weights[p], words + m);
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) store(outputs + m * task.stride + p * kPanel, sums[m][p]);
        }
    }
};

// Groups are chained in the outputs' own memory, which leaves the registers to the sums of a group.
template <int M, int P>
struct Int8Tile {
    static void run(const MultiplyTask &task, const uint8_t *panel, const uint32_t *words, const float *factors,
                    float *outputs) {
        const uint8_t *next = panel + kPanel * sizeof(float);  // behind the scales of the outputs
        for (int m = 0; m < M; ++m)
            for (int p = 0; p < P; ++p) store(outputs + m * task.stride + p * kPanel, zero());
        for (int64_t done = 0; done < task.steps; done += kInt8Group / 4, factors += 2 * M) {
            const int64_t rest = task.steps - done, steps = rest < kInt8Group / 4 ? rest : kInt8Group / 4;
            add_group(task, next, words, factors, steps, outputs);
            next += steps * kStepBytes;
            words += steps * M;
        }
        for (int p = 0; p < P; ++p) {
            const Vec scale = load(reinterpret_cast<const float *>(panel + p * task.panel_bytes));
            for (int m = 0; m < M; ++m) {
                float *output = outputs + m * task.stride + p * kPanel;
                store(output, multiply(load(output), scale));
            }
        }
    }

    static void add_group(const MultiplyTask &task, const uint8_t *panel, const uint32_t *words, const float *factors,
                          int64_t steps, float *outputs) {
        Int8Steps::Sums sums[M][P];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) sums[m][p] = Int8Steps::none();
        }
        for (int64_t step = 0; step < steps; ++step, panel += kStepBytes, words += M) {
            Int8Steps::Weights weights[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) {
                prefetch(panel + p * task.panel_bytes + kPrefetchBytes);
                weights[p] = Int8Steps::read(panel + p * task.panel_bytes);
            }
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) sums[m][p] = Int8Steps::sum(sums[m][p], weights[p], words + m);
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            int32_t surplus;
            __builtin_memcpy(&surplus, factors + M + m, sizeof surplus);
            const Vec scale = set(factors[m]);
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) {
                float *output = outputs + m * task.stride + p * kPanel;
                store(output, multiply_add(Int8Steps::value(sums[m][p], surplus), scale, load(output)));
            }
        }
    }
};

using TileFunction = void (*)(const MultiplyTask &task, const uint8_t *panel, const uint32_t *words,
                              const float *factors, float *outputs);

struct TileFunctions {
    TileFunction single[kMostTokens + 1];
    TileFunction several[kMostTokens + 1];
};

template <template <int, int> class Tile, int M>
constexpr void fill_tiles(TileFunctions &functions) {
    functions.single[M] = &Tile<M, 1>::run;
    functions.several[M] = &Tile<M, panels_at_once(M)>::run;
    if constexpr (M > 1) fill_tiles<Tile, M - 1>(functions);
}

template <template <int, int> class Tile>
constexpr TileFunctions all_tiles() {
    TileFunctions functions = {};
    fill_tiles<Tile, kMostTokens>(functions);
    return functions;
}

template <int M, int P>
using F32Tile = FloatTile<F32Steps, M, P>;
template <int M, int P>
using Bf16Tile = FloatTile<Bf16Steps, M, P>;

inline void multiply_panels(const MultiplyTask &task, const TileFunctions &functions) {
    const int64_t factors_of_token = task.factors == nullptr ? 0 : factors_of(PARADRAFT_INT8, task.inputs);
    const int64_t first_token = task.tiling.start(task.first_tile);
    const int64_t most = task.tiling.size(task.first_tile);  // the first tile is the largest
    const int64_t stride = panels_at_once(static_cast<int>(most));
    for (int64_t panel = 0; panel < task.panel_count; panel += stride) {
        const bool is_whole = panel + stride <= task.panel_count;
        for (int64_t tile = task.first_tile; tile < task.stop_tile; ++tile) {
            const int64_t token = task.tiling.start(tile), size = task.tiling.size(tile);
            const uint32_t *words = task.words + token * task.steps;
            const float *factors = task.factors + token * factors_of_token;
            float *outputs = task.outputs + (token - first_token) * task.stride + panel * kPanel;
            const uint8_t *weights = task.panels + panel * task.panel_bytes;
            if (is_whole && panels_at_once(static_cast<int>(size)) == stride) {
                functions.several[size](task, weights, words, factors, outputs);
                continue;
            }
            const int64_t rest = is_whole ? stride : task.panel_count - panel;
            for (int64_t p = 0; p < rest; ++p)
                functions.single[size](task, weights + p * task.panel_bytes, words, factors, outputs + p * kPanel);
        }
    }
}

void multiply_f32(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<F32Tile>();
    multiply_panels(task, functions);
}

void multiply_bf16(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<Bf16Tile>();
    multiply_panels(task, functions);
}

void multiply_int8(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<Int8Tile>();
    multiply_panels(task, functions);
}

Tiling tile_tokens(int64_t tokens) {
    const int64_t most = tokens <= kMostTokens ? kMostTokens : kMostTokensOfMany;
    return {tokens, divide_up(tokens, most)};
}
