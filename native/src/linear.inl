// Products of packed panels and prepared tokens. Included inside the unnamed namespace of one instruction set.
//
// Order of sums. Output o of token m is one chain: from 0, input step after input step, in a single accumulator; whole
// numbers are summed exactly within a group of inputs, and the groups are chained. Tiles, panels and threads only choose
// which chains run side by side, so a token's bits are the same in every company.

// Ahead of the step being read. Into the first cache, where the tokens' words are, 8 tokens took 9.5 ms and 16 took 12.8
// (all products of SmolLM2-135M in bf16, 2 threads); into the second 8.6 and 11.0, with 3 to 6 KB alike and 2 KB slower.
constexpr int64_t kPrefetchBytes = 4096;

// Which weights a tile fetches while it reads others: bytes ahead of a panel's first step, and from step to step. A tile
// alone fetches what it will read itself. Several that read the same panels one after another, all but the first from
// the caches, share out what comes behind those panels, so that memory is never idle.
struct Fetching {
    int64_t start, stride, jump;  // jump: towards the panels' ends, from behind all that are read side by side
    static Fetching alone(const MultiplyTask &task, int64_t panels) {
        return {kPrefetchBytes, kStepBytes, (panels - 1) * task.panel_bytes};
    }
    static Fetching shared(const MultiplyTask &task, int64_t panels, int64_t tile, int64_t tiles) {
        const int64_t stride = divide_up(kStepBytes, tiles);
        return {panels * task.panel_bytes + tile * (task.panel_bytes / kStepBytes) * stride, stride, 0};
    }
    // Of the lines for the steps from a byte of the panel on, the first one's.
    int64_t distance(const MultiplyTask &task, int64_t byte, int64_t bytes) const {
        const bool is_near_end = byte + bytes + kPrefetchBytes > task.panel_bytes;
        return start + byte / kStepBytes * stride + (is_near_end ? jump : 0);
    }
};

// Put the sums of a token and a panel, whose first output has this number in the task, where they belong.
inline void put(const MultiplyTask &task, int64_t output, Vec sums, float *to) {
    const int64_t count = smaller(kPanel, task.output_count - output);
    if (task.bias != nullptr) sums = add(sums, load_lanes(task.bias + output, count));
    if (task.is_added) sums = add(load_lanes(to, count), sums);
    store_lanes(to, sums, count);
}

#include "groups.inl"

// M tokens times P panels, from panel `first` of the task on; words, factors and outputs are the tokens' own.
template <class Steps, int M, int P>
struct FloatTile {
    static void run(const MultiplyTask &task, int64_t first, const uint32_t *words, const float *, float *outputs,
                    const Fetching &fetching) {
        const uint8_t *const start = task.panels + first * task.panel_bytes, *panel = start;
        Vec sums[M][P];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) sums[m][p] = zero();
        }
        for (int64_t done = 0; done < task.steps; done += kBlockSteps, words += M * kBlockSteps * Steps::kParts) {
            const int64_t steps = smaller(kBlockSteps, task.steps - done);
            const uint8_t *fetched = start + fetching.distance(task, done * kStepBytes, kBlockSteps * kStepBytes);
            for (int64_t step = 0; step < steps; ++step, panel += kStepBytes, fetched += fetching.stride) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) prefetch_far(fetched + p * task.panel_bytes);
#pragma GCC unroll 2
                for (int part = 0; part < Steps::kParts; ++part) {
                    typename Steps::Weights weights[P];
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) weights[p] = Steps::read(panel + p * task.panel_bytes, part);
#pragma GCC unroll 16
                    for (int m = 0; m < M; ++m) {
                        const uint32_t *word = words + (m * kBlockSteps + step) * Steps::kParts + part;
#pragma GCC unroll 4
                        for (int p = 0; p < P; ++p) sums[m][p] = Steps::sum(sums[m][p], weights[p], word);
                    }
                }
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p)
                put(task, (first + p) * kPanel, sums[m][p], outputs + m * task.stride + p * kPanel);
        }
    }
};

using TileFunction = void (*)(const MultiplyTask &task, int64_t first, const uint32_t *words, const float *factors,
                              float *outputs, const Fetching &fetching);

struct TileFunctions {
    TileFunction single[kMostTokens + 1];
    TileFunction several[kMostTokens + 1];
};

template <template <int, int> class Tile, int32_t kind, int M>
constexpr void fill_tiles(TileFunctions &functions) {
    functions.single[M] = &Tile<M, 1>::run;
    functions.several[M] = &Tile<M, panels_at_once(kind, M)>::run;
    if constexpr (M > 1) fill_tiles<Tile, kind, M - 1>(functions);
}

template <template <int, int> class Tile, int32_t kind>
constexpr TileFunctions all_tiles() {
    TileFunctions functions = {};
    fill_tiles<Tile, kind, kMostTokens>(functions);
    return functions;
}

template <int M, int P>
using F32Tile = FloatTile<F32Steps, M, P>;
template <int M, int P>
using Bf16Tile = FloatTile<Bf16Steps, M, P>;
template <int M, int P>
using Int8Tile = GroupTile<Int8Groups, M, P>;
template <int M, int P>
using Int4Tile = GroupTile<Int4Groups, M, P>;

inline void multiply_panels(const MultiplyTask &task, const TileFunctions &functions, int32_t kind) {
    const int64_t words_of_token = round_up(task.steps, kBlockSteps) * parts_of_step(kind);
    const int64_t factors_of_token = factors_of(kind, task.inputs);
    const int64_t first_token = task.tiling.start(task.first_tile);
    const int64_t most = task.tiling.size(task.first_tile);  // the first tile is the largest
    const int64_t stride = panels_at_once(kind, static_cast<int>(most));
    const int64_t tiles = task.stop_tile - task.first_tile;
    const auto fetching = [&](int64_t tile, int64_t panels) {
        return tiles == 1 ? Fetching::alone(task, panels) : Fetching::shared(task, panels, tile - task.first_tile, tiles);
    };
    for (int64_t panel = 0; panel < task.panel_count; panel += stride) {
        const int64_t count = smaller(stride, task.panel_count - panel);
        for (int64_t tile = task.first_tile; tile < task.stop_tile; ++tile) {
            const int64_t token = task.tiling.start(tile), size = task.tiling.size(tile);
            const uint32_t *words = task.words + token * words_of_token;
            const float *factors = task.factors + token * factors_of_token;
            float *outputs = task.outputs + (token - first_token) * task.stride + panel * kPanel;
            if (count == stride && panels_at_once(kind, static_cast<int>(size)) == stride) {
                functions.several[size](task, panel, words, factors, outputs, fetching(tile, count));
                continue;
            }
            for (int64_t p = 0; p < count; ++p)
                functions.single[size](task, panel + p, words, factors, outputs + p * kPanel, fetching(tile, count));
        }
    }
}

void multiply_f32(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<F32Tile, PARADRAFT_F32>();
    multiply_panels(task, functions, PARADRAFT_F32);
}

void multiply_bf16(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<Bf16Tile, PARADRAFT_BF16>();
    multiply_panels(task, functions, PARADRAFT_BF16);
}

void multiply_int8(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<Int8Tile, PARADRAFT_INT8>();
    multiply_panels(task, functions, PARADRAFT_INT8);
}

void multiply_int4(const MultiplyTask &task) {
    static constexpr TileFunctions functions = all_tiles<Int4Tile, PARADRAFT_INT4>();
    multiply_panels(task, functions, PARADRAFT_INT4);
}

Tiling tile_tokens(int32_t kind, int64_t tokens) {
    return {tokens, divide_up(tokens, most_tokens(kind, tokens))};
}
