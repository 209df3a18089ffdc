#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "base/padded.h"
#include "execute/explorer.h"

namespace morphspark {
namespace {

using Clock = std::chrono::steady_clock;

// A worker without work asks again at once, then lets others have the core in between, then sleeps: for a part of the
// time that it has waited, so that it is never late by more than that part, and soon needs no processor.
constexpr int kIdleSpins = 64;
constexpr auto kAwake = std::chrono::microseconds(500);
constexpr int kSleptPart = 8;
constexpr auto kSleepMost = std::chrono::milliseconds(1);

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// When a worker began and ended, and how long it had nothing to do in between.
struct Shift {
  Clock::time_point begin, end;
  double idle = 0;
};

void Rest(Clock::duration idle) {
  if (idle < kAwake) return std::this_thread::yield();
  std::this_thread::sleep_for(std::min<Clock::duration>(idle / kSleptPart, kSleepMost));
}

// Works until nothing is left, the epoch shall end, or another worker is lost. Who works looks at the poller by itself
// (PlannedBatch).
void Work(Explorer* explorer, int worker, Poller* poller, const std::atomic<bool>& lost, Shift* shift) {
  shift->begin = Clock::now();
  auto idle_since = shift->begin;
  int idle = 0;
  while (!poller->cancelled()) {
    const Explorer::Step step = explorer->Next(worker);
    if (step == Explorer::Step::kIdle) {
      if (idle++ == 0) idle_since = Clock::now();
      if (idle > kIdleSpins) Rest(Clock::now() - idle_since);
      poller->Look();
      if (lost.load(std::memory_order_relaxed)) break;  // relaxed, with the store in Drive: no data is behind it
    } else {
      if (idle) shift->idle += Seconds(Clock::now() - idle_since);
      idle = 0;
      if (step == Explorer::Step::kDone) break;
    }
  }
  shift->end = Clock::now();
}

}  // namespace

double Drive(Explorer* explorer, int workers, ThreadPool* pool, Poller* poller) {
  std::vector<Padded<Shift>> shifts(workers);
  std::atomic<bool> lost{false};
  const auto begin = Clock::now();
  const auto work = [&](int64_t from, int64_t to) {
    try {
      for (int64_t worker = from; worker < to; ++worker)
        Work(explorer, static_cast<int>(worker), poller, lost, &shifts[worker].value);
    } catch (...) {
      lost.store(true, std::memory_order_relaxed);  // with the load in Work, which is only told to leave
      throw;                                        // the pool hands it to the caller, when the others have left
    }
  };
  // Only the thread that called the engine can ask whether to go on, so it does while it waits for others, too.
  pool->For(workers, 1, work, [&] { poller->Look(); });
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
