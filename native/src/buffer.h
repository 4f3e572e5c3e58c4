// Memory that grows and never shrinks, aligned to cache lines.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace paradraft {

template <class Element>
class Buffer {
  public:
    Buffer() = default;
    ~Buffer() { std::free(memory_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    // Hold at least `size` elements, uninitialised and not kept when it grows. Throws std::bad_alloc.
    void reserve(int64_t size) {
        if (size <= size_) return;
        std::free(memory_);
        memory_ = nullptr;
        size_ = 0;
        const size_t bytes = (static_cast<size_t>(size) * sizeof(Element) + 63) / 64 * 64;
        memory_ = static_cast<Element *>(std::aligned_alloc(64, bytes));
        if (memory_ == nullptr) throw std::bad_alloc();
        size_ = size;
    }

    Element *data() const { return memory_; }
    int64_t size() const { return size_; }

  private:
    Element *memory_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace paradraft
