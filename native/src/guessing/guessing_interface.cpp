// The plain C side of drafting without a network: arguments are checked before anything is changed.

#include <algorithm>
#include <memory>
#include <string>

#include "../guarded.h"
#include "guesser.h"

struct paradraft_guesser {
    paradraft::Guesser inner;
};

namespace {

using paradraft::guarded;
using paradraft::refuse;

constexpr int64_t kMostNodes = 1 << 20;  // of one draft

template <class... Pointers>
void require(const Pointers *...pointers) {
    if (((pointers == nullptr) || ...)) refuse("An argument is missing.");
}

void check_row(const paradraft::Guesser &guesser, int64_t row) {
    if (!guesser.has_row(row)) refuse("Row " + std::to_string(row) + " is not there.");
}

// The guesses of a row, which must have the path.
paradraft::PathTree &paths_of(const paradraft::Guesser &guesser, int64_t row, int64_t path) {
    check_row(guesser, row);
    paradraft::PathTree *const paths = guesser.paths(row);
    if (paths == nullptr || path < 0 || path >= paths->size())
        refuse("Row " + std::to_string(row) + " has no path " + std::to_string(path) + ".");
    return *paths;
}

void check_price(const paradraft_price &price) {
    if (!(price.node >= 0.0) || !(price.draft >= 0.0)) refuse("A price is below 0 or not a number.");
}

void check_budget(int64_t num_nodes, int64_t depth) {
    if (num_nodes < 0 || num_nodes > kMostNodes || depth < 0 || depth > kMostNodes)
        refuse("A draft of " + std::to_string(num_nodes) + " nodes, " + std::to_string(depth) + " deep, cannot be.");
}

void check_drafts(const paradraft_drafts &drafts, int64_t num_nodes) {
    require(drafts.starts, drafts.expected);
    if (drafts.capacity < num_nodes) refuse("There is no room for " + std::to_string(num_nodes) + " nodes.");
    if (num_nodes > 0) require(drafts.tokens, drafts.parents, drafts.depths, drafts.sources, drafts.confidence);
}

int64_t check_steps(paradraft::Guesser &guesser, const paradraft_guesser_step *steps, int64_t num_rows) {
    int64_t num_nodes = 0;
    for (int64_t index = 0; index < num_rows; ++index) {
        check_budget(steps[index].num_nodes, steps[index].depth);
        num_nodes += steps[index].num_nodes;
        for (int64_t other = 0; other < index; ++other)
            if (steps[other].row == steps[index].row) refuse("Row " + std::to_string(steps[index].row) + " is named twice.");
    }
    for (int64_t index = 0; index < num_rows; ++index) guesser.check_step(steps[index]);
    return num_nodes;
}

void write(const paradraft::Draft &draft, int64_t index, const paradraft_drafts &drafts) {
    int32_t at = drafts.starts[index];
    for (const paradraft::Node &node : draft.nodes) {
        drafts.tokens[at] = node.token;
        drafts.parents[at] = node.parent;
        drafts.depths[at] = node.depth;
        drafts.sources[at] = node.sources;
        drafts.confidence[at] = node.confidence;
        ++at;
    }
    drafts.starts[index + 1] = at;
    drafts.expected[index] = draft.expected;
}

}  // namespace

int32_t paradraft_guesser_create(const paradraft_guesser_options *options, paradraft_guesser **guesser,
                                 paradraft_error *error) {
    return guarded(error, [&] {
        require(options, guesser);
        require(options->sources, options->weights);
        if (options->num_orders > 0) require(options->orders);
        if (options->num_frequent > 0) require(options->frequent, options->frequent_log_shares);
        *guesser = new paradraft_guesser{paradraft::Guesser(*options)};
    });
}

void paradraft_guesser_destroy(paradraft_guesser *guesser) { delete guesser; }

int32_t paradraft_guesser_weights(const paradraft_guesser *guesser, int32_t is_warm, double *weights,
                                  paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, weights);
        guesser->inner.pool(is_warm != 0).write(weights);
    });
}

int32_t paradraft_guesser_begin(paradraft_guesser *guesser, const paradraft_guesser_row *given, int64_t *row,
                                paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, given, row);
        require(given->tenant);
        if (given->tenant_bytes < 0 || given->answer_from < 0) refuse("A row's sizes are below 0.");
        *row = guesser->inner.begin(*given);
    });
}

int32_t paradraft_guesser_end(paradraft_guesser *guesser, int64_t row, const int32_t *text, int64_t length,
                              paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser);
        check_row(guesser->inner, row);
        if (length < 0) refuse("A text of " + std::to_string(length) + " tokens cannot be.");
        if (length > 0) require(text);
        guesser->inner.check_tokens(text, length);
        guesser->inner.end(row, text, length);
    });
}

int32_t paradraft_guesser_propose(paradraft_guesser *guesser, const paradraft_guesser_step *steps, int64_t num_rows,
                                  const paradraft_price *price, const paradraft_drafts *drafts,
                                  paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser);
        if (num_rows > 0) require(steps);
        const int64_t num_nodes = check_steps(guesser->inner, steps, num_rows);
        if (drafts != nullptr) {
            require(price);
            check_price(*price);
            check_drafts(*drafts, num_nodes);
        }
        guesser->inner.look_up(steps, num_rows);
        if (drafts == nullptr) return;
        drafts->starts[0] = 0;
        for (int64_t index = 0; index < num_rows; ++index) {
            const paradraft::Budget budget = {steps[index].num_nodes, steps[index].depth, guesser->inner.width(), *price};
            write(guesser->inner.draft(steps[index].row, budget), index, *drafts);
        }
    });
}

int32_t paradraft_guesser_grow(paradraft_guesser *guesser, int64_t row, int64_t num_nodes, int64_t depth, int64_t width,
                               const paradraft_price *price, const paradraft_drafts *drafts, paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, price, drafts);
        check_row(guesser->inner, row);
        check_budget(num_nodes, depth);
        check_price(*price);
        check_drafts(*drafts, num_nodes);
        if (width < 1 || width > kMostNodes) refuse("A width of " + std::to_string(width) + " makes no draft.");
        drafts->starts[0] = 0;
        write(guesser->inner.draft(row, {num_nodes, depth, width, *price}), 0, *drafts);
    });
}

int32_t paradraft_guesser_observe(paradraft_guesser *guesser, const paradraft_guesser_step *steps, int64_t num_rows,
                                  const int32_t *starts, const int32_t *tokens, paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, starts);
        if (num_rows > 0) require(steps);
        check_steps(guesser->inner, steps, num_rows);
        for (int64_t index = 0; index < num_rows; ++index)
            if (starts[index] < 0 || starts[index + 1] < starts[index]) refuse("The starts of chosen tokens fall.");
        if (starts[num_rows] > starts[0]) {
            require(tokens);
            guesser->inner.check_tokens(tokens + starts[0], starts[num_rows] - starts[0]);
        }
        guesser->inner.observe(steps, num_rows, starts, tokens);
    });
}

int32_t paradraft_guesser_has(const paradraft_guesser *guesser, int64_t row, int32_t *has_any, paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, has_any);
        check_row(guesser->inner, row);
        *has_any = guesser->inner.paths(row) != nullptr ? 1 : 0;
    });
}

int32_t paradraft_guesser_shares(paradraft_guesser *guesser, int64_t row, int64_t path, int32_t *tokens, double *shares,
                                 int64_t *count, paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, tokens, shares, count);
        paths_of(guesser->inner, row, path);
        const paradraft::Law &law = guesser->inner.shares(row, path);
        *count = static_cast<int64_t>(law.size());
        for (size_t at = 0; at < law.size(); ++at) {
            tokens[at] = law[at].token;
            shares[at] = law[at].share;
        }
    });
}

int32_t paradraft_guesser_descend(paradraft_guesser *guesser, int64_t row, int64_t path, int32_t token, int64_t *below,
                                  paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, below);
        guesser->inner.check_tokens(&token, 1);
        *below = paths_of(guesser->inner, row, path).descend(path, token);
    });
}

int32_t paradraft_guesser_source_of(const paradraft_guesser *guesser, int64_t row, int64_t path, int32_t token,
                                    uint32_t *bits, paradraft_error *error) {
    return guarded(error, [&] {
        require(guesser, bits);
        *bits = paths_of(guesser->inner, row, path).source_of(path, token);
    });
}
