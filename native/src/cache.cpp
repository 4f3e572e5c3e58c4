#include "cache.h"

#include <cstring>

namespace paradraft {
namespace {

int64_t element_bytes(int32_t kind) { return kind == PARADRAFT_F32 ? 4 : 2; }

// Copy the words of one key between its slot and a plain line.
void copy_key(uint8_t *cache, int64_t slot, int64_t steps, uint32_t *line, bool is_write) {
    uint32_t *words = reinterpret_cast<uint32_t *>(cache) + slot / kPanel * steps * kPanel + slot % kPanel;
    for (int64_t step = 0; step < steps; ++step) {
        if (is_write)
            words[step * kPanel] = line[step];
        else
            line[step] = words[step * kPanel];
    }
}

}  // namespace

Cache::Cache(const CacheShape &shape) : shape_(shape) {
    const int64_t slots = round_up(shape.num_slots, kPanel), parts = shape.num_layers * shape.num_heads;
    key_bytes_ = slots * steps_of(shape.kind, shape.head_dim) * 4;
    value_bytes_ = slots * round_up(shape.head_dim, kPanel) * element_bytes(shape.kind);
    keys_.reserve(parts * key_bytes_);
    values_.reserve(parts * value_bytes_);
}

void Cache::move(const int32_t *sources, const int32_t *destinations, int64_t count) {
    const int64_t steps = steps_of(shape_.kind, shape_.head_dim);
    const int64_t line = round_up(shape_.head_dim, kPanel) * element_bytes(shape_.kind);
    moved_.reserve(count * (steps * 4 + line));
    uint32_t *lines = reinterpret_cast<uint32_t *>(moved_.data());
    uint8_t *value_lines = moved_.data() + count * steps * 4;
    for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
        for (int64_t head = 0; head < shape_.num_heads; ++head) {
            uint8_t *key_part = keys(layer, head), *value_part = values(layer, head);
            for (int64_t i = 0; i < count; ++i) {
                copy_key(key_part, sources[i], steps, lines + i * steps, false);
                std::memcpy(value_lines + i * line, value_part + sources[i] * line, static_cast<size_t>(line));
            }
            for (int64_t i = 0; i < count; ++i) {
                copy_key(key_part, destinations[i], steps, lines + i * steps, true);
                std::memcpy(value_part + destinations[i] * line, value_lines + i * line, static_cast<size_t>(line));
            }
        }
    }
}

}  // namespace paradraft
