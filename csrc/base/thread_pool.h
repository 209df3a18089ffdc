// Threads that live with the engine and sleep between batches. Inside a batch one job follows the other: who has
// nothing to do stays awake for a moment, because to wake a thread takes longer than many a job.
//
// Thread safety: one caller at a time runs `For`; it works along with the pool's threads and returns when every
// chunk is done. An exception in a chunk is rethrown in the caller, after the others have finished.
//
// Invariants:
//   1. A worker touches a job only between seeing its generation and counting itself out (`active_`).
//   2. `For` returns only when active_ is 0, so a job on the caller's stack outlives all its readers.
//   3. Who falls asleep has looked under the mutex; what wakes it changes under the mutex.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace morphspark {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // including the caller: 1 starts none
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) over [0, count) in chunks of `grain`, on all threads. The caller sleeps when nothing is left
  // for it; meanwhile it calls `waiting`, if there is one, every few milliseconds.
  void For(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body,
           const std::function<void()>& waiting = {});

 private:
  struct Job {
    int64_t count;
    int64_t grain;
    const std::function<void(int64_t, int64_t)>* body;
    std::atomic<int64_t> next{0};
    std::mutex error_mutex;
    std::exception_ptr error;
  };

  void Work();
  void Stop();
  void Join(const std::function<void()>& waiting);
  static void RunChunks(Job* job);

  std::mutex mutex_;
  std::condition_variable wake_;  // workers wait for a generation
  std::condition_variable done_;  // the caller waits for active_ == 0
  Job* job_ = nullptr;            // written before its generation is
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> active_{0};
  std::atomic<int> prepared_{0};  // workers that may throw; the constructor waits for all
  // Guarded by mutex_:
  int asleep_ = 0;  // workers
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace morphspark
