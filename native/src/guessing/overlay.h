// Counts that are learned while serving: bounded, and each tenant's for itself; the twin of drafters/table/overlay.py.

#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "counts.h"

namespace paradraft {

// What one tenant's answers went on with, by context.
class TenantCounts {
  public:
    explicit TenantCounts(size_t num_lengths) : places_(num_lengths) {}

    int64_t size() const { return static_cast<int64_t>(contexts_.size()); }
    // The counts of a context, null if it was not seen; order: the number of its length.
    const Counts *find(size_t order, uint64_t key) const;
    // Count a continuation of a context; return how many contexts this added.
    int64_t learn(size_t order, uint64_t key, int32_t token);
    // Forget the context that has not been seen for the longest time.
    void drop_oldest();

  private:
    struct Known {
        size_t order;
        uint64_t key;
        Counts counts;
    };

    std::list<Known> contexts_;  // the one seen last at the end
    std::vector<std::unordered_map<uint64_t, std::list<Known>::iterator>> places_;
};

// At most max_contexts contexts over all tenants; the tenant with most pays first.
class Overlay {
  public:
    Overlay(std::vector<int32_t> lengths, int64_t max_contexts)
        : lengths_(std::move(lengths)), max_contexts_(max_contexts) {}

    // The counts of a tenant, null if there are none.
    const TenantCounts *of(const std::string &tenant) const;
    // Count the tokens of a text from place `since` on as continuations of what stands before them.
    void learn(const std::string &tenant, const int32_t *text, int64_t length, int64_t since);

  private:
    struct Tenant {
        std::string name;
        TenantCounts counts;
    };

    std::list<Tenant>::iterator largest();
    void shrink();

    std::vector<int32_t> lengths_;
    int64_t max_contexts_, num_contexts_ = 0;
    std::list<Tenant> tenants_;  // in the order in which they came
    std::unordered_map<std::string, std::list<Tenant>::iterator> by_name_;
};

}  // namespace paradraft
