#include "execute/explorer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "execute/work_deque.h"

namespace morphspark {
namespace {

constexpr uint32_t kChunk = 16;  // transactions that a worker takes at once

// Shared plain memory that is used atomically from here on.
template <class T>
std::atomic_ref<T> Shared(T& place) {
  return std::atomic_ref<T>(place);
}

template <class T>
struct alignas(64) Padded {
  T value{};
};

// ----------------------------------------------------------------------------------------------------- BFS

// Stratum by stratum. A worker takes chunks of the stratum until none is left, says that it has arrived, and goes on
// when all have.
class Bfs : public Explorer {
 public:
  Bfs(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory)
      : crew_(crew), strata_(memory->strata), counters_(memory->counters), here_(workers), workers_(workers) {
    Stratify(units, &memory->strata);
    levels_ = strata_.levels();
    counters_.Resize(2 * uint64_t{levels_});
    std::fill(counters_.begin(), counters_.end(), 0);
  }

  Step Next(int worker) override {
    Here& here = here_[worker].value;
    if (here.level == levels_) return Step::kDone;
    const uint32_t begin = strata_.first[here.level], size = strata_.first[here.level + 1] - begin;
    auto arrived = Shared(counters_[levels_ + here.level]);
    if (!here.arrived) {
      const auto [least, most] = crew_->chunk();
      const uint32_t chunk = std::clamp(size / (4 * static_cast<uint32_t>(workers_)), least, most);
      // Relaxed: who takes which chunk is all that matters here; the barrier orders what they did.
      const uint32_t at = Shared(counters_[here.level]).fetch_add(chunk, std::memory_order_relaxed);
      if (at < size) {
        crew_->RunMany(worker, {&strata_.order[begin + at], std::min(chunk, size - at)});
        return Step::kWorked;
      }
      here.arrived = true;
      arrived.fetch_add(1, std::memory_order_acq_rel);
    }
    if (arrived.load(std::memory_order_acquire) < static_cast<uint32_t>(workers_)) return Step::kIdle;
    here.arrived = false;
    ++here.level;
    return Step::kWorked;
  }

 private:
  struct Here {
    uint32_t level = 0;
    bool arrived = false;  // at its end
  };

  Crew* crew_;
  const Strata& strata_;
  Scratch<uint32_t>& counters_;  // by level: units taken; then, by level, workers that have arrived
  std::vector<Padded<Here>> here_;
  uint32_t levels_;
  const int workers_;
};

// ----------------------------------------------------------------------------------------------------- DFS

// Every worker has a fixed share of each stratum, and goes through its shares in order without a barrier: before a
// unit it looks whether those that it waits for are done.
class Dfs : public Explorer {
 public:
  Dfs(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory)
      : units_(units), crew_(crew), done_(memory->counters), share_(workers) {
    Stratify(units, &memory->strata);
    const Strata& strata = memory->strata;
    done_.Resize(units.units);
    std::fill(done_.begin(), done_.end(), 0);
    for (uint32_t level = 0; level < strata.levels(); ++level) {
      const uint64_t begin = strata.first[level], size = strata.first[level + 1] - begin;
      for (int worker = 0; worker < workers; ++worker) {
        const UnitId* from = &strata.order[0] + begin + size * worker / workers;
        const UnitId* to = &strata.order[0] + begin + size * (worker + 1) / workers;
        share_[worker].value.units.insert(share_[worker].value.units.end(), from, to);
      }
    }
  }

  Step Next(int worker) override {
    Share& share = share_[worker].value;
    for (uint32_t ran = 0; ran < kChunk; ++ran) {
      if (share.next == share.units.size()) return ran ? Step::kWorked : Step::kDone;
      const UnitId unit = share.units[share.next];
      if (!Ready(unit)) return ran ? Step::kWorked : Step::kIdle;
      crew_->Run(worker, unit);
      Shared(done_[unit]).store(1, std::memory_order_release);
      ++share.next;
    }
    return Step::kWorked;
  }

 private:
  struct Share {
    std::vector<UnitId> units;
    size_t next = 0;
  };

  bool Ready(UnitId unit) {
    for (UnitId before : units_.Before(unit)) {
      if (!Shared(done_[before]).load(std::memory_order_acquire)) return false;
    }
    return true;
  }

  const UnitGraph& units_;
  Crew* crew_;
  Scratch<uint32_t>& done_;  // by unit
  std::vector<Padded<Share>> share_;
};

// ------------------------------------------------------------------------------------------------------ NS

// A unit is ready when its join counter comes to zero. Whoever brings it there keeps it; a worker without units takes
// a chunk of those that never had to wait, then steals.
class Ns : public Explorer {
 public:
  Ns(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory)
      : crew_(crew), successors_(memory->successors), roots_(memory->counters), left_(units.units), ran_(workers) {
    FindSuccessors(units, &memory->successors);
    roots_.Resize(units.units);
    for (UnitId unit = 0; unit < units.units; ++unit) {
      if (successors_.waits[unit] == 0) roots_[root_count_++] = unit;
    }
    for (int number = 0; number < workers; ++number) queues_.emplace_back(units.units);
  }

  Step Next(int worker) override {
    WorkDeque& queue = queues_[worker];
    for (uint32_t ran = 0; ran < kChunk; ++ran) {
      const std::optional<UnitId> unit = queue.Pop();
      if (!unit) return ran ? Step::kWorked : Refill(worker);
      Run(worker, *unit);
    }
    return Step::kWorked;
  }

 private:
  void Run(int worker, UnitId unit) {
    crew_->Run(worker, unit);
    ++ran_[worker].value;
    for (uint32_t at = successors_.first[unit]; at < successors_.first[unit + 1]; ++at) {
      const UnitId next = successors_.units[at];
      // Release what this unit wrote; acquire what the others wrote that `next` waited for.
      if (Shared(successors_.waits[next]).fetch_sub(1, std::memory_order_acq_rel) == 1) queues_[worker].Push(next);
    }
  }

  Step Refill(int worker) {
    const uint32_t at = next_root_.fetch_add(kChunk, std::memory_order_relaxed);
    if (at < root_count_) {
      for (uint32_t i = at; i < std::min(at + kChunk, root_count_); ++i) Run(worker, roots_[i]);
      return Step::kWorked;
    }
    next_root_.store(root_count_, std::memory_order_relaxed);  // so that it never comes round
    for (size_t i = 1; i < queues_.size(); ++i) {
      if (const auto unit = queues_[(worker + i) % queues_.size()].Steal()) {
        Run(worker, *unit);
        return Step::kWorked;
      }
    }
    // Relaxed: the pool joins before anybody looks at results.
    const uint32_t ran = std::exchange(ran_[worker].value, 0);
    const uint32_t left = left_.fetch_sub(ran, std::memory_order_relaxed) - ran;
    return left == 0 ? Step::kDone : Step::kIdle;
  }

  Crew* crew_;
  Successors& successors_;
  Scratch<uint32_t>& roots_;
  uint32_t root_count_ = 0;
  std::atomic<uint32_t> next_root_{0};
  std::atomic<uint32_t> left_;
  std::deque<WorkDeque> queues_;
  std::vector<Padded<uint32_t>> ran_;  // by worker: units that `left_` does not know of yet
};

}  // namespace

std::unique_ptr<Explorer> MakeExplorer(Exploration exploration, const UnitGraph& units, Crew* crew, int workers,
                                       ExplorerMemory* memory) {
  switch (exploration) {
    case Exploration::kBfs:
      return std::make_unique<Bfs>(units, crew, workers, memory);
    case Exploration::kDfs:
      return std::make_unique<Dfs>(units, crew, workers, memory);
    case Exploration::kNs:
      return std::make_unique<Ns>(units, crew, workers, memory);
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------------- driving

namespace {

constexpr int kIdleSpins = 64;          // before a worker lets others have the core
constexpr int kStepsBetweenLooks = 64;  // at the clock
constexpr auto kTimeBetweenPolls = std::chrono::milliseconds(50);

// Works until nothing is left; how long it waited.
double Work(Explorer* explorer, int worker, const Poll* poll, const std::function<void()>& cancel) {
  auto polled = std::chrono::steady_clock::now();
  auto idle_since = polled;
  double waited = 0;
  int idle = 0;
  for (int64_t steps = 1;; ++steps) {
    const Explorer::Step step = explorer->Next(worker);
    if (step == Explorer::Step::kIdle) {
      if (idle++ == 0) idle_since = std::chrono::steady_clock::now();
      if (idle > kIdleSpins) std::this_thread::yield();
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
  pool->For(workers, 1, [&](int64_t from, int64_t to) {
    const bool polls = poll && std::this_thread::get_id() == caller;
    for (int64_t worker = from; worker < to; ++worker)
      waited[worker].value = Work(explorer, static_cast<int>(worker), polls ? &poll : nullptr, cancel);
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
