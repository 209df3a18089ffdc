#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "base/padded.h"
#include "execute/explorer.h"

namespace morphspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIdleSpins = 64;         // before a worker lets others have the core
constexpr int kStepsBetweenLooks = 4;  // at the clock

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// When a worker began and ended, and how long it had nothing to do in between.
struct Shift {
  Clock::time_point begin, end;
  double idle = 0;
};

// Works until nothing is left, or another worker is lost.
void Work(Explorer* explorer, int worker, Poller* poller, const std::atomic<bool>& lost, Shift* shift) {
  shift->begin = Clock::now();
  auto idle_since = shift->begin;
  int idle = 0;
  for (int64_t steps = 1;; ++steps) {
    const Explorer::Step step = explorer->Next(worker);
    if (step == Explorer::Step::kIdle) {
      if (idle++ == 0) idle_since = Clock::now();
      if (idle > kIdleSpins) std::this_thread::yield();
      if (lost.load(std::memory_order_relaxed)) break;  // relaxed: only an end of waiting, no data behind it
    } else {
      if (idle) shift->idle += Seconds(Clock::now() - idle_since);
      idle = 0;
      if (step == Explorer::Step::kDone) break;
    }
    if (steps % kStepsBetweenLooks == 0) poller->Look();
  }
  shift->end = Clock::now();
}

}  // namespace

double Drive(Explorer* explorer, int workers, ThreadPool* pool, Poller* poller) {
  std::vector<Padded<Shift>> shifts(workers);
  std::atomic<bool> lost{false};
  std::atomic<int> working{workers};
  const auto begin = Clock::now();
  pool->For(workers, 1, [&](int64_t from, int64_t to) {
    try {
      for (int64_t worker = from; worker < to; ++worker)
        Work(explorer, static_cast<int>(worker), poller, lost, &shifts[worker].value);
      // Relaxed, as all loads and stores of `working` and `lost`: they only tell when to leave, no data is behind them.
      working.fetch_sub(static_cast<int>(to - from), std::memory_order_relaxed);
      // Only the thread that called the engine can ask whether to go on, so it stays as long as others work.
      while (poller->on_caller() && working.load(std::memory_order_relaxed) > 0 &&
             !lost.load(std::memory_order_relaxed)) {
        poller->Look();
        std::this_thread::yield();
      }
    } catch (...) {
      lost.store(true, std::memory_order_relaxed);  // with the load in Work, which is only told to leave
      throw;                                        // the pool hands it to the caller, when the others have left
    }
  });
  const auto end = Clock::now();
  double waited = 0;
  for (const auto& [shift] : shifts) waited += shift.idle + Seconds(shift.begin - begin) + Seconds(end - shift.end);
  return waited;
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
