// A batch that runs by its graph: what its workers share, and how one of them runs one transaction.
//
// Whatever goes wrong in a worker (no memory, a string over the limit, Ctrl-C) ends the batch in an orderly way: the
// remaining transactions are passed over, so that every explorer comes to its end, and `Finish` says what it was.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

#include "execute/serial.h"
#include "plan/graph.h"
#include "program/lane_machine.h"
#include "program/machine.h"
#include "state/planned_rows.h"

namespace morphspark {

class PlannedBatch {
 public:
  PlannedBatch(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
               const Graph& graph, BatchVersions* versions, Verdicts* verdicts);

  const Graph& graph() const { return graph_; }

  // What a thread needs to run transactions of this batch.
  class Worker {
   public:
    Worker(PlannedBatch* batch, int number);
    // Runs a transaction and settles its versions.
    void Run(Task task);
    void Run(std::span<const Task> tasks) {
      for (Task task : tasks) Run(task);
    }

   private:
    PlannedBatch& batch_;
    Frame frame_;
    Machine<PlannedRows> machine_;
  };

  // The same for transactions that don't depend on each other: those of one type run in lanes.
  //
  // A lane that fails takes no further part (e-abort). l-abort allows to carry it to the end and to drop its effects
  // there; but leaving a lane out costs nothing, and nobody reads a version before its transaction is settled, so both
  // names mean this.
  class LaneWorker {
   public:
    LaneWorker(PlannedBatch* batch, int number, uint32_t lanes_min, LaneMemory* memory);
    void Run(std::span<const Task> tasks);

   private:
    void RunInLanes(TransactionId type, std::span<const Task> tasks);

    PlannedBatch& batch_;
    const uint32_t lanes_min_;
    Worker one_by_one_;
    LaneMachine machine_;
    std::vector<std::vector<Task>> tasks_of_;  // by type, while they are sorted
    std::vector<TransactionId> types_;         // that have some
    std::vector<BatchRow> rows_;               // by lane
    std::vector<int64_t> positions_;           // by lane
  };

  void Cancel();
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  // Ok, or why the batch must not be installed. Rethrows what a worker threw.
  Status Finish();

 private:
  // A transaction has run: settles its versions, and says what came of it.
  void Conclude(Task task, ReasonId reason);
  void Stop(Status status, std::exception_ptr error = nullptr);

  const BatchContext& context_;
  const Order& order_;
  std::span<const TransactionId> transactions_;
  const Graph& graph_;
  BatchVersions* versions_;
  Verdicts* verdicts_;
  // Relaxed: it only saves work; `Finish` reads the rest under the mutex, after all workers.
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  Status status_;             // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace morphspark
