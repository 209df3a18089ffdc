#include "execute/explorer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/padded.h"
#include "execute/nest.h"

namespace morphspark {
namespace {

// Shared plain memory that is used atomically from here on.
template <class T>
std::atomic_ref<T> Shared(T& place) {
  return std::atomic_ref<T>(place);
}

// ----------------------------------------------------------------------------------------------------- BFS

// Stratum by stratum. A worker takes chunks of the stratum until none is left, says that it has arrived, and goes on
// when all have. In a nested batch a chunk may have to wait for other groups; its worker keeps it.
class Bfs : public Explorer {
 public:
  Bfs(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory, Group* group)
      : crew_(crew),
        group_(group),
        strata_(memory->strata),
        counters_(memory->counters),
        here_(workers),
        workers_(static_cast<uint32_t>(workers)) {
    group ? group->FindStrata(&memory->strata) : Stratify(units, &memory->strata);
    levels_ = strata_.levels();
    counters_.Resize(2 * uint64_t{levels_});
    std::fill(counters_.begin(), counters_.end(), 0);
  }

  Step Next(int worker) override {
    Here& here = here_[worker].value;
    if (!here.chunk.empty()) return Run(worker, &here);
    if (here.level == levels_) return Step::kDone;
    auto arrived = Shared(counters_[levels_ + here.level]);
    if (!here.arrived) {
      here.chunk = Take(here.level);
      if (!here.chunk.empty()) return Run(worker, &here);
      here.arrived = true;
      // Release what this worker did; the last to arrive acquires what all did.
      if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == workers_) {
        crew_->EndStratum();
        arrived.store(workers_ + 1, std::memory_order_release);  // lets the others go on: with the load below
      }
    }
    if (arrived.load(std::memory_order_acquire) <= workers_) return Step::kIdle;
    here.arrived = false;
    ++here.level;
    return Step::kWorked;
  }

 private:
  struct Here {
    uint32_t level = 0;
    bool arrived = false;  // at its end
    std::span<const UnitId> chunk;
    bool holds = false;  // the chunk, which has to wait
  };

  std::span<const UnitId> Take(uint32_t level) {
    const uint32_t begin = strata_.first[level], size = strata_.first[level + 1] - begin;
    const auto [least, most] = crew_->chunk();
    const uint32_t chunk = std::clamp(workers_ == 1 ? size : size / (4 * workers_), least, most);
    // Relaxed: who takes which chunk is all that matters here; the barrier orders what they did.
    const uint32_t at = Shared(counters_[level]).fetch_add(chunk, std::memory_order_relaxed);
    if (at >= size) return {};
    return {&strata_.order[begin + at], std::min(chunk, size - at)};
  }

  Step Run(int worker, Here* here) {
    if (group_ && !group_->AllReady(here->chunk)) {
      here->holds = true;
      return Step::kIdle;
    }
    if (std::exchange(here->holds, false)) crew_->Held(worker);
    crew_->RunMany(worker, here->chunk);
    if (group_) {
      for (UnitId unit : here->chunk) group_->Done(worker, unit);
    }
    here->chunk = {};
    return Step::kWorked;
  }

  Crew* crew_;
  Group* group_;
  const Strata& strata_;
  Scratch<uint32_t>& counters_;  // by level: units taken; then, by level, workers that have arrived
  std::vector<Padded<Here>> here_;
  uint32_t levels_;
  const uint32_t workers_;
};

// ----------------------------------------------------------------------------------------------------- DFS

// Every worker has a fixed share of each stratum, and goes through its shares in order without a barrier: before a
// unit it looks whether those that it waits for are done.
class Dfs : public Explorer {
 public:
  Dfs(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory, Group* group)
      : units_(units),
        crew_(crew),
        chunk_(crew->chunk().most),
        group_(group),
        strata_(memory->strata),
        done_(memory->counters),
        here_(workers) {
    group ? group->FindStrata(&memory->strata) : Stratify(units, &memory->strata);
    done_.Resize(units.units);
    std::fill(done_.begin(), done_.end(), 0);
    for (int worker = 0; worker < workers; ++worker) Enter(worker, &here_[worker].value);
  }

  Step Next(int worker) override {
    Here& here = here_[worker].value;
    for (uint32_t ran = 0; ran < chunk_; ++ran) {
      while (here.next == here.end && here.level < strata_.levels()) {
        ++here.level;
        Enter(worker, &here);
      }
      if (here.next == here.end) return ran ? Step::kWorked : Step::kDone;
      const UnitId unit = strata_.order[here.next];
      if (!Ready(unit)) {
        here.holds = true;
        return ran ? Step::kWorked : Step::kIdle;
      }
      if (std::exchange(here.holds, false)) crew_->Held(worker);
      crew_->Run(worker, unit);
      if (group_) group_->Done(worker, unit);
      Shared(done_[unit]).store(1, std::memory_order_release);  // with the load in Ready
      ++here.next;
    }
    return Step::kWorked;
  }

 private:
  struct Here {
    uint32_t level = 0;
    uint64_t next = 0, end = 0;  // its share of the stratum, in Strata::order
    bool holds = false;          // the next one, which has to wait
  };

  void Enter(int worker, Here* here) const {
    if (here->level >= strata_.levels()) return;
    const uint64_t begin = strata_.first[here->level], size = strata_.first[here->level + 1] - begin;
    here->next = begin + size * worker / here_.size();
    here->end = begin + size * (worker + 1) / here_.size();
  }

  bool Ready(UnitId unit) {
    if (group_) return group_->Ready(unit);
    for (UnitId before : units_.Before(unit)) {
      // Acquire what it wrote; its worker releases it in Next.
      if (!Shared(done_[before]).load(std::memory_order_acquire)) return false;
    }
    return true;
  }

  const UnitGraph& units_;
  Crew* crew_;
  const uint32_t chunk_;
  Group* group_;
  const Strata& strata_;
  Scratch<uint32_t>& done_;  // by unit
  std::vector<Padded<Here>> here_;
};

// ------------------------------------------------------------------------------------------------------ NS

// A unit is ready when its join counter comes to zero. Whoever brings it there keeps it; a worker without units takes
// a chunk of those that never had to wait, then steals.
class Ns : public Explorer {
 public:
  Ns(const UnitGraph& units, Crew* crew, int workers, ExplorerMemory* memory, Group* group)
      : crew_(crew),
        chunk_(crew->chunk().most),
        group_(group),
        successors_(memory->successors),
        roots_(memory->counters),
        queues_(memory->queues),
        ran_(workers) {
    if (!group) FindSuccessors(units, &memory->successors);
    roots_.Resize(units.units);
    uint32_t own = 0;
    for (UnitId unit = 0; unit < units.units; ++unit) {
      if (group && !group->Has(unit)) continue;
      ++own;
      if (group ? group->Ready(unit) : successors_.waits[unit] == 0) roots_[root_count_++] = unit;
    }
    left_ = own;
    queues_.resize(workers);
    for (WorkDeque& one : queues_) one.Reset();
  }

  Step Next(int worker) override {
    WorkDeque& queue = queues_[worker];
    for (uint32_t ran = 0; ran < chunk_; ++ran) {
      const std::optional<UnitId> unit = queue.Pop();
      if (!unit) return ran ? Step::kWorked : Refill(worker);
      Run(worker, *unit);
    }
    return Step::kWorked;
  }

  void Release(int worker, UnitId unit) override { queues_[worker].Push(unit); }

 private:
  void Run(int worker, UnitId unit) {
    crew_->Run(worker, unit);
    ++ran_[worker].value;
    if (group_) return group_->Done(worker, unit);
    for (uint32_t at = successors_.first[unit]; at < successors_.first[unit + 1]; ++at) {
      const UnitId next = successors_.units[at];
      // Release what this unit wrote; acquire what the others wrote that `next` waited for.
      if (Shared(successors_.waits[next]).fetch_sub(1, std::memory_order_acq_rel) == 1) queues_[worker].Push(next);
    }
  }

  Step Refill(int worker) {
    // Relaxed: who takes which chunk is all that matters; roots were there before the threads were.
    const uint32_t at = next_root_.fetch_add(chunk_, std::memory_order_relaxed);
    if (at < root_count_) {
      for (uint32_t i = at; i < std::min(at + chunk_, root_count_); ++i) Run(worker, roots_[i]);
      return Step::kWorked;
    }
    next_root_.store(root_count_, std::memory_order_relaxed);  // so that it never comes round; relaxed as above
    for (size_t i = 1; i < queues_.size(); ++i) {
      if (const auto unit = queues_[(worker + i) % queues_.size()].Steal()) {
        Run(worker, *unit);
        return Step::kWorked;
      }
    }
    // Relaxed, with itself on other threads: it only counts; the pool joins before anybody looks at results.
    const uint32_t ran = std::exchange(ran_[worker].value, 0);
    const uint32_t left = left_.fetch_sub(ran, std::memory_order_relaxed) - ran;
    return left == 0 ? Step::kDone : Step::kIdle;
  }

  Crew* crew_;
  const uint32_t chunk_;
  Group* group_;
  Successors& successors_;
  Scratch<uint32_t>& roots_;
  uint32_t root_count_ = 0;
  std::atomic<uint32_t> next_root_{0};
  std::atomic<uint32_t> left_{0};
  std::deque<WorkDeque>& queues_;
  std::vector<Padded<uint32_t>> ran_;  // by worker: units that `left_` does not know of yet
};

// ---------------------------------------------------------------------------------------------------- free

// Neighbours read the same rows, mostly: a worker takes many at first, and ever fewer, so that all end together.
class Free : public Explorer {
 public:
  Free(UnitId units, Crew* crew, int workers)
      : crew_(crew), chunk_(crew->chunk()), shares_(2 * static_cast<UnitId>(workers)), units_(units) {}

  Step Next(int worker) override {
    // Relaxed: who takes which units is all that matters, as nobody waits for anybody.
    UnitId at = next_.load(std::memory_order_relaxed), end;
    do {
      if (at >= units_) return Step::kDone;
      end = std::min(at + std::clamp((units_ - at) / shares_, chunk_.least, chunk_.most), units_);
    } while (!next_.compare_exchange_weak(at, end, std::memory_order_relaxed));
    for (UnitId unit = at; unit < end; ++unit) crew_->Run(worker, unit);
    return Step::kWorked;
  }

 private:
  Crew* crew_;
  const Crew::Chunk chunk_;
  const UnitId shares_;
  const UnitId units_;
  std::atomic<UnitId> next_{0};
};

}  // namespace

std::unique_ptr<Explorer> MakeFreeExplorer(UnitId units, Crew* crew, int workers) {
  return std::make_unique<Free>(units, crew, workers);
}

std::unique_ptr<Explorer> MakeExplorer(Exploration exploration, const UnitGraph& units, Crew* crew, int workers,
                                       ExplorerMemory* memory, Group* group) {
  switch (exploration) {
    case Exploration::kBfs:
      return std::make_unique<Bfs>(units, crew, workers, memory, group);
    case Exploration::kDfs:
      return std::make_unique<Dfs>(units, crew, workers, memory, group);
    case Exploration::kNs:
      return std::make_unique<Ns>(units, crew, workers, memory, group);
  }
  return nullptr;
}

}  // namespace morphspark
