// Drafts from random texts of several tenants; built with sanitizers, which watch memory and arithmetic.
//
//     cmake -S native -B native/build/guessing -DPARADRAFT_SANITIZE=address,undefined
//     cmake --build native/build/guessing && native/build/guessing/paradraft_native_guessing

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "paradraft_guessing.h"

namespace {

constexpr int32_t kVocab = 13;
constexpr int64_t kWidth = 4, kRows = 6, kSteps = 4000;

void require(bool is_right, const char *what) {
    if (is_right) return;
    std::printf("failed: %s\n", what);
    std::exit(1);
}

void require(int32_t code, const paradraft_error &error) { require(code == PARADRAFT_OK, error.message); }

struct Random {
    uint64_t state = 1;
    int64_t below(int64_t end) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(end));
    }
};

// A table of the contexts of one token: each goes on with the two next ones. Its keys are found by their buckets.
struct Table {
    Table() {
        for (int32_t bucket = 0; bucket < kBuckets; ++bucket) {
            heads.push_back(static_cast<uint32_t>(marks.size()));
            for (int32_t token = 0; token < kVocab; ++token) {
                const uint64_t key = static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15u;
                if (static_cast<int32_t>(key >> 60) != bucket) continue;
                begins.push_back(static_cast<uint32_t>(tokens.size()));
                marks.push_back(static_cast<uint32_t>(key >> 28));
                totals.push_back(9);
                for (int32_t next = 1; next <= 2; ++next) {
                    tokens.push_back(static_cast<uint16_t>((token + next) % kVocab));
                    counts.push_back(static_cast<uint16_t>(7 - 3 * next));
                }
            }
        }
        heads.push_back(static_cast<uint32_t>(marks.size()));
        begins.push_back(static_cast<uint32_t>(tokens.size()));
        order.length = 1;
        order.num_buckets = kBuckets;
        order.num_contexts = static_cast<int64_t>(marks.size());
        order.num_entries = static_cast<int64_t>(tokens.size());
        order.discounts[0] = order.discounts[1] = order.discounts[2] = 0.5;
        order.heads = heads.data();
        order.marks = marks.data();
        order.totals = totals.data();
        order.begins = begins.data();
        order.tokens = tokens.data();
        order.counts = counts.data();
    }

    static constexpr int32_t kBuckets = 16;
    std::vector<uint32_t> heads, marks, begins;
    std::vector<uint16_t> totals, tokens, counts;
    paradraft_table_order order = {};
};

paradraft_guesser *made(const Table &table) {
    static const int32_t sources[3] = {PARADRAFT_SUFFIX, PARADRAFT_RECENT, PARADRAFT_TABLE};
    static const int32_t frequent[3] = {1, 2, 3};
    static const double log_shares[3] = {-1.0, -1.5, -2.0};
    std::vector<double> weights(2 * (3 * PARADRAFT_SOURCE_WEIGHTS + PARADRAFT_DEPTHS + 1), 0.4);
    paradraft_guesser_options options = {};
    options.vocab_size = kVocab;
    options.num_sources = 3;
    options.sources = sources;
    options.weights = weights.data();
    options.width = kWidth;
    options.shared_tokens = 1500;
    options.row_tokens = 300;
    options.counted_tokens = 50;
    options.learned_contexts = 40;
    options.num_orders = 1;
    options.orders = &table.order;
    options.num_frequent = 3;
    options.frequent = frequent;
    options.frequent_log_shares = log_shares;
    paradraft_guesser *guesser = nullptr;
    paradraft_error error = {};
    require(paradraft_guesser_create(&options, &guesser, &error), error);
    return guesser;
}

struct Drafts {
    explicit Drafts(int64_t num_rows, int64_t capacity)
        : starts(num_rows + 1), tokens(capacity), parents(capacity), depths(capacity), sources(capacity),
          confidence(capacity), expected(num_rows) {}

    paradraft_drafts places() {
        return {static_cast<int64_t>(tokens.size()), starts.data(),  tokens.data(),     parents.data(),
                depths.data(),                       sources.data(), confidence.data(), expected.data()};
    }

    std::vector<int32_t> starts, tokens, parents, depths;
    std::vector<uint32_t> sources;
    std::vector<double> confidence, expected;
};

struct Row {
    int64_t number = 0;
    std::vector<int32_t> text;
};

void begin(paradraft_guesser *guesser, Row &row, Random &random) {
    const std::string tenant(static_cast<size_t>(random.below(3)), 'a');
    row.text.clear();
    for (int64_t count = 1 + random.below(random.below(8) == 0 ? 400 : 20); count > 0; --count)
        row.text.push_back(static_cast<int32_t>(random.below(kVocab)));
    paradraft_guesser_row given = {};
    given.tenant = tenant.c_str();
    given.tenant_bytes = static_cast<int64_t>(tenant.size());
    given.answer_from = static_cast<int64_t>(row.text.size());
    given.seed = static_cast<uint64_t>(random.below(100));
    given.is_warm = static_cast<int32_t>(random.below(2));
    given.has_noise = 1;
    paradraft_error error = {};
    require(paradraft_guesser_begin(guesser, &given, &row.number, &error), error);
}

void end(paradraft_guesser *guesser, const Row &row) {
    paradraft_error error = {};
    require(paradraft_guesser_end(guesser, row.number, row.text.data(), static_cast<int64_t>(row.text.size()), &error),
            error);
}

void check_tree(const Drafts &drafts, int64_t index, const paradraft_guesser_step &step) {
    const int32_t low = drafts.starts[static_cast<size_t>(index)], high = drafts.starts[static_cast<size_t>(index + 1)];
    require(high - low <= step.num_nodes, "a draft passes its budget");
    for (int32_t at = low; at < high; ++at) {
        const int32_t parent = drafts.parents[at];
        require(parent >= -1 && parent < at - low, "a parent comes behind its child");
        require(drafts.depths[at] == (parent < 0 ? 1 : drafts.depths[low + parent] + 1), "a depth is wrong");
        require(drafts.depths[at] <= step.depth, "a draft is too deep");
        require(drafts.tokens[at] >= 0 && drafts.tokens[at] < kVocab, "a token is unknown");
        require(drafts.confidence[at] <= (parent < 0 ? 1.0 : drafts.confidence[low + parent]), "confidence rises");
        require(drafts.sources[at] > 0 && drafts.sources[at] < 16, "a node has no source");
    }
}

void check_answers(paradraft_guesser *guesser, int64_t row, Random &random) {
    int64_t path = 0, count = 0;
    int32_t tokens[PARADRAFT_MOST_SHARES];
    double shares[PARADRAFT_MOST_SHARES];
    paradraft_error error = {};
    for (int64_t depth = 0; depth < 9; ++depth) {
        require(paradraft_guesser_shares(guesser, row, path, tokens, shares, &count, &error), error);
        double sum = 0.0;
        for (int64_t at = 0; at < count; ++at) sum += shares[at];
        require(sum <= 1.0 + 1e-9, "shares sum to more than 1");
        uint32_t bits = 0;
        const int32_t token = static_cast<int32_t>(random.below(kVocab));
        require(paradraft_guesser_source_of(guesser, row, path, token, &bits, &error), error);
        require(paradraft_guesser_descend(guesser, row, path, token, &path, &error), error);
    }
}

void check_refusals(paradraft_guesser *guesser, const Row &row) {
    const int32_t bad[2] = {1, kVocab};
    paradraft_error error = {};
    int64_t below = 0;
    require(paradraft_guesser_descend(guesser, row.number, 1000000, 1, &below, &error) != PARADRAFT_OK, "a path that is not there");
    require(paradraft_guesser_descend(guesser, -1, 0, 1, &below, &error) != PARADRAFT_OK, "a row that is not there");
    require(paradraft_guesser_end(guesser, row.number, bad, 2, &error) != PARADRAFT_OK, "a token outside the vocabulary");
    const paradraft_guesser_step step = {row.number, row.text.data(), 0, 0, 1, 1};
    require(paradraft_guesser_propose(guesser, &step, 1, nullptr, nullptr, &error) != PARADRAFT_OK, "an empty text");
}

}  // namespace

int main() {
    const Table table;
    paradraft_guesser *guesser = made(table);
    Random random;
    std::vector<Row> rows(kRows);
    for (Row &row : rows) begin(guesser, row, random);
    paradraft_error error = {};
    int64_t num_nodes = 0;
    for (int64_t number = 0; number < kSteps; ++number) {
        std::vector<paradraft_guesser_step> steps;
        int64_t capacity = 0;
        for (const Row &row : rows) {
            const auto length = static_cast<int64_t>(row.text.size());
            steps.push_back({row.number, row.text.data(), length, length - random.below(2), random.below(13), random.below(9)});
            capacity += steps.back().num_nodes;
        }
        Drafts drafts(kRows, capacity), again(1, 12);
        const paradraft_drafts places = drafts.places();
        const paradraft_price price = {number % 2 == 0 ? 0.0 : 0.05, 0.01};
        require(paradraft_guesser_propose(guesser, steps.data(), kRows, &price, &places, &error), error);
        for (int64_t index = 0; index < kRows; ++index) check_tree(drafts, index, steps[static_cast<size_t>(index)]);
        num_nodes += drafts.starts[kRows];
        const auto chosen = static_cast<size_t>(random.below(kRows));
        if (steps[chosen].num_nodes > 0) {
            check_answers(guesser, rows[chosen].number, random);
            const paradraft_drafts alone = again.places();
            require(paradraft_guesser_grow(guesser, rows[chosen].number, steps[chosen].num_nodes, steps[chosen].depth,
                                           kWidth, &price, &alone, &error), error);
            require(again.starts[1] == drafts.starts[chosen + 1] - drafts.starts[chosen], "a draft grows anew otherwise");
        }
        check_refusals(guesser, rows[0]);
        std::vector<int32_t> starts = {0}, tokens;
        for (size_t index = 0; index < rows.size(); ++index) {
            for (int64_t count = random.below(5); count > 0; --count)
                tokens.push_back(static_cast<int32_t>((rows[index].text.back() + 1 + random.below(2)) % kVocab));
            starts.push_back(static_cast<int32_t>(tokens.size()));
        }
        const size_t gone = random.below(10) == 0 ? static_cast<size_t>(random.below(kRows)) : rows.size();
        if (gone < rows.size()) end(guesser, rows[gone]);
        if (gone < rows.size()) begin(guesser, rows[gone], random);
        for (size_t index = 0; index < rows.size(); ++index) {
            steps[index].row = rows[index].number;
            steps[index].history = rows[index].text.data();
            steps[index].length = steps[index].known = static_cast<int64_t>(rows[index].text.size());
        }
        require(paradraft_guesser_observe(guesser, steps.data(), kRows, starts.data(), tokens.data(), &error), error);
        for (size_t index = 0; index < rows.size(); ++index)
            rows[index].text.insert(rows[index].text.end(), tokens.begin() + starts[index], tokens.begin() + starts[index + 1]);
    }
    for (const Row &row : rows) end(guesser, row);
    paradraft_guesser_destroy(guesser);
    std::printf("%lld steps, %lld nodes\n", static_cast<long long>(kSteps), static_cast<long long>(num_nodes));
    return num_nodes > kSteps ? 0 : 1;
}
