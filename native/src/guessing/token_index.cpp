#include "token_index.h"

#include <algorithm>
#include <utility>

#include "context_keys.h"

namespace paradraft {
namespace {

constexpr int64_t kFirstCapacity = 256;
constexpr int64_t kRoomy = 8;  // capacity over tokens from which dropping tokens gives memory back

}  // namespace

TokenIndex::TokenIndex(int64_t max_tokens) : max_tokens_(max_tokens) { allocate(kFirstCapacity); }

int64_t TokenIndex::floor() const { return std::max(lowest_, end_ - max_tokens_); }

void TokenIndex::follow(const int32_t *text, int64_t length) {
    if (end_ < length) extend(text + end_, length - end_);
}

void TokenIndex::extend(const int32_t *tokens, int64_t count) {
    if (count > max_tokens_) {
        const int64_t skipped = count - max_tokens_;
        end_ = lowest_ = end_ + skipped;
        tokens += skipped;
        count = max_tokens_;
    }
    if (end_ + count - lowest_ > capacity_) {
        const int64_t needed = std::min(size() + count, max_tokens_);
        int64_t wanted = capacity_;
        while (wanted < needed) wanted *= 2;
        if (wanted > capacity_) widen(wanted);
    }
    for (int64_t i = 0; i < count; ++i) tokens_[static_cast<size_t>((end_ + i) & (capacity_ - 1))] = tokens[i];
    end_ += count;
    link_to(end_ - 1);
}

void TokenIndex::drop(int64_t count) {
    lowest_ = floor() + count;
    if (size() * kRoomy >= capacity_ || capacity_ <= kFirstCapacity) return;
    const std::vector<int32_t> kept = last(size());
    end_ = lowest_;
    allocate(kFirstCapacity);
    extend(kept.data(), static_cast<int64_t>(kept.size()));
}

std::vector<int32_t> TokenIndex::last(int64_t count) const {
    std::vector<int32_t> tokens;
    for (int64_t place = std::max(end_ - count, floor()); place < end_; ++place) tokens.push_back(at(place));
    return tokens;
}

template <class Token>
size_t TokenIndex::keys_of(int64_t count, Token token, Keys &keys) {
    uint64_t key = 0;
    int32_t done = 0;
    for (size_t order = 0; order < kOrders.size(); ++order) {
        if (kOrders[order] > count) return order;
        for (; done < kOrders[order]; ++done) key += weighed(token(done), done);
        keys[order] = key;
    }
    return kOrders.size();
}

std::vector<Occurrence> TokenIndex::find(const std::vector<int32_t> &context, int32_t limit, int32_t depth) const {
    Keys keys;
    const size_t count = keys_of(static_cast<int64_t>(context.size()),
                                 [&](int32_t back) { return context[static_cast<size_t>(back)]; }, keys);
    const int64_t lowest = floor();
    for (size_t order = count; order-- > 0;) {
        const int64_t place = heads_[order][keys[order] >> shift_] - 1;
        if (place < lowest) continue;
        std::vector<Occurrence> found = follow_chain(order, place, context, limit, depth);
        if (!found.empty()) return found;
    }
    return {};
}

std::vector<Occurrence> TokenIndex::follow_chain(size_t order, int64_t place, const std::vector<int32_t> &context,
                                                 int32_t limit, int32_t depth) const {
    const int64_t lowest = floor(), shortest = kOrders[order];
    std::vector<Occurrence> found;
    for (int32_t step = 0; step < 4 * limit; ++step) {
        const int64_t known = place - lowest + 1;
        if (known < shortest) break;
        int64_t length = 0;
        while (length < static_cast<int64_t>(context.size()) && at(place - length) == context[static_cast<size_t>(length)])
            ++length;
        if (length >= shortest) {
            Occurrence one;
            one.length = static_cast<int32_t>(std::min(length, known));
            one.known = static_cast<int32_t>(std::min<int64_t>(depth, end_ - place - 1));
            one.place = place;
            one.text = this;
            found.push_back(one);
            if (static_cast<int32_t>(found.size()) == limit) break;
        }
        place = chains_[order][static_cast<size_t>(place & (capacity_ - 1))] - 1;
    }
    return found;
}

void TokenIndex::link_to(int64_t end) {
    const int64_t begin = std::max(linked_, floor()), lowest = floor();
    Keys keys;
    for (int64_t place = begin; place < end; ++place) {
        const size_t count = keys_of(place - lowest + 1, [&](int32_t back) { return at(place - back); }, keys);
        for (size_t order = 0; order < count; ++order) {
            int64_t &head = heads_[order][keys[order] >> shift_];
            chains_[order][static_cast<size_t>(place & (capacity_ - 1))] = head;
            head = place + 1;
        }
    }
    linked_ = std::max(end, begin);
}

void TokenIndex::widen(int64_t capacity) {
    const std::vector<int32_t> tokens = std::move(tokens_);
    const auto heads = std::move(heads_);
    const auto chains = std::move(chains_);
    const size_t ratio = static_cast<size_t>(capacity / capacity_);
    allocate(capacity);
    move_known(tokens, tokens_);
    for (size_t order = 0; order < kOrders.size(); ++order) {
        move_known(chains[order], chains_[order]);
        // Chains of a bucket that splits go on sharing their past.
        for (size_t bucket = 0; bucket < heads_[order].size(); ++bucket) heads_[order][bucket] = heads[order][bucket / ratio];
    }
}

void TokenIndex::allocate(int64_t capacity) {
    capacity_ = capacity;
    linked_ = std::min(linked_, end_);
    shift_ = 64;
    for (int64_t size = capacity; size > 1; size /= 2) --shift_;
    tokens_.assign(static_cast<size_t>(capacity), 0);
    for (auto *arrays : {&heads_, &chains_})
        for (auto &array : *arrays) array.assign(static_cast<size_t>(capacity), 0);
}

template <class Value>
void TokenIndex::move_known(const std::vector<Value> &source, std::vector<Value> &target) const {
    for (int64_t place = floor(); place < end_; ++place)
        target[static_cast<size_t>(place) % target.size()] = source[static_cast<size_t>(place) % source.size()];
}

}  // namespace paradraft
