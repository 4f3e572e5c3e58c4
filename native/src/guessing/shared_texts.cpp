#include "shared_texts.h"

#include <algorithm>

namespace paradraft {
namespace {

constexpr int64_t kTenantCost = 256;  // tokens that an index of its own counts for, whatever it holds

}  // namespace

const TokenIndex *SharedTexts::of(const std::string &tenant) const {
    const auto found = indices_.find(tenant);
    return found == indices_.end() ? nullptr : found->second.get();
}

void SharedTexts::add(const std::string &tenant, std::vector<int32_t> text) {
    const int64_t room = max_tokens_ - kTenantCost - 1;
    if (room <= 0 || text.empty()) return;
    text.erase(text.begin(), text.end() - std::min(room, static_cast<int64_t>(text.size())));
    text.push_back(kSeparator);
    std::unique_ptr<TokenIndex> &index = indices_[tenant];
    if (index == nullptr) {
        index = std::make_unique<TokenIndex>(max_tokens_);
        num_tokens_ += kTenantCost;
    }
    const auto size = static_cast<int64_t>(text.size());
    texts_.push_back({tenant, size});
    num_tokens_ += size;
    index->extend(text.data(), size);
    while (num_tokens_ > max_tokens_) evict();
}

void SharedTexts::evict() {
    const Text oldest = texts_.front();
    texts_.pop_front();
    const auto found = indices_.find(oldest.tenant);
    found->second->drop(oldest.size);
    num_tokens_ -= oldest.size;
    if (found->second->size() > 0) return;
    indices_.erase(found);
    num_tokens_ -= kTenantCost;
}

}  // namespace paradraft
