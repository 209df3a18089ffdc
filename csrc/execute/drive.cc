#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "base/padded.h"
#include "execute/explorer.h"

namespace morphspark {
namespace {

constexpr int kIdleSpins = 64;          // before a worker lets others have the core
constexpr int kStepsBetweenLooks = 64;  // at the clock
constexpr auto kTimeBetweenPolls = std::chrono::milliseconds(50);

// Works until nothing is left, or another worker is lost; how long it waited.
double Work(Explorer* explorer, int worker, const Poll* poll, const std::function<void()>& cancel,
            const std::atomic<bool>& lost) {
  auto polled = std::chrono::steady_clock::now();
  auto idle_since = polled;
  double waited = 0;
  int idle = 0;
  for (int64_t steps = 1;; ++steps) {
    const Explorer::Step step = explorer->Next(worker);
    if (step == Explorer::Step::kIdle) {
      if (idle++ == 0) idle_since = std::chrono::steady_clock::now();
      if (idle > kIdleSpins) std::this_thread::yield();
      if (lost.load(std::memory_order_relaxed)) return waited;  // relaxed: only an end of waiting, no data behind it
    } else {
      if (idle) waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - idle_since).count();
      idle = 0;
      if (step == Explorer::Step::kDone) return waited;
    }
    if (poll == nullptr || steps % kStepsBetweenLooks != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (now - polled <= kTimeBetweenPolls) continue;
    if ((*poll)()) cancel();
    polled = now;
  }
}

}  // namespace

double Drive(Explorer* explorer, int workers, ThreadPool* pool, const Poll& poll, const std::function<void()>& cancel) {
  const auto caller = std::this_thread::get_id();
  std::vector<Padded<double>> waited(workers);
  std::atomic<bool> lost{false};
  pool->For(workers, 1, [&](int64_t from, int64_t to) {
    const bool polls = poll && std::this_thread::get_id() == caller;
    try {
      for (int64_t worker = from; worker < to; ++worker)
        waited[worker].value = Work(explorer, static_cast<int>(worker), polls ? &poll : nullptr, cancel, lost);
    } catch (...) {
      lost.store(true, std::memory_order_relaxed);
      throw;  // the pool hands it to the caller, when the others have left
    }
  });
  double sum = 0;
  for (const Padded<double>& one : waited) sum += one.value;
  return sum;
}

void DriveSeeded(Explorer* explorer, int workers, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> working(workers);
  for (int worker = 0; worker < workers; ++worker) working[worker] = worker;
  while (!working.empty()) {
    const size_t which = random() % working.size();
    if (explorer->Next(working[which]) == Explorer::Step::kDone) working.erase(working.begin() + which);
  }
}

}  // namespace morphspark
