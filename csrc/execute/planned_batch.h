// A batch that runs by its graph: what its workers share, and how one of them runs one transaction.
//
// Whatever goes wrong in a worker (no memory, a string over the limit, Ctrl-C) ends the batch in an orderly way: the
// remaining transactions are passed over, so that every explorer comes to its end, and `Finish` says what it was.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>

#include "execute/explorer.h"
#include "execute/serial.h"
#include "plan/graph.h"
#include "program/lane_machine.h"
#include "program/machine.h"
#include "state/planned_rows.h"
#include "state/table_door.h"

namespace morphspark {

class PlannedBatch {
 public:
  PlannedBatch(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
               const Graph& graph, BatchVersions* versions, Verdicts* verdicts, TableDoor* door, Poller* poller);

  const Graph& graph() const { return graph_; }
  const BatchContext& context() const { return context_; }
  Poller* poller() const { return &poller_; }
  BatchVersions* versions() const { return versions_; }
  int64_t Position(Task task) const { return graph_.begin + task; }
  BatchRow Row(Task task) const { return order_.Row(Position(task)); }
  // Its type; kUnmatched where there is nothing to run (no order key, no match).
  TransactionId TypeOf(Task task) const { return graph_.type[task]; }
  // What the transaction runs; null where there is nothing to run.
  const TransactionCode* CodeOf(Task task) const;

  // What a thread needs to run transactions of this batch.
  class Worker {
   public:
    Worker(PlannedBatch* batch, int number);
    // Runs a transaction and settles its versions. If what it reads may not be final, neither is a failure of it, and
    // a string that grows over its limit is not the batch's end.
    void Run(Task task, bool final = true);
    // Machine::RunOperation for a transaction of this batch.
    ReasonId RunOperation(Task task, const TransactionCode& code, const Operation& operation, const Exchange& exchange);
    // From now on its transactions may name any row. Nobody else runs.
    void Roam() { machine_.rows().Roam(); }
    void Run(std::span<const Task> tasks, bool final = true) {
      for (Task task : tasks) Run(task, final);
    }

   private:
    PlannedBatch& batch_;
    Frame frame_;
    Machine<PlannedRows> machine_;
    Pace pace_;
  };

  bool Aborted(Task task) const { return verdicts_->status[Position(task)] == TransactionStatus::kAborted; }

  // It has stopped at a row that was not foreseen.
  bool Unforeseen(Task task) const { return verdicts_->reason[Position(task)] == kUnforeseen; }

  // As if nothing had run yet.
  void Reset();

  // As Worker, for transactions that don't depend on each other: those of one type run in lanes.
  //
  // A lane that fails takes no further part (e-abort). l-abort allows to carry it to the end and to drop its effects
  // there; but leaving a lane out costs nothing, and nobody reads a version before its transaction is settled, so both
  // names mean this.
  class LaneWorker {
   public:
    LaneWorker(PlannedBatch* batch, int number, uint32_t lanes_min, LaneMemory* memory);
    void Run(std::span<const Task> tasks, bool final = true);

   private:
    void RunInLanes(TransactionId type, std::span<const Task> tasks, bool final);

    PlannedBatch& batch_;
    const uint32_t lanes_min_;
    Worker one_by_one_;
    LaneMachine machine_;
    std::vector<std::vector<Task>> tasks_of_;  // by type, while they are sorted
    std::vector<TransactionId> types_;         // that have some
    std::vector<BatchRow> rows_;               // by lane
    std::vector<int64_t> positions_;           // by lane
  };

  // A transaction has run: settles its versions, and says what came of it.
  void Conclude(Task task, ReasonId reason, bool final);
  // A worker threw: the batch ends.
  void Stop(std::exception_ptr error) { Stop(Status::Ok(), std::move(error)); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed) || poller_.cancelled(); }
  // All verdicts are final: those that are the batch's end are looked for, where they could not be before.
  void Settle();
  // Ok, or why the batch must not be installed. Rethrows what a worker threw.
  Status Finish();

 private:
  void Stop(Status status, std::exception_ptr error = nullptr);

  const BatchContext& context_;
  const Order& order_;
  std::span<const TransactionId> transactions_;
  const Graph& graph_;
  BatchVersions* versions_;
  Verdicts* verdicts_;
  TableDoor* const door_;  // open; who roams closes it, as it changes tables before the batch ends
  Poller& poller_;
  // Relaxed, the store in Stop and the load in stopped: it only saves work; `Finish` reads the rest under the mutex,
  // after all workers.
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  Status status_;             // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

// How many transactions of a stratum a worker takes at once for its lanes.
Crew::Chunk LaneChunk(uint32_t lanes_min);

// Units are transactions, run in lanes where they can be.
class LaneCrew : public Crew {
 public:
  LaneCrew(PlannedBatch* batch, int workers, uint32_t lanes_min, std::deque<LaneMemory>* memory);
  void Run(int worker, UnitId unit) override { RunMany(worker, {&unit, 1}); }
  void RunMany(int worker, std::span<const UnitId> units) override { workers_[worker].Run(units); }
  Chunk chunk() const override { return chunk_; }

 private:
  const Chunk chunk_;
  std::deque<PlannedBatch::LaneWorker> workers_;
};

// Units are transactions.
class TransactionCrew : public Crew {
 public:
  TransactionCrew(PlannedBatch* batch, int workers, uint32_t chunk = kUsualChunk) : chunk_{1, chunk} {
    for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number);
  }
  void Run(int worker, UnitId unit) override { workers_[worker].Run(unit); }
  Chunk chunk() const override { return chunk_; }

 private:
  const Chunk chunk_;
  std::deque<PlannedBatch::Worker> workers_;
};

}  // namespace morphspark
