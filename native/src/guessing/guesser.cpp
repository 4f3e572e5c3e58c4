#include "guesser.h"

#include <algorithm>
#include <string>

#include "../failure.h"

namespace paradraft {
namespace {

size_t checked_size(const paradraft_guesser_options &options) {
    if (options.vocab_size < 1 || options.vocab_size > INT32_MAX)
        refuse("vocab_size is " + std::to_string(options.vocab_size) + ", which cannot be.");
    if (options.num_sources < 1 || options.num_sources > static_cast<int64_t>(kMaxSources) || options.width < 1)
        refuse(std::to_string(options.num_sources) + " sources and a width of " + std::to_string(options.width) +
               " make no draft.");
    for (const int64_t size : {options.shared_tokens, options.learned_contexts})
        if (size < 0) refuse("A bound is " + std::to_string(size) + ", below 0.");
    for (const int64_t size : {options.row_tokens, options.counted_tokens})
        if (size < 1) refuse("A bound of a row is " + std::to_string(size) + ", below 1.");
    bool is_there[kMaxSources] = {};
    for (int64_t number = 0; number < options.num_sources; ++number) {
        const int32_t kind = options.sources[number];
        if (kind < 0 || kind >= static_cast<int32_t>(kMaxSources) || is_there[kind])
            refuse("Source " + std::to_string(kind) + " is unknown or named twice.");
        is_there[kind] = true;
    }
    return static_cast<size_t>(options.num_sources);
}

}  // namespace

Guesser::Row::Row(const paradraft_guesser_row &given, int64_t row_tokens, int64_t counted_tokens)
    : tenant(given.tenant, static_cast<size_t>(given.tenant_bytes)),
      answer_from(given.answer_from),
      seed(given.seed),
      choice(given.choice),
      is_warm(given.is_warm != 0),
      has_noise(given.has_noise != 0),
      own(row_tokens),
      recent(counted_tokens) {}

Guesser::Guesser(const paradraft_guesser_options &options)
    : vocab_size_(options.vocab_size),
      width_(options.width),
      row_tokens_(options.row_tokens),
      counted_tokens_(options.counted_tokens),
      kinds_(options.sources, options.sources + checked_size(options)),
      pools_{Pool(options.weights, kinds_.size()),
             Pool(options.weights + PARADRAFT_SOURCE_WEIGHTS * kinds_.size() + PARADRAFT_DEPTHS + 1, kinds_.size())},
      table_(options),
      shared_(options.shared_tokens),
      learned_(table_.lengths(), options.learned_contexts) {}

bool Guesser::has(int32_t kind) const { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); }

int64_t Guesser::begin(const paradraft_guesser_row &given) {
    rows_.emplace(next_row_, std::make_unique<Row>(given, row_tokens_, counted_tokens_));
    return next_row_++;
}

void Guesser::end(int64_t number, const int32_t *text, int64_t length) {
    const std::unique_ptr<Row> row = std::move(rows_.at(number));
    rows_.erase(number);
    asked_.erase(std::remove(asked_.begin(), asked_.end(), number), asked_.end());
    for (const int64_t other : asked_)
        if (row_of(other).paths) row_of(other).paths->close();
    if (has(PARADRAFT_SUFFIX)) {
        std::vector<int32_t> answer = row->own.last(std::max<int64_t>(row->own.end() - row->answer_from, 0));
        answer.insert(answer.end(), row->tail.begin(), row->tail.end());
        shared_.add(row->tenant, std::move(answer));
    }
    if (has(PARADRAFT_TABLE)) learned_.learn(row->tenant, text, length, row->answer_from);
}

void Guesser::look_up(const paradraft_guesser_step *steps, int64_t num_rows) {
    for (const int64_t number : asked_) row_of(number).paths.reset();
    asked_.clear();
    for (int64_t index = 0; index < num_rows; ++index) {
        const paradraft_guesser_step &step = steps[index];
        Row &row = row_of(step.row);
        if (has(PARADRAFT_SUFFIX)) row.own.follow(step.history, step.length);
        row.tail.clear();
        if (step.num_nodes == 0) continue;
        if (has(PARADRAFT_RECENT)) row.recent.follow(step.history, step.length);
        PathTree paths = looked_up(row, step);
        if (!paths.has_any()) continue;
        asked_.push_back(step.row);
        row.paths.emplace(std::move(paths));
    }
}

PathTree Guesser::looked_up(Row &row, const paradraft_guesser_step &step) const {
    const auto depth = static_cast<int32_t>(step.depth);
    const Sources sources = {&kinds_, has(PARADRAFT_RECENT) ? &row.recent : nullptr,
                             has(PARADRAFT_TABLE) ? &table_ : nullptr, learned_.of(row.tenant)};
    const NoiseKey noise = {row.has_noise && row.is_warm, row.seed, row.choice, static_cast<uint64_t>(step.length)};
    Camp camp;
    if (has(PARADRAFT_SUFFIX)) camp = find_voters(row.own, shared_.of(row.tenant), depth);
    return PathTree(sources, noise, std::move(camp), depth, Context::of(step.history, step.length),
                    Context::of(step.history, step.known));
}

Draft Guesser::draft(int64_t row, const Budget &budget) {
    PathTree *const found = paths(row);
    return found == nullptr ? Draft() : grow(*found, pool(row_of(row).is_warm), budget);
}

void Guesser::observe(const paradraft_guesser_step *steps, int64_t num_rows, const int32_t *starts,
                      const int32_t *tokens) {
    for (int64_t index = 0; index < num_rows; ++index) {
        Row &row = row_of(steps[index].row);
        const int32_t *chosen = tokens + starts[index];
        const int64_t count = starts[index + 1] - starts[index];
        if (row.paths) row.paths->learn(chosen, count, pools_[row.is_warm ? 1 : 0]);
        row.paths.reset();
        if (!has(PARADRAFT_SUFFIX)) continue;
        row.own.follow(steps[index].history, steps[index].length);
        row.tail.assign(chosen, chosen + count);
    }
}

PathTree *Guesser::paths(int64_t row) const {
    Row &found = row_of(row);
    return found.paths && found.paths->is_open() ? &*found.paths : nullptr;
}

const Law &Guesser::shares(int64_t row, int64_t path) { return row_of(row).paths->shares(path, pool(row_of(row).is_warm)); }

void Guesser::check_step(const paradraft_guesser_step &step) {
    if (!has_row(step.row)) refuse("Row " + std::to_string(step.row) + " is not there.");
    if (step.history == nullptr || step.length < 1 || step.known < 0 || step.known > step.length)
        refuse("A text of " + std::to_string(step.length) + " tokens, " + std::to_string(step.known) +
               " of them pending or before, cannot be.");
    Row &row = row_of(step.row);
    if (step.length <= row.num_checked) return;
    check_tokens(step.history + row.num_checked, step.length - row.num_checked);
    row.num_checked = step.length;
}

void Guesser::check_tokens(const int32_t *tokens, int64_t count) const {
    for (int64_t at = 0; at < count; ++at)
        if (tokens[at] < 0 || tokens[at] >= vocab_size_)
            refuse("Token " + std::to_string(tokens[at]) + " lies outside a vocabulary of " +
                   std::to_string(vocab_size_) + ".");
}

}  // namespace paradraft
