// Where token n-grams occurred before in a growing text; the twin of drafters/occurrences.py and token_ring.py.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paradraft {

constexpr int32_t kSeparator = -1;  // stands between texts; no token equals it

class TokenIndex;

// An occurrence of a context: how much of it stands there, and the tokens behind it.
struct Occurrence {
    int32_t length = 0;
    int32_t known = 0;  // tokens behind it that there are, at most as many as were asked for
    int64_t place = 0;
    double weight = 1.0;
    const TokenIndex *text = nullptr;

    // The token `level` behind; a text that ends sooner goes on periodically, as it does for whoever copies it.
    int32_t word(int32_t level) const;
};

// A window of the last `max_tokens` tokens of a text. Places are counted from the first token ever added.
class TokenIndex {
  public:
    explicit TokenIndex(int64_t max_tokens);

    int64_t end() const { return end_; }
    int64_t floor() const;
    int64_t size() const { return end_ - floor(); }
    int32_t at(int64_t place) const { return tokens_[static_cast<std::size_t>(place & (capacity_ - 1))]; }

    // Append tokens; what is appended is linked when its successor comes.
    void extend(const int32_t *tokens, int64_t count);
    // Append what a growing text has beyond end().
    void follow(const int32_t *text, int64_t length);
    // Forget the oldest tokens; memory far larger than what is left needs is given back.
    void drop(int64_t count);
    // The last tokens, at most count, the oldest first.
    std::vector<int32_t> last(int64_t count) const;
    // Occurrences of the longest indexed end of a context (newest token first), the most recent one first.
    std::vector<Occurrence> find(const std::vector<int32_t> &context, int32_t limit, int32_t depth) const;

  private:
    static constexpr std::array<int32_t, 3> kOrders = {1, 2, 5};
    using Keys = std::array<uint64_t, kOrders.size()>;

    // The hashes of the n-grams that end a context of `count` tokens, and how many there are.
    template <class Token>
    static std::size_t keys_of(int64_t count, Token token, Keys &keys);
    std::vector<Occurrence> follow_chain(std::size_t order, int64_t place, const std::vector<int32_t> &context,
                                         int32_t limit, int32_t depth) const;
    void link_to(int64_t end);
    void widen(int64_t capacity);
    void allocate(int64_t capacity);
    template <class Value>
    void move_known(const std::vector<Value> &source, std::vector<Value> &target) const;

    int64_t max_tokens_, end_ = 0, lowest_ = 0, linked_ = 0, capacity_ = 0;
    int shift_ = 0;  // a bucket is the top bits of a hash
    std::vector<int32_t> tokens_;
    std::array<std::vector<int64_t>, kOrders.size()> heads_, chains_;
};

inline int32_t Occurrence::word(int32_t level) const {
    return known == 0 ? kSeparator : text->at(place + 1 + level % known);
}

}  // namespace paradraft
