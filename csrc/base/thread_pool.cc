#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/prepare_to_throw.h"

namespace morphspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenCalls = std::chrono::milliseconds(10);  // of a caller that waits
constexpr auto kAwake = std::chrono::microseconds(100);        // most pauses inside a batch are shorter

// Waits a moment for what others are about to do; false: they have not. Others may have the processor meanwhile.
template <class Test>
bool Soon(Test test) {
  constexpr int kLooks = 32;
  const auto until = Clock::now() + kAwake;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (test()) return true;
    }
    std::this_thread::yield();
  } while (Clock::now() < until);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
    PrepareToThrow();
    for (int ready; (ready = prepared_.load()) < threads - 1;) prepared_.wait(ready);
  } catch (const std::system_error& error) {
    const std::string started = std::to_string(workers_.size());
    Stop();  // those that are there must end before they are forgotten
    throw std::runtime_error("the system gives no more threads: " + std::string(error.what()) + " after " + started +
                             " of " + std::to_string(threads - 1) + "; use fewer, Config(threads=…)");
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::For(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body,
                     const std::function<void()>& waiting) {
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) {
    body(0, count);
    return;
  }
  Job job;
  job.count = count;
  job.grain = grain;
  job.body = &body;
  job_ = &job;
  active_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);  // seen with the generation
  bool sleepers;
  {
    std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);  // partner: the acquire in Work
    sleepers = asleep_ > 0;
  }
  if (sleepers) wake_.notify_all();
  RunChunks(&job);
  Join(waiting);
  if (job.error) std::rethrow_exception(job.error);
}

void ThreadPool::Join(const std::function<void()>& waiting) {
  // acquire: sees what the chunks wrote; partner: the release in Work.
  const auto done = [this] { return active_.load(std::memory_order_acquire) == 0; };
  if (Soon(done)) return;
  std::unique_lock lock(mutex_);
  while (waiting && !done_.wait_for(lock, kBetweenCalls, done)) {
    lock.unlock();
    waiting();
    lock.lock();
  }
  done_.wait(lock, done);
}

void ThreadPool::Work() {
  PrepareToThrow();
  prepared_.fetch_add(1);
  prepared_.notify_one();
  uint64_t seen = 0;
  for (;;) {
    // acquire: sees the job; partner: the release in For.
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!Soon(called)) {
      std::unique_lock lock(mutex_);
      ++asleep_;
      wake_.wait(lock, [&] { return stopping_ || called(); });
      --asleep_;
      if (stopping_) return;
    }
    ++seen;
    RunChunks(job_);
    // release: what the chunks wrote; acquire: the last one speaks for all; partner: the acquire in Join.
    if (active_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      {
        std::lock_guard lock(mutex_);
      }  // a caller that has looked in vain sleeps by now
      done_.notify_one();
    }
  }
}

void ThreadPool::RunChunks(Job* job) {
  try {
    for (;;) {
      // Relaxed: the counter only divides the work; what the chunks wrote is published by active_ on the way out.
      const int64_t begin = job->next.fetch_add(job->grain, std::memory_order_relaxed);
      if (begin >= job->count) return;
      (*job->body)(begin, std::min(begin + job->grain, job->count));
    }
  } catch (...) {
    std::lock_guard lock(job->error_mutex);
    if (!job->error) job->error = std::current_exception();
  }
}

}  // namespace morphspark
