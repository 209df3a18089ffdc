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
#include "program/machine.h"
#include "state/planned_rows.h"

namespace morphspark {

class PlannedBatch {
 public:
  PlannedBatch(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
               const Graph& graph, BatchVersions* versions, Verdicts* verdicts);

  const Graph& graph() const { return graph_; }
  const BatchContext& context() const { return context_; }
  BatchVersions* versions() const { return versions_; }
  int64_t Position(Task task) const { return graph_.begin + task; }
  BatchRow Row(Task task) const { return order_.Row(Position(task)); }
  // What the transaction runs; null where there is nothing to run (no order key, no match).
  const TransactionCode* CodeOf(Task task) const;

  // What a thread needs to run transactions of this batch.
  class Worker {
   public:
    Worker(PlannedBatch* batch, int number);
    // Runs a transaction and settles its versions.
    void Run(Task task);
    // Machine::RunOperation for a transaction of this batch.
    ReasonId RunOperation(Task task, const TransactionCode& code, const Operation& operation, const Exchange& exchange);
    void KeepStrings() { frame_.KeepStrings(); }

   private:
    PlannedBatch& batch_;
    Frame frame_;
    Machine<PlannedRows> machine_;
  };

  bool Aborted(Task task) const { return verdicts_->status[Position(task)] == TransactionStatus::kAborted; }

  // As if nothing had run yet.
  void Reset();
  void Cancel();
  // A worker threw: the batch ends.
  void Stop(std::exception_ptr error) { Stop(Status::Ok(), std::move(error)); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
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
  // Relaxed: it only saves work; `Finish` reads the rest under the mutex, after all workers.
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  Status status_;             // guarded by mutex_
  std::exception_ptr error_;  // guarded by mutex_
};

// Units are transactions.
class TransactionCrew : public Crew {
 public:
  TransactionCrew(PlannedBatch* batch, int workers) {
    for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number);
  }
  void Run(int worker, UnitId unit) override { workers_[worker].Run(unit); }

 private:
  std::deque<PlannedBatch::Worker> workers_;
};

}  // namespace morphspark
