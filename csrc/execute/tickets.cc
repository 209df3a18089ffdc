#include "execute/tickets.h"

#include <atomic>
#include <deque>

namespace morphspark {
namespace {

// What is locked: a row, or a partition of rows.
struct Lock {
  // Tickets that were drawn. Only the transaction whose turn it is touches them.
  uint32_t accesses = 0, writes = 0;
  // Tickets that were given back.
  std::atomic<uint32_t> ended_accesses{0}, ended_writes{0};
};

struct Ticket {
  Lock* lock;
  bool writes;
  uint32_t accesses_before, writes_before;
};

class Tickets : public Explorer {
 public:
  Tickets(Scheme scheme, const Graph& graph, Crew* crew, int workers)
      : scheme_(scheme),
        graph_(graph),
        crew_(crew),
        partitions_(static_cast<uint32_t>(workers) * kPartitionsPerWorker) {
    if (scheme == Scheme::kPat) {
      locks_.resize(partitions_);
    } else {
      AssignRows();
    }
    state_.resize(workers);
  }

  Step Next(int worker) override {
    State& state = state_[worker];
    switch (state.phase) {
      case Phase::kFree:
        state.task = next_.fetch_add(1, std::memory_order_relaxed);
        if (state.task >= graph_.tasks) {
          next_.store(graph_.tasks, std::memory_order_relaxed);  // so that it never comes round
          return Step::kDone;
        }
        state.phase = Phase::kAdmission;
        [[fallthrough]];
      case Phase::kAdmission:
        if (admitted_.load(std::memory_order_acquire) != state.task) return Step::kIdle;
        Draw(&state);
        admitted_.store(state.task + 1, std::memory_order_release);
        state.phase = Phase::kWaiting;
        return Step::kWorked;
      case Phase::kWaiting:
        for (const Ticket& ticket : state.tickets) {
          if (!Called(ticket)) return Step::kIdle;
        }
        crew_->Run(worker, state.task);
        for (const Ticket& ticket : state.tickets) {
          if (ticket.writes) ticket.lock->ended_writes.fetch_add(1, std::memory_order_acq_rel);
          ticket.lock->ended_accesses.fetch_add(1, std::memory_order_acq_rel);
        }
        state.phase = Phase::kFree;
        return Step::kWorked;
    }
    return Step::kDone;
  }

 private:
  static constexpr uint32_t kPartitionsPerWorker = 4;

  enum class Phase { kFree, kAdmission, kWaiting };
  struct alignas(64) State {
    Phase phase = Phase::kFree;
    Task task = 0;
    std::vector<Ticket> tickets;
  };

  // A lock for each row: that of its first access in the batch.
  void AssignRows() {
    const Access accesses = graph_.accesses();
    lock_of_.Resize(accesses);
    std::vector<std::vector<uint32_t>> by_slot;
    for (Access access = 0; access < accesses; ++access) {
      if (graph_.flags[access] & Graph::kHole) continue;
      const uint16_t table = graph_.table[access];
      if (table >= by_slot.size()) by_slot.resize(table + 1);
      auto& locks = by_slot[table];
      const Slot slot = graph_.slot[access];
      if (slot >= locks.size()) locks.resize(std::max<size_t>(slot + 1, 2 * locks.size()), kBase);
      if (locks[slot] == kBase) {
        locks[slot] = static_cast<uint32_t>(locks_.size());
        locks_.emplace_back();
      }
      lock_of_[access] = locks[slot];
    }
  }

  Lock* LockOf(Access access) {
    if (scheme_ != Scheme::kPat) return &locks_[lock_of_[access]];
    return &locks_[(graph_.slot[access] + graph_.table[access]) % partitions_];
  }

  void Draw(State* state) {
    state->tickets.clear();
    if (!graph_.roamers.empty()) Draw(&world_, graph_.roams(state->task), state);
    for (Access access = graph_.first[state->task]; access < graph_.first[state->task + 1]; ++access) {
      if (graph_.flags[access] & Graph::kHole) continue;
      Lock* const lock = LockOf(access);
      const bool writes = scheme_ == Scheme::kPat || (graph_.flags[access] & Graph::kWrites);
      bool drawn = false;  // a partition may hold several rows of the transaction
      for (const Ticket& ticket : state->tickets) drawn |= ticket.lock == lock;
      if (!drawn) Draw(lock, writes, state);
    }
  }

  void Draw(Lock* lock, bool writes, State* state) {
    state->tickets.push_back({lock, writes, lock->accesses, lock->writes});
    ++lock->accesses;
    lock->writes += writes;
  }

  bool Called(const Ticket& ticket) const {
    const Lock& lock = *ticket.lock;
    if (ticket.writes && (scheme_ != Scheme::kMvlk || &lock == &world_)) {
      return lock.ended_accesses.load(std::memory_order_acquire) == ticket.accesses_before;
    }
    // A read may run beside later writes of mvlk, so more may have ended.
    return lock.ended_writes.load(std::memory_order_acquire) >= ticket.writes_before;
  }

  const Scheme scheme_;
  const Graph& graph_;
  Crew* const crew_;
  const uint32_t partitions_;
  std::deque<Lock> locks_;
  Lock world_;
  Scratch<uint32_t> lock_of_;  // by access
  std::atomic<Task> next_{0};
  std::atomic<Task> admitted_{0};
  std::deque<State> state_;
};

}  // namespace

std::unique_ptr<Explorer> MakeTicketExplorer(Scheme scheme, const Graph& graph, Crew* crew, int workers) {
  return std::make_unique<Tickets>(scheme, graph, crew, workers);
}

}  // namespace morphspark
