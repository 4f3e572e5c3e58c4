#include "threads.h"

#include <chrono>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace paradraft {
namespace {

constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kSpinsPerLook = 32;  // at the clock

void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

void Team::Signal::wait_past(uint32_t seen) {
    const auto stop = std::chrono::steady_clock::now() + kSpinTime;
    do {
        for (int spin = 0; spin < kSpinsPerLook; ++spin) {
            if (number.load(std::memory_order_acquire) != seen) return;
            breathe();
        }
    } while (std::chrono::steady_clock::now() < stop);
    std::unique_lock<std::mutex> lock(mutex);
    parked.fetch_add(1);  // before the look at number, as raise() changes number before it looks at parked
    changed.wait(lock, [&] { return number.load() != seen; });
    parked.fetch_sub(1);
}

void Team::Signal::raise() {
    number.fetch_add(1);
    if (parked.load() == 0) return;
    { std::lock_guard<std::mutex> lock(mutex); }  // whoever is parked has begun to wait
    changed.notify_all();
}

Team::Team(int size) : size_(size), stretches_(static_cast<size_t>(size)) {
    workers_.reserve(static_cast<size_t>(size - 1));
    try {
        for (int thread = 1; thread < size; ++thread) workers_.emplace_back([this, thread] { serve(thread); });
    } catch (...) {
        stop();
        throw;
    }
}

Team::~Team() { stop(); }

void Team::stop() {
    is_stopping_ = true;
    started_.raise();
    for (std::thread &worker : workers_) worker.join();
    workers_.clear();
}

void Team::begin_stage() {
    for (Stretch &stretch : stretches_) stretch.taken.store(0, std::memory_order_relaxed);
}

void Team::run(Body body, void *context) {
    std::lock_guard<std::mutex> turn(turn_);
    body_ = body;
    context_ = context;
    begin_stage();
    if (size_ > 1) started_.raise();
    body(context, 0);
    meet();
}

void Team::meet() {
    if (size_ == 1) {
        begin_stage();
        return;
    }
    const uint32_t seen = met_.number.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < size_) {
        met_.wait_past(seen);
        return;
    }
    arrived_.store(0, std::memory_order_relaxed);
    begin_stage();
    met_.raise();
}

void Team::serve(int thread) {
    uint32_t seen = 0;
    for (;;) {
        started_.wait_past(seen);
        seen = started_.number.load(std::memory_order_acquire);
        if (is_stopping_) return;
        body_(context_, thread);
        meet();
    }
}

}  // namespace paradraft
