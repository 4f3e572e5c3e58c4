#include "table.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "../failure.h"
#include "interpolation.h"

namespace paradraft {
namespace {

constexpr int kMarkBits = 32;
constexpr size_t kWinners = 8;
constexpr int64_t kMostBuckets = int64_t{1} << 31;

// Whether places run from 0 to `end` and never fall, nor rise by more than `most` at once.
bool is_rising(const uint32_t *places, int64_t count, int64_t end, int64_t most) {
    if (places[0] != 0 || places[count] != end) return false;
    for (int64_t at = 0; at < count; ++at)
        if (places[at + 1] < places[at] || places[at + 1] - places[at] > most) return false;
    return true;
}

const char *problem_of(const paradraft_table_order &order) {
    if (order.length < 1 || order.length > kMaxOrder) return "a length outside 1 .. 16";
    if (order.num_buckets < 2 || (order.num_buckets & (order.num_buckets - 1)) != 0 || order.num_buckets > kMostBuckets)
        return "a number of buckets that cannot be";
    if (order.num_contexts < 0 || order.num_contexts > UINT32_MAX || order.num_entries < 0 ||
        order.num_entries > UINT32_MAX)
        return "sizes that cannot be";
    if (order.heads == nullptr || order.begins == nullptr) return "missing arrays";
    if (order.num_contexts > 0 && (order.marks == nullptr || order.totals == nullptr)) return "missing arrays";
    if (order.num_entries > 0 && (order.tokens == nullptr || order.counts == nullptr)) return "missing arrays";
    if (!is_rising(order.heads, order.num_buckets, order.num_contexts, UINT32_MAX)) return "heads out of order";
    if (!is_rising(order.begins, order.num_contexts, order.num_entries, kMaxEntries)) return "begins out of order";
    return nullptr;
}

}  // namespace

TableOrder::TableOrder(const paradraft_table_order &given, int64_t vocab_size) : given_(given) {
    const char *problem = problem_of(given);
    if (problem != nullptr)
        refuse("The contexts of " + std::to_string(given.length) + " tokens of a table have " + problem + ".");
    for (int64_t at = 0; at < given.num_contexts; ++at)
        if (given.totals[at] == 0) refuse("A context of a table was never seen.");
    for (int64_t at = 0; at < given.num_entries; ++at)
        if (token(at) < 0 || token(at) >= vocab_size)
            refuse("A table holds token " + std::to_string(token(at)) + ", outside a vocabulary of " +
                   std::to_string(vocab_size) + ".");
    discounts_ = {0.0, given.discounts[0], given.discounts[1], given.discounts[2]};
    shift_ = 64;
    for (int64_t size = given.num_buckets; size > 1; size /= 2) --shift_;
}

int64_t TableOrder::find(uint64_t key) const {
    const uint64_t bucket = key >> shift_;
    const auto mark = static_cast<uint32_t>(key >> (shift_ - kMarkBits));
    for (int64_t at = given_.heads[bucket]; at < given_.heads[bucket + 1]; ++at)
        if (given_.marks[at] == mark) return at;
    return -1;
}

int32_t TableOrder::token(int64_t at) const {
    return given_.is_wide != 0 ? static_cast<int32_t>(static_cast<const uint32_t *>(given_.tokens)[at])
                               : static_cast<const uint16_t *>(given_.tokens)[at];
}

void Frequent::add_winners(const PositionNoise &noise, double left, Law &law) const {
    struct Runner {
        double speed, log_share;
        int32_t token;
    };
    std::array<Runner, kWinners> first;  // the fastest first
    size_t size = 0;
    for (size_t at = 0; at < tokens.size(); ++at) {
        // Nearly all are out of the race by a bound of their noise.
        if (size == kWinners && log_shares[at] + noise.most(tokens[at]) < first[size - 1].speed) continue;
        const Runner runner = {log_shares[at] + noise.of(tokens[at]), log_shares[at], tokens[at]};
        if (size == kWinners && first[size - 1].speed >= runner.speed) continue;
        size_t place = size < kWinners ? size++ : size - 1;
        for (; place > 0 && first[place - 1].speed < runner.speed; --place) first[place] = first[place - 1];
        first[place] = runner;
    }
    for (size_t at = 0; at < size; ++at) entry(law, first[at].token, 0.0).share += left * std::exp(first[at].log_share);
}

Table::Table(const paradraft_guesser_options &options) {
    if (options.num_orders < 0 || options.num_orders > kMaxOrder || options.num_frequent < 0)
        refuse("A table of " + std::to_string(options.num_orders) + " lengths of contexts cannot be.");
    for (int64_t number = 0; number < options.num_orders; ++number) {
        orders_.emplace_back(options.orders[number], options.vocab_size);
        if (number > 0 && orders_[static_cast<size_t>(number)].length() <= orders_[static_cast<size_t>(number - 1)].length())
            refuse("The contexts of a table are not in order of their length.");
    }
    frequent_.tokens.assign(options.frequent, options.frequent + options.num_frequent);
    frequent_.log_shares.assign(options.frequent_log_shares, options.frequent_log_shares + options.num_frequent);
    for (const int32_t token : frequent_.tokens)
        if (token < 0 || token >= options.vocab_size) refuse("A frequent token lies outside the vocabulary.");
}

std::vector<int32_t> Table::lengths() const {
    std::vector<int32_t> lengths;
    for (const TableOrder &order : orders_) lengths.push_back(order.length());
    return lengths;
}

Law Table::shares(const Context &context, const TenantCounts *learned, const PositionNoise *noise) const {
    std::vector<Seen> found;
    found.reserve(orders_.size());
    Key key;
    for (size_t number = 0; number < orders_.size() && orders_[number].length() <= context.size; ++number) {
        const TableOrder &order = orders_[number];
        const uint64_t here = key.of(order.length(), context);
        const int64_t place = order.find(here);
        const Counts *also = learned == nullptr ? nullptr : learned->find(number, here);
        if (place < 0 && also == nullptr) break;
        Seen &seen = found.emplace_back();
        seen.discounts = order.discounts();
        if (place >= 0) {
            seen.total = order.total(place);
            for (int64_t at = order.begin(place); at < order.begin(place + 1); ++at) seen.add(order.token(at), order.count(at));
        }
        if (also == nullptr) continue;
        seen.total += also->total();
        for (const Count &one : *also) seen.add(one.token, one.count);
    }
    Law law;
    const double left = interpolate(found, law);
    if (noise == nullptr) {
        keep_likeliest(law);
        return law;
    }
    frequent_.add_winners(*noise, left, law);
    if (law.size() <= PARADRAFT_MOST_SHARES) return law;
    std::vector<std::pair<double, Share>> heard;
    for (const Share &one : law) heard.push_back({one.share * std::exp(noise->of(one.token)), one});
    std::stable_sort(heard.begin(), heard.end(), [](const auto &one, const auto &other) { return one.first > other.first; });
    for (size_t at = 0; at < PARADRAFT_MOST_SHARES; ++at) law[at] = heard[at].second;
    law.resize(PARADRAFT_MOST_SHARES);
    return law;
}

}  // namespace paradraft
