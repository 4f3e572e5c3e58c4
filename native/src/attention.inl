// Attention of some queries of one row over the paged cache. Included inside the unnamed namespace of one instruction
// set.
//
// Order of sums. A token's keys are numbered by logical position: its row's context, then its ancestors, then itself.
// A score is one chain over the head's elements. Softmax runs span by span, a span being kScoreSpan logical positions
// that start at a multiple of it: within a span, weights are summed up in 16 chains, lane i taking positions i, i + 16,
// ..., and values in one chain, key after key; spans are merged in order. So it does not matter in which slots keys lie,
// which of them were fed in this pass, or which other tokens share the task.

// Which logical positions of a span a token sees.
struct Range {
    int64_t first, stop;
    bool is_empty() const { return first >= stop; }
};

inline Range seen_in(const TokenView &token, int64_t span) {
    return {larger(token.first, span), smaller(token.total(), span + kScoreSpan)};
}

// ---- Scores ----

template <class Steps, int Q>
void score_queries(const uint8_t *block, const uint32_t *words, int64_t queries, int64_t steps, float scale,
                   float *scores) {
    Vec sums[Q];
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) sums[q] = zero();
    for (int64_t done = 0; done < steps; done += kBlockSteps, words += queries * kBlockSteps * Steps::kParts) {
        const int64_t count = smaller(kBlockSteps, steps - done);
        for (int64_t step = 0; step < count; ++step, block += kStepBytes) {
#pragma GCC unroll 2
            for (int part = 0; part < Steps::kParts; ++part) {
                const typename Steps::Weights keys = Steps::read(block, part);
#pragma GCC unroll 16
                for (int q = 0; q < Q; ++q)
                    sums[q] = Steps::sum(sums[q], keys, words + (q * kBlockSteps + step) * Steps::kParts + part);
            }
        }
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) store(scores + q * kScoreSpan, multiply(sums[q], set(scale)));
}

using ScoreFunction = void (*)(const uint8_t *block, const uint32_t *words, int64_t queries, int64_t steps, float scale,
                               float *scores);

struct ScoreFunctions {
    ScoreFunction of[kMostQueries + 1];
};

template <class Steps, int Q>
constexpr void fill_scores(ScoreFunctions &functions) {
    functions.of[Q] = &score_queries<Steps, Q>;
    if constexpr (Q > 1) fill_scores<Steps, Q - 1>(functions);
}

template <class Steps>
constexpr ScoreFunctions all_scores() {
    ScoreFunctions functions = {};
    fill_scores<Steps, kMostQueries>(functions);
    return functions;
}

inline const uint32_t *cache_block(const AttentionTask &task, int64_t block, int64_t steps) {
    return reinterpret_cast<const uint32_t *>(task.keys) + block * steps * kPanel;
}

inline void copy_key(const AttentionTask &task, int64_t slot, int64_t steps, uint32_t *gathered) {
    const uint32_t *from = cache_block(task, slot / kPanel, steps) + slot % kPanel;
    for (int64_t step = 0; step < steps; ++step) gathered[step * kPanel] = from[step * kPanel];
}

// The 16 keys of a row from logical index `first` on; lanes behind the row's end hold anything.
inline const uint32_t *row_block(const AttentionTask &task, int64_t first, int64_t steps, uint32_t *gathered) {
    const int64_t block = task.blocks[first / kPanel];
    if (block >= 0) return cache_block(task, block, steps);
    const int64_t count = smaller(kPanel, task.num_slots - first);
    for (int64_t lane = 0; lane < kPanel; ++lane)
        copy_key(task, task.slots[first + smaller(lane, count - 1)], steps, gathered + lane);
    return gathered;
}

// The same with a token's tail behind what it shares.
inline const uint32_t *token_block(const AttentionTask &task, const TokenView &token, int64_t first, int64_t steps,
                                   uint32_t *gathered) {
    const int64_t last = token.total() - 1;
    if (first < token.shared) {
        const uint32_t *block = row_block(task, first, steps, gathered);
        if (block != gathered) __builtin_memcpy(gathered, block, static_cast<size_t>(steps * kStepBytes));
    }
    for (int64_t lane = larger(0, token.shared - first); lane < kPanel; ++lane)
        copy_key(task, token.tail[smaller(first + lane, last) - token.shared], steps, gathered + lane);
    return gathered;
}

// Fetch what is read after the 16 keys of a row from `first` on: the next keys and, when the span is weighed, the values.
inline void fetch_ahead(const AttentionTask &task, int64_t first, int64_t steps) {
    const int64_t next = first + kPanel;
    if (next < task.num_slots && task.blocks[next / kPanel] >= 0) {
        const uint32_t *block = cache_block(task, task.blocks[next / kPanel], steps);
        for (int64_t step = 0; step < steps; ++step) prefetch(reinterpret_cast<const uint8_t *>(block + step * kPanel));
    }
    const int64_t bytes = round_up(task.head_dim, kPanel) * (task.cache_kind == PARADRAFT_BF16 ? 2 : 4);
    for (int64_t i = first; i < smaller(next, task.num_slots); ++i)
        for (int64_t byte = 0; byte < bytes; byte += kStepBytes) prefetch(task.values + task.slots[i] * bytes + byte);
}

// Fill scores of all logical positions of a span that some token sees.
template <class Steps>
void score_span(const AttentionTask &task, const AttentionScratch &scratch, int64_t span, int64_t stop, int64_t steps) {
    static constexpr ScoreFunctions functions = all_scores<Steps>();
    const int64_t queries = task.num_tokens * task.heads;
    int64_t seen = stop;
    for (int64_t t = 0; t < task.num_tokens; ++t) seen = smaller(seen, task.tokens[t].first);
    for (int64_t first = larger(span, seen / kPanel * kPanel); first < stop; first += kPanel) {
        float *scores = scratch.scores + (first - span);
        bool is_shared = true;
        for (int64_t t = 0; t < task.num_tokens; ++t) {
            const TokenView &token = task.tokens[t];
            if (token.tail_count > 0 && token.shared < first + kPanel) is_shared = false;
        }
        if (is_shared) {
            const uint32_t *block = row_block(task, first, steps, scratch.keys);
            fetch_ahead(task, first, steps);
            functions.of[queries](reinterpret_cast<const uint8_t *>(block), scratch.words, queries, steps, task.scale,
                                  scores);
            continue;
        }
        for (int64_t t = 0; t < task.num_tokens; ++t) {
            const TokenView &token = task.tokens[t];
            if (first >= token.total()) continue;
            const bool is_own = token.tail_count > 0 && token.shared < first + kPanel;
            const uint32_t *block = is_own ? token_block(task, token, first, steps, scratch.keys)
                                           : row_block(task, first, steps, scratch.keys);
            const uint32_t *words = scratch.words + t * task.heads * kBlockSteps * Steps::kParts;
            functions.of[task.heads](reinterpret_cast<const uint8_t *>(block), words, queries, steps, task.scale,
                                     scores + t * task.heads * kScoreSpan);
        }
    }
}

// ---- Weights ----

// What a span, or several merged, came to for one query.
struct Softmax {
    float most;     // largest score
    float total;    // sum of e^(score - most)
    float product;  // sum of e^(score - most) (score - most), for the entropy
};

// Turn the scores of one query into weights e^(score - most); positions outside the range get 0.
inline Softmax weigh(float *scores, int64_t span, Range range, bool has_product) {
    const float hidden = -__builtin_inff();
    const int64_t first = range.first / kPanel * kPanel, stop = round_up(range.stop, kPanel);
    for (int64_t i = first; i < range.first; ++i) scores[i - span] = hidden;
    for (int64_t i = range.stop; i < stop; ++i) scores[i - span] = hidden;
    Vec most = set(hidden);
    for (int64_t i = first; i < stop; i += kPanel) most = largest(load(scores + i - span), most);
    Softmax softmax = {largest_lane(most), 0.0f, 0.0f};
    const Vec shift = set(softmax.most);
    Vec total = zero(), product = zero();
    for (int64_t i = first; i < stop; i += kPanel) {
        const Vec distance = largest(subtract(load(scores + i - span), shift), set(-1000.0f));
        const Vec weight = exponential(distance);
        store(scores + i - span, weight);
        total = add(total, weight);
        if (has_product) product = multiply_add(weight, distance, product);
    }
    softmax.total = added_up(total);
    if (has_product) softmax.product = added_up(product);
    return softmax;
}

// ---- Values ----

template <bool IsBf16>
inline Vec load_value(const uint8_t *values, int64_t element) {
    if constexpr (IsBf16) return load_bf16(reinterpret_cast<const uint16_t *>(values) + element);
    return load(reinterpret_cast<const float *>(values) + element);
}

// sums [Q, padded] += weights [Q] of `count` keys times their values, columns `column` .. column + C vectors.
template <bool IsBf16, int Q, int C>
void add_values(const uint8_t *values, const int32_t *slots, int64_t count, const float *weights, int64_t padded,
                int64_t column, float *sums) {
    Vec kept[Q][C];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) kept[q][c] = load(sums + q * padded + column + c * kPanel);
    }
    for (int64_t key = 0; key < count; ++key) {
        Vec value[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) value[c] = load_value<IsBf16>(values, slots[key] * padded + column + c * kPanel);
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q) {
            const Vec weight = set(weights[q * kScoreSpan + key]);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) kept[q][c] = multiply_add(weight, value[c], kept[q][c]);
        }
    }
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) store(sums + q * padded + column + c * kPanel, kept[q][c]);
    }
}

template <bool IsBf16, int Q>
void add_all_columns(const AttentionTask &task, const int32_t *slots, int64_t count, const float *weights, float *sums) {
    const int64_t padded = round_up(task.head_dim, kPanel);
    int64_t column = 0;
    for (; column + kValueColumns * kPanel <= padded; column += kValueColumns * kPanel)
        add_values<IsBf16, Q, kValueColumns>(task.values, slots, count, weights, padded, column, sums);
    for (; column < padded; column += kPanel)
        add_values<IsBf16, Q, 1>(task.values, slots, count, weights, padded, column, sums);
}

template <bool IsBf16, int Q = kValueQueries>
void add_queries(const AttentionTask &task, const int32_t *slots, int64_t count, const float *weights, int64_t queries,
                 float *sums) {
    const int64_t padded = round_up(task.head_dim, kPanel);
    for (; queries >= Q; queries -= Q, weights += Q * kScoreSpan, sums += Q * padded)
        add_all_columns<IsBf16, Q>(task, slots, count, weights, sums);
    if constexpr (Q > 1) {
        if (queries > 0) add_queries<IsBf16, Q - 1>(task, slots, count, weights, queries, sums);
    }
}

// Add the keys of a range, whose first lies at slots[range.first - base]; weights are those of the span's first key.
inline void add_keys(const AttentionTask &task, const int32_t *slots, int64_t base, Range range, int64_t span,
                     const float *weights, int64_t queries, float *sums) {
    if (range.is_empty()) return;
    const int32_t *from = slots + (range.first - base);
    const int64_t count = range.stop - range.first;
    if (task.cache_kind == PARADRAFT_BF16)
        add_queries<true>(task, from, count, weights + (range.first - span), queries, sums);
    else
        add_queries<false>(task, from, count, weights + (range.first - span), queries, sums);
}

// Sum up the values of a span: keys that all tokens share together, the others token by token, each in its order.
void sum_span(const AttentionTask &task, const AttentionScratch &scratch, int64_t span) {
    const int64_t padded = round_up(task.head_dim, kPanel);
    Range common = {span, span + kScoreSpan};
    for (int64_t t = 0; t < task.num_tokens; ++t) {
        const Range range = seen_in(task.tokens[t], span);
        common = {larger(common.first, range.first), smaller(common.stop, smaller(range.stop, task.tokens[t].shared))};
    }
    if (common.is_empty()) common = {span + kScoreSpan, span + kScoreSpan};
    const int64_t head_size = task.heads * padded;
    const auto add_own = [&](int64_t t, const int32_t *slots, int64_t base, Range range) {
        add_keys(task, slots, base, range, span, scratch.scores + t * task.heads * kScoreSpan, task.heads,
                 scratch.block + t * head_size);
    };
    for (int64_t t = 0; t < task.num_tokens; ++t) {  // before what is common
        const TokenView &token = task.tokens[t];
        const Range range = seen_in(token, span);
        add_own(t, task.slots, 0, {range.first, smaller(common.first, smaller(range.stop, token.shared))});
    }
    add_keys(task, task.slots, 0, common, span, scratch.scores, task.num_tokens * task.heads, scratch.block);
    for (int64_t t = 0; t < task.num_tokens; ++t) {  // behind it: the row's, then the token's own
        const TokenView &token = task.tokens[t];
        const Range range = seen_in(token, span);
        add_own(t, task.slots, 0, {larger(range.first, common.stop), smaller(range.stop, token.shared)});
        add_own(t, token.tail, token.shared, {larger(range.first, token.shared), range.stop});
    }
}

// ---- Spans ----

inline void merge(Softmax &whole, const Softmax &part, float *sums, const float *part_sums, int64_t padded) {
    const float most = whole.most > part.most ? whole.most : part.most;
    const float fade = exponential(whole.most - most), part_fade = exponential(part.most - most);
    // Sums weighted by distance move with the largest score they are measured from.
    const float moved = fade > 0.0f ? whole.product + (whole.most - most) * whole.total : 0.0f;
    const float part_moved = part_fade > 0.0f ? part.product + (part.most - most) * part.total : 0.0f;
    whole = {most, whole.total * fade + part.total * part_fade, moved * fade + part_moved * part_fade};
    const Vec factor = set(fade), part_factor = set(part_fade);
    for (int64_t i = 0; i < padded; i += kPanel)
        store(sums + i, multiply_add(load(sums + i), factor, multiply(load(part_sums + i), part_factor)));
}

inline void prepare_queries(const AttentionTask &task, uint32_t *words) {
    const int64_t queries = task.num_tokens * task.heads;
    for (int64_t t = 0; t < task.num_tokens; ++t)
        for (int64_t h = 0; h < task.heads; ++h)
            prepare_line(task.cache_kind, task.queries + t * task.query_stride + h * task.head_dim, task.head_dim,
                         words + (t * task.heads + h) * kBlockSteps * parts_of_step(task.cache_kind), nullptr, queries);
}

void attend(const AttentionTask &task, const AttentionScratch &scratch) {
    const int64_t padded = round_up(task.head_dim, kPanel), queries = task.num_tokens * task.heads;
    const int64_t steps = steps_of(task.cache_kind, task.head_dim);
    Softmax softmax[kMostQueries];
    for (int64_t q = 0; q < queries; ++q) softmax[q] = {-__builtin_inff(), 0.0f, 0.0f};
    for (int64_t i = 0; i < queries * padded; ++i) scratch.sums[i] = 0.0f;
    prepare_queries(task, scratch.words);
    int64_t first = task.tokens[0].first, last = 0;
    for (int64_t t = 0; t < task.num_tokens; ++t) {
        first = smaller(first, task.tokens[t].first);
        last = larger(last, task.tokens[t].total());
    }
    for (int64_t span = first / kScoreSpan * kScoreSpan; span < last; span += kScoreSpan) {
        const int64_t stop = smaller(last, span + kScoreSpan);
        if (task.cache_kind == PARADRAFT_BF16)
            score_span<Bf16Steps>(task, scratch, span, stop, steps);
        else
            score_span<F32Steps>(task, scratch, span, stop, steps);
        Softmax parts[kMostQueries];
        for (int64_t q = 0; q < queries; ++q) {
            const Range range = seen_in(task.tokens[q / task.heads], span);
            if (!range.is_empty()) parts[q] = weigh(scratch.scores + q * kScoreSpan, span, range, task.entropy != nullptr);
        }
        for (int64_t i = 0; i < queries * padded; ++i) scratch.block[i] = 0.0f;
        sum_span(task, scratch, span);
        for (int64_t q = 0; q < queries; ++q)
            if (!seen_in(task.tokens[q / task.heads], span).is_empty())
                merge(softmax[q], parts[q], scratch.sums + q * padded, scratch.block + q * padded, padded);
    }
    for (int64_t q = 0; q < queries; ++q) {
        const int64_t token = q / task.heads, head = q % task.heads;
        const Vec factor = set(1.0f / softmax[q].total);
        float *output = task.outputs + token * task.output_stride + head * task.head_dim;
        for_lanes(task.head_dim, [&](int64_t i, int64_t count) {
            store_lanes(output + i, multiply(load(scratch.sums + q * padded + i), factor), count);
        });
        if (task.entropy != nullptr)
            task.entropy[token * task.entropy_stride + head] =
                __builtin_logf(softmax[q].total) - softmax[q].product / softmax[q].total;
    }
}
