#include "execute/tickets.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace morphspark {
namespace {

using Lock = TicketMemory::Lock;
using Ticket = TicketMemory::Ticket;

// A count of tickets that were given back: plain memory that is used atomically while a batch runs.
std::atomic_ref<uint32_t> Shared(uint32_t& count) { return std::atomic_ref(count); }

class Tickets : public Explorer {
 public:
  Tickets(Scheme scheme, const Graph& graph, Crew* crew, int workers, TicketMemory* memory)
      : scheme_(scheme),
        graph_(graph),
        crew_(crew),
        partitions_(static_cast<uint32_t>(workers) * kPartitionsPerWorker),
        admits_(scheme != Scheme::kPat || !graph.roamers.empty()),
        locks_(memory->locks),
        number_of_(memory->number_of),
        drawn_(memory->drawn),
        state_(workers) {
    locks_.Resize(scheme == Scheme::kPat ? partitions_ : NumberRows(graph, &number_of_));
    std::ranges::fill(locks_, Lock());
    if (!admits_) NumberTickets();
    drawn_.resize(std::max<size_t>(drawn_.size(), workers));
  }

  Step Next(int worker) override {
    State& state = state_[worker].value;
    std::vector<Ticket>& tickets = drawn_[worker].value;
    switch (state.phase) {
      case Phase::kFree:
        // Relaxed: who takes which transaction is all that matters; tickets order what they do.
        state.task = next_.fetch_add(1, std::memory_order_relaxed);
        if (state.task >= graph_.tasks) {
          next_.store(graph_.tasks, std::memory_order_relaxed);  // so that it never comes round; relaxed as above
          return Step::kDone;
        }
        state.phase = Phase::kAdmission;
        [[fallthrough]];
      case Phase::kAdmission:
        // Acquire the numbers that were drawn before; the next one acquires those of this one.
        if (admits_ && admitted_.load(std::memory_order_acquire) != state.task) return Step::kIdle;
        Draw(state.task, &tickets);
        if (admits_) admitted_.store(state.task + 1, std::memory_order_release);
        state.phase = Phase::kWaiting;
        return Step::kWorked;
      case Phase::kWaiting:
        for (const Ticket& ticket : tickets) {
          if (!Called(ticket)) return Step::kIdle;
        }
        crew_->Run(worker, state.task);
        for (const Ticket& ticket : tickets) {
          // Release what the transaction wrote, and pass on what others did before: with the loads in Called.
          if (ticket.writes) Shared(ticket.lock->ended_writes).fetch_add(1, std::memory_order_acq_rel);
          Shared(ticket.lock->ended_accesses).fetch_add(1, std::memory_order_acq_rel);
        }
        state.phase = Phase::kFree;
        return Step::kWorked;
    }
    return Step::kDone;
  }

 private:
  static constexpr uint32_t kPartitionsPerWorker = 4;

  enum class Phase { kFree, kAdmission, kWaiting };
  struct State {
    Phase phase = Phase::kFree;
    Task task = 0;
  };

  // Each access gets the number of its transaction among those that use its partition; kBase: the transaction has a
  // ticket for it already.
  void NumberTickets() {
    number_of_.Resize(graph_.accesses());
    std::vector<Task> last(partitions_, Graph::kNobody);
    for (Access access = 0; access < graph_.accesses(); ++access) {
      const uint32_t partition = PartitionOf(access);
      const bool hole = (graph_.flags[access] & Graph::kHole) != 0;
      const bool draws = !hole && std::exchange(last[partition], graph_.owner[access]) != graph_.owner[access];
      number_of_[access] = draws ? locks_[partition].accesses++ : kBase;
    }
  }

  uint32_t PartitionOf(Access access) const { return (graph_.slot[access] + graph_.table[access]) % partitions_; }

  Lock* LockOf(Access access) { return &locks_[scheme_ == Scheme::kPat ? PartitionOf(access) : number_of_[access]]; }

  void Draw(Task task, std::vector<Ticket>* tickets) {
    tickets->clear();
    if (!admits_) {
      for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
        if (number_of_[access] != kBase) tickets->push_back({LockOf(access), true, number_of_[access], 0});
      }
      return;
    }
    if (!graph_.roamers.empty()) Draw(&world_, graph_.roams(task), tickets);
    for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
      if (graph_.flags[access] & Graph::kHole) continue;
      Lock* const lock = LockOf(access);
      const bool writes = scheme_ == Scheme::kPat || (graph_.flags[access] & Graph::kWrites);
      // A partition may hold several rows of the transaction; partitions are few.
      const bool drawn = scheme_ == Scheme::kPat && std::ranges::find(*tickets, lock, &Ticket::lock) != tickets->end();
      if (!drawn) Draw(lock, writes, tickets);
    }
  }

  static void Draw(Lock* lock, bool writes, std::vector<Ticket>* tickets) {
    tickets->push_back({lock, writes, lock->accesses, lock->writes});
    ++lock->accesses;
    lock->writes += writes;
  }

  // Acquire what those did that gave back their tickets: with the additions in Next.
  bool Called(const Ticket& ticket) const {
    Lock& lock = *ticket.lock;
    if (ticket.writes && (scheme_ != Scheme::kMvlk || &lock == &world_)) {
      return Shared(lock.ended_accesses).load(std::memory_order_acquire) == ticket.accesses_before;
    }
    // A read may run beside later writes of mvlk, so more may have ended.
    return Shared(lock.ended_writes).load(std::memory_order_acquire) >= ticket.writes_before;
  }

  const Scheme scheme_;
  const Graph& graph_;
  Crew* const crew_;
  const uint32_t partitions_;
  const bool admits_;  // one by one, to draw tickets
  Scratch<Lock>& locks_;
  Lock world_;
  Scratch<uint32_t>& number_of_;  // by access
  std::vector<Padded<std::vector<Ticket>>>& drawn_;
  std::atomic<Task> next_{0};
  std::atomic<Task> admitted_{0};
  std::vector<Padded<State>> state_;
};

}  // namespace

std::unique_ptr<Explorer> MakeTicketExplorer(Scheme scheme, const Graph& graph, Crew* crew, int workers,
                                             TicketMemory* memory) {
  return std::make_unique<Tickets>(scheme, graph, crew, workers, memory);
}

}  // namespace morphspark
