#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>

namespace morphspark {
namespace {

constexpr auto kBetweenCalls = std::chrono::milliseconds(10);  // of a caller that waits

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
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
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    active_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  wake_.notify_all();
  RunChunks(&job);
  {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return active_ == 0; };
    while (waiting && !done_.wait_for(lock, kBetweenCalls, done)) {
      lock.unlock();
      waiting();
      lock.lock();
    }
    done_.wait(lock, done);
    job_ = nullptr;
  }
  if (job.error) std::rethrow_exception(job.error);
}

void ThreadPool::Work() {
  uint64_t seen = 0;
  for (;;) {
    Job* job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      job = job_;
    }
    RunChunks(job);
    std::lock_guard lock(mutex_);
    if (--active_ == 0) done_.notify_one();
  }
}

void ThreadPool::RunChunks(Job* job) {
  try {
    for (;;) {
      // Relaxed: the counter only divides the work; what the chunks wrote is published by mutex_ on the way out.
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
