#include "overlay.h"

#include <algorithm>

#include "context.h"

namespace paradraft {
namespace {

constexpr int64_t kFading = 64;  // a context seen this often has all its counts halved, so that the present is heard

}  // namespace

const Counts *TenantCounts::find(size_t order, uint64_t key) const {
    const auto found = places_[order].find(key);
    return found == places_[order].end() ? nullptr : &found->second->counts;
}

int64_t TenantCounts::learn(size_t order, uint64_t key, int32_t token) {
    const auto found = places_[order].find(key);
    const bool is_new = found == places_[order].end();
    if (is_new) {
        contexts_.push_back({order, key, {}});
        try {
            places_[order][key] = std::prev(contexts_.end());
        } catch (...) {
            contexts_.pop_back();
            throw;
        }
    } else {
        contexts_.splice(contexts_.end(), contexts_, found->second);
    }
    Counts &counts = contexts_.back().counts;
    counts.add(token);
    if (counts.total() > kFading) counts.fade(token);
    return is_new ? 1 : 0;
}

void TenantCounts::drop_oldest() {
    places_[contexts_.front().order].erase(contexts_.front().key);
    contexts_.pop_front();
}

const TenantCounts *Overlay::of(const std::string &tenant) const {
    const auto found = by_name_.find(tenant);
    return found == by_name_.end() ? nullptr : &found->second->counts;
}

void Overlay::learn(const std::string &tenant, const int32_t *text, int64_t length, int64_t since) {
    if (max_contexts_ == 0 || since >= length) return;
    auto known = by_name_.find(tenant);
    if (known == by_name_.end()) {
        tenants_.push_back({tenant, TenantCounts(lengths_.size())});
        known = by_name_.emplace(tenant, std::prev(tenants_.end())).first;
    }
    TenantCounts &counts = known->second->counts;
    for (int64_t place = std::max<int64_t>(since, 1); place < length; ++place) {
        Key key;
        for (size_t order = 0; order < lengths_.size() && lengths_[order] <= place; ++order) {
            const uint64_t found = key.of(lengths_[order], [&](int32_t back) { return text[place - 1 - back]; });
            num_contexts_ += counts.learn(order, found, text[place]);
        }
    }
    shrink();
}

std::list<Overlay::Tenant>::iterator Overlay::largest() {
    return std::max_element(tenants_.begin(), tenants_.end(), [](const Tenant &one, const Tenant &other) {
        return one.counts.size() < other.counts.size();
    });
}

void Overlay::shrink() {
    while (num_contexts_ > max_contexts_) {
        const auto most = largest();
        const auto share = (num_contexts_ - max_contexts_) / static_cast<int64_t>(tenants_.size());
        for (int64_t left = std::max<int64_t>(share, 1); left > 0 && most->counts.size() > 0; --left) {
            most->counts.drop_oldest();
            --num_contexts_;
        }
        if (most->counts.size() > 0) continue;
        by_name_.erase(most->name);
        tenants_.erase(most);
    }
}

}  // namespace paradraft
