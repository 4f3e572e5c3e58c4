// Continuations of a context with their counts, in the order in which they were first seen, as in a Python dict.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace paradraft {

constexpr size_t kMaxEntries = 8;  // continuations kept of a context

struct Count {
    int32_t token;
    int32_t count;
};

class Counts {
  public:
    const Count *begin() const { return entries_.data(); }
    const Count *end() const { return entries_.data() + size_; }
    bool is_empty() const { return size_ == 0; }
    int64_t total() const {
        int64_t sum = 0;
        for (const Count &one : *this) sum += one.count;
        return sum;
    }
    bool has(int32_t token) const {
        for (const Count &one : *this)
            if (one.token == token) return true;
        return false;
    }

    // Count a token once more; of too many the rarest goes, of equally rare ones the one that was seen first.
    void add(int32_t token) {
        size_t place = 0;
        while (place < size_ && entries_[place].token != token) ++place;
        if (place == size_) entries_[size_++] = {token, 0};
        ++entries_[place].count;
        if (size_ <= kMaxEntries) return;
        size_t rarest = 0;
        for (size_t at = 1; at < size_; ++at)
            if (entries_[at].count < entries_[rarest].count) rarest = at;
        remove(rarest);
    }

    // Halve all counts; where nothing is left, `token` is, once.
    void fade(int32_t token) {
        for (size_t at = size_; at-- > 0;) {
            if (entries_[at].count > 1)
                entries_[at].count /= 2;
            else
                remove(at);
        }
        if (size_ == 0) entries_[size_++] = {token, 1};
    }

  private:
    void remove(size_t place) {
        for (size_t at = place + 1; at < size_; ++at) entries_[at - 1] = entries_[at];
        --size_;
    }

    std::array<Count, kMaxEntries + 1> entries_;
    size_t size_ = 0;
};

}  // namespace paradraft
