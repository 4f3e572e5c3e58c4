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

    // Inside a region: the next piece of the stage, from 0.
    int64_t claim() { return next_.fetch_add(1, std::memory_order_relaxed); }

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

    void serve(int thread);
    void stop();

    const int size_;
    Body body_ = nullptr;
    void *context_ = nullptr;
    bool is_stopping_ = false;
    std::mutex turn_;
    Signal started_;
    Signal met_;
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int64_t> next_{0};
    std::vector<std::thread> workers_;
};

}  // namespace paradraft
