// The last tokens of a path, the newest first.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "context_keys.h"

namespace paradraft {

struct Context {
    std::array<int32_t, kMaxOrder> tokens;
    int32_t size = 0;

    // That of a text.
    static Context of(const int32_t *text, int64_t length) {
        Context context;
        context.size = static_cast<int32_t>(std::min<int64_t>(length, kMaxOrder));
        for (int32_t back = 0; back < context.size; ++back) context.tokens[static_cast<size_t>(back)] = text[length - 1 - back];
        return context;
    }

    // The context one token further.
    Context with(int32_t token) const {
        Context longer;
        longer.size = std::min(size + 1, kMaxOrder);
        longer.tokens[0] = token;
        std::copy_n(tokens.begin(), longer.size - 1, longer.tokens.begin() + 1);
        return longer;
    }
};

// Adds up the key of a context, length by length.
class Key {
  public:
    // The key of the first `length` tokens; lengths rise from call to call. text(back) is the token `back` before.
    template <class Text>
    uint64_t of(int32_t length, Text text) {
        for (; done_ < length; ++done_) key_ += weighed(text(done_), done_);
        return key_;
    }
    uint64_t of(int32_t length, const Context &context) {
        return of(length, [&](int32_t back) { return context.tokens[static_cast<size_t>(back)]; });
    }

  private:
    uint64_t key_ = 0;
    int32_t done_ = 0;
};

}  // namespace paradraft
