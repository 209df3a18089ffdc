#include "execute/explorer.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <thread>

#include "execute/tickets.h"
#include "execute/work_deque.h"

namespace morphspark {
namespace {

constexpr uint32_t kChunk = 16;  // transactions that a worker takes at once
constexpr uint32_t kLaneChunk = LaneMachine::kLanes;

// Shared plain memory that is used atomically from here on.
template <class T>
std::atomic_ref<T> Shared(T& place) {
  return std::atomic_ref<T>(place);
}

// ----------------------------------------------------------------------------------------------------- BFS

// Stratum by stratum. A worker takes chunks of the stratum until none is left, says that it has arrived, and goes on
// when all have. What a worker does with its chunk, its kind knows.
template <class Worker>
class Bfs : public Explorer {
 public:
  struct Chunk {
    uint32_t least, most;
  };

  template <class MakeWorker>
  Bfs(PlannedBatch* batch, int workers, Chunk chunk, ExplorerMemory* memory, MakeWorker make_worker)
      : chunk_(chunk),
        strata_(memory->strata),
        taken_(memory->counters),
        level_(workers, 0),
        arrived_here_(workers, false) {
    Stratify(batch->graph(), &memory->strata);
    levels_ = strata_.levels();
    workers_ = static_cast<uint32_t>(workers);
    taken_.Resize(2 * uint64_t{levels_});
    std::fill(taken_.begin(), taken_.end(), 0);
    for (int number = 0; number < workers; ++number) make_worker(&crew_, number);
  }

  Step Next(int worker) override {
    uint32_t& level = level_[worker].value;
    if (level == levels_) return Step::kDone;
    const uint32_t begin = strata_.first[level], size = strata_.first[level + 1] - begin;
    bool& arrived = arrived_here_[worker].value;
    if (!arrived) {
      const uint32_t chunk = std::clamp(size / (4 * workers_), chunk_.least, chunk_.most);
      // Relaxed: who takes which chunk is all that matters here; the barrier orders what they did.
      const uint32_t at = Shared(taken_[level]).fetch_add(chunk, std::memory_order_relaxed);
      if (at < size) {
        crew_[worker].Run(std::span(strata_.order.data() + begin + at, std::min(chunk, size - at)));
        return Step::kWorked;
      }
      arrived = true;
      Shared(taken_[levels_ + level]).fetch_add(1, std::memory_order_acq_rel);
    }
    if (Shared(taken_[levels_ + level]).load(std::memory_order_acquire) < workers_) return Step::kIdle;
    arrived = false;
    ++level;
    return Step::kWorked;
  }

 private:
  template <class T>
  struct alignas(64) Padded {
    T value;
    Padded(T initial) : value(initial) {}  // NOLINT: a value, and room around it
  };

  const Chunk chunk_;
  const Strata& strata_;
  Scratch<uint32_t>& taken_;  // by level: tasks taken; then, by level, workers that have arrived
  uint32_t levels_, workers_;
  std::vector<Padded<uint32_t>> level_;  // by worker
  std::vector<Padded<bool>> arrived_here_;
  std::deque<Worker> crew_;
};

std::unique_ptr<Explorer> MakeBfs(const Strategy& strategy, PlannedBatch* batch, int workers, ExplorerMemory* memory) {
  if (strategy.unit == Unit::kTransaction) {
    return std::make_unique<Bfs<PlannedBatch::Worker>>(
        batch, workers, Bfs<PlannedBatch::Worker>::Chunk{1, kChunk}, memory,
        [&](auto* crew, int number) { crew->emplace_back(batch, number); });
  }
  if (memory->lanes.size() < static_cast<size_t>(workers)) memory->lanes.resize(workers);
  // Not less than what several types need to fill some lanes each.
  const uint32_t least = std::min(4 * strategy.lanes_min, kLaneChunk);
  return std::make_unique<Bfs<PlannedBatch::LaneWorker>>(
      batch, workers, Bfs<PlannedBatch::LaneWorker>::Chunk{least, kLaneChunk}, memory,
      [&](auto* crew, int number) { crew->emplace_back(batch, number, strategy.lanes_min, &memory->lanes[number]); });
}

// ----------------------------------------------------------------------------------------------------- DFS

// Every worker has a fixed share of each stratum, and goes through its shares in order without a barrier: before a
// task it looks whether those that it waits for are done.
class Dfs : public Explorer {
 public:
  Dfs(PlannedBatch* batch, int workers, ExplorerMemory* memory)
      : graph_(batch->graph()), done_(memory->counters), share_(workers) {
    Stratify(graph_, &memory->strata);
    const Strata& strata = memory->strata;
    done_.Resize(graph_.tasks);
    std::fill(done_.begin(), done_.end(), 0);
    for (uint32_t level = 0; level < strata.levels(); ++level) {
      const uint64_t begin = strata.first[level], size = strata.first[level + 1] - begin;
      for (int worker = 0; worker < workers; ++worker) {
        const uint64_t from = begin + size * worker / workers, to = begin + size * (worker + 1) / workers;
        share_[worker].tasks.insert(share_[worker].tasks.end(), &strata.order[from], &strata.order[from] + (to - from));
      }
    }
    for (int number = 0; number < workers; ++number) crew_.emplace_back(batch, number);
  }

  Step Next(int worker) override {
    Share& share = share_[worker];
    for (uint32_t ran = 0; ran < kChunk; ++ran) {
      if (share.next == share.tasks.size()) return ran ? Step::kWorked : Step::kDone;
      const Task task = share.tasks[share.next];
      if (!Ready(task)) return ran ? Step::kWorked : Step::kIdle;
      crew_[worker].Run(task);
      Shared(done_[task]).store(1, std::memory_order_release);
      ++share.next;
    }
    return Step::kWorked;
  }

 private:
  struct alignas(64) Share {
    std::vector<Task> tasks;
    size_t next = 0;
  };

  bool Ready(Task task) {
    for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
      const Access previous = graph_.previous[access];
      if (previous != kBase && !Shared(done_[graph_.owner[previous]]).load(std::memory_order_acquire)) return false;
    }
    return true;
  }

  const Graph& graph_;
  Scratch<uint32_t>& done_;  // by task
  std::vector<Share> share_;
  std::deque<PlannedBatch::Worker> crew_;
};

// ------------------------------------------------------------------------------------------------------ NS

// A task is ready when its join counter comes to zero. Whoever brings it there keeps it; a worker without tasks takes
// a chunk of those that never had to wait, then steals.
class Ns : public Explorer {
 public:
  Ns(PlannedBatch* batch, int workers, ExplorerMemory* memory)
      : successors_(memory->successors), roots_(memory->counters), left_(batch->graph().tasks) {
    FindSuccessors(batch->graph(), &memory->successors);
    roots_.Resize(batch->graph().tasks);
    for (Task task = 0; task < batch->graph().tasks; ++task) {
      if (successors_.waits[task] == 0) roots_[root_count_++] = task;
    }
    for (int number = 0; number < workers; ++number) {
      queues_.emplace_back(batch->graph().tasks);
      crew_.emplace_back(batch, number);
      ran_.emplace_back();
    }
  }

  Step Next(int worker) override {
    WorkDeque& queue = queues_[worker];
    for (uint32_t ran = 0; ran < kChunk; ++ran) {
      const std::optional<Task> task = queue.Pop();
      if (!task) return ran ? Step::kWorked : Refill(worker);
      Run(worker, *task);
    }
    return Step::kWorked;
  }

 private:
  struct alignas(64) Ran {
    uint32_t count = 0;
  };

  void Run(int worker, Task task) {
    crew_[worker].Run(task);
    ++ran_[worker].count;
    for (uint32_t at = successors_.first[task]; at < successors_.first[task + 1]; ++at) {
      const Task next = successors_.tasks[at];
      // Release what this task wrote; acquire what the others wrote that `next` waited for.
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
      if (const auto task = queues_[(worker + i) % queues_.size()].Steal()) {
        Run(worker, *task);
        return Step::kWorked;
      }
    }
    // Relaxed: the pool joins before anybody looks at results.
    const uint32_t ran = std::exchange(ran_[worker].count, 0);
    const uint32_t left = left_.fetch_sub(ran, std::memory_order_relaxed) - ran;
    return left == 0 ? Step::kDone : Step::kIdle;
  }

  Successors& successors_;
  Scratch<uint32_t>& roots_;
  uint32_t root_count_ = 0;
  std::atomic<uint32_t> next_root_{0};
  std::atomic<uint32_t> left_;
  std::deque<WorkDeque> queues_;
  std::deque<PlannedBatch::Worker> crew_;
  std::deque<Ran> ran_;  // by worker: tasks that `left_` does not know of yet
};

}  // namespace

std::unique_ptr<Explorer> MakeExplorer(const Strategy& strategy, PlannedBatch* batch, int workers,
                                       ExplorerMemory* memory) {
  if (strategy.scheme != Scheme::kExplore) return MakeTicketExplorer(strategy.scheme, batch, workers);
  switch (strategy.exploration) {
    case Exploration::kBfs:
      return MakeBfs(strategy, batch, workers, memory);
    case Exploration::kDfs:
      return std::make_unique<Dfs>(batch, workers, memory);
    case Exploration::kNs:
      return std::make_unique<Ns>(batch, workers, memory);
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------------- driving

namespace {

constexpr int kIdleSpins = 64;          // before a worker lets others have the core
constexpr int kStepsBetweenLooks = 64;  // at the clock
constexpr auto kTimeBetweenPolls = std::chrono::milliseconds(50);

void Work(Explorer* explorer, int worker, const Poll* poll, PlannedBatch* batch) {
  auto polled = std::chrono::steady_clock::now();
  int idle = 0;
  for (int64_t steps = 1;; ++steps) {
    const Explorer::Step step = explorer->Next(worker);
    if (step == Explorer::Step::kDone) return;
    idle = step == Explorer::Step::kIdle ? idle + 1 : 0;
    if (idle > kIdleSpins) std::this_thread::yield();
    if (poll == nullptr || steps % kStepsBetweenLooks != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (now - polled <= kTimeBetweenPolls) continue;
    if ((*poll)()) batch->Cancel();
    polled = now;
  }
}

}  // namespace

void Drive(Explorer* explorer, int workers, ThreadPool* pool, const Poll& poll, PlannedBatch* batch) {
  const auto caller = std::this_thread::get_id();
  pool->For(workers, 1, [&](int64_t from, int64_t to) {
    const bool polls = poll && std::this_thread::get_id() == caller;
    for (int64_t worker = from; worker < to; ++worker)
      Work(explorer, static_cast<int>(worker), polls ? &poll : nullptr, batch);
  });
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
