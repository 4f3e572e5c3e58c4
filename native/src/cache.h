// Keys and values of all layers, by slot. Memory is not cleared: a slot holds anything until a pass writes it, and
// passes read only slots that their own rows wrote.

#pragma once

#include <cstdint>

#include "buffer.h"
#include "layout.h"

namespace paradraft {

struct CacheShape {
    int64_t num_layers, num_heads, head_dim, num_slots;
    int32_t kind;
};

class Cache {
  public:
    // Throws std::bad_alloc.
    explicit Cache(const CacheShape &shape);

    const CacheShape &shape() const { return shape_; }
    int64_t bytes() const { return keys_.size() + values_.size(); }

    // What one layer and key head own.
    uint8_t *keys(int64_t layer, int64_t head) const { return keys_.data() + part(layer, head) * key_bytes_; }
    uint8_t *values(int64_t layer, int64_t head) const { return values_.data() + part(layer, head) * value_bytes_; }

    // Copy slots in every layer; all sources are read before any destination is written. Throws std::bad_alloc.
    void move(const int32_t *sources, const int32_t *destinations, int64_t count);

  private:
    int64_t part(int64_t layer, int64_t head) const { return layer * shape_.num_heads + head; }

    CacheShape shape_;
    int64_t key_bytes_, value_bytes_;  // of one layer and key head
    Buffer<uint8_t> keys_, values_, moved_;
};

}  // namespace paradraft
