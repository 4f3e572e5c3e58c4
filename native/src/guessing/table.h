// A table of counted continuations (drafters/table/layout.py); the twin of drafters/table/lookup.py and frequent.py.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "context.h"
#include "law.h"
#include "overlay.h"
#include "position_noise.h"

namespace paradraft {

// The contexts of one length.
class TableOrder {
  public:
    // Every number is checked before anything is looked up with it. Throws Failure.
    TableOrder(const paradraft_table_order &given, int64_t vocab_size);

    int32_t length() const { return static_cast<int32_t>(given_.length); }
    const double *discounts() const { return discounts_.data(); }
    // The place of a context, -1 if it was not seen.
    int64_t find(uint64_t key) const;
    int64_t total(int64_t place) const { return given_.totals[place]; }
    int64_t begin(int64_t place) const { return given_.begins[place]; }
    int32_t token(int64_t at) const;
    int32_t count(int64_t at) const { return given_.counts[at]; }

  private:
    paradraft_table_order given_;
    std::array<double, 4> discounts_;
    int shift_;
};

// Tokens that come often whatever stands before them.
struct Frequent {
    std::vector<int32_t> tokens;
    std::vector<double> log_shares;

    // Those that a target would choose first if its law were this one, with their shares, added to `law` times `left`.
    void add_winners(const PositionNoise &noise, double left, Law &law) const;
};

class Table {
  public:
    Table(const paradraft_guesser_options &options);

    std::vector<int32_t> lengths() const;
    // The chances after a context, those of a tenant's answers added; with noise, as it will have them.
    Law shares(const Context &context, const TenantCounts *learned, const PositionNoise *noise) const;

  private:
    std::vector<TableOrder> orders_;
    Frequent frequent_;
};

}  // namespace paradraft
