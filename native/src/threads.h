// A team of threads that works through one parallel region per pass.
//
// A thread that waits spins for at most 50 microseconds, which covers the stages of a pass, then parks, so an engine
// without work costs nothing. Work inside a stage is claimed piece by piece; which thread takes a piece never matters.
// Engines may share a team: two teams on the same cores would take them from each other.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace paradraft {

class Team {
  public:
    using Body = void (*)(void *context, int thread);

    explicit Team(int size);
    ~Team();
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    int size() const { return size_; }

    // Run body(context, thread) on every thread, the caller being thread 0; return when all have. Callers take turns.
    void run(Body body, void *context);

    // Inside a region: wait until all threads are here, and start counting claims anew.
    void meet();

    // Inside a region: a piece of the stage that nobody has, of `count`; count if none is left. A thread takes those of
    // its own stretch, in order, then helps others: so what it fetches ahead, and finds in its caches, is mostly its own.
    int64_t claim(int thread, int64_t count) {
        for (int i = 0; i < size_; ++i) {
            const int owner = (thread + i) % size_;
            const int64_t taken = stretches_[static_cast<size_t>(owner)].taken.fetch_add(1, std::memory_order_relaxed);
            if (start_of(owner, count) + taken < start_of(owner + 1, count)) return start_of(owner, count) + taken;
        }
        return count;
    }

    // The first piece of a thread's own stretch.
    int64_t start_of(int thread, int64_t count) const { return count * thread / size_; }

  private:
    // A number that threads wait for to change.
    struct Signal {
        std::atomic<uint32_t> number{0};
        std::atomic<int> parked{0};
        std::mutex mutex;
        std::condition_variable changed;

        void wait_past(uint32_t seen);
        void raise();
    };

    struct alignas(64) Stretch {
        std::atomic<int64_t> taken{0};
    };

    void serve(int thread);
    void begin_stage();
    void stop();

    const int size_;
    Body body_ = nullptr;
    void *context_ = nullptr;
    bool is_stopping_ = false;
    std::mutex turn_;
    Signal started_;
    Signal met_;
    alignas(64) std::atomic<int> arrived_{0};
    std::vector<Stretch> stretches_;
    std::vector<std::thread> workers_;
};

}  // namespace paradraft
