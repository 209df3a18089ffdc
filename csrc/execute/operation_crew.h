// Runs single operations, or chains of them, without waiting for verdicts: an operation may read what another
// transaction wrote before it is known that none of that transaction's operations fails.
//
// The life of an operation, with the names of the literature:
//
//     BLK ──T1──▶ RDY ──T2──▶ EXE        T1 what it waits for has executed    T2 it executes (T3: before all its
//      ▲           ▲           │            transaction's conditions are known)
//      └────T6─────┴────T5─────┘         T4 from any state to ABT: it, or another operation of its transaction, failed
//                                        T5 rolled back, and ready again      T6 rolled back, and must wait again
//
// After exploration `Redo` makes it right. Transactions that failed are looked at in their order. Each runs again as a
// whole, now that everything before it is final: this takes back exactly its versions, finds its first failure in
// program order, or finds that it failed only because of what it had read too early. If that changes what it
// published, those that read it follow; if it does not, nobody does. So exactly what depended on an abort is redone,
// and it ends because a transaction is only ever followed by later ones.
#pragma once

#include <deque>
#include <vector>

#include "execute/explorer.h"
#include "execute/planned_batch.h"
#include "plan/operation_graph.h"

namespace morphspark {

// Kept from batch to batch.
struct OperationMemory {
  OperationGraph graph;
  ChainGraph chains;
  Scratch<uint8_t> failed;  // by task
  Scratch<Value> values;    // the exchange
  Scratch<uint8_t> null;

  uint64_t bytes() const { return graph.bytes() + chains.bytes() + failed.bytes() + values.bytes() + null.bytes(); }
};

class OperationCrew : public Crew {
 public:
  OperationCrew(PlannedBatch* batch, const Strategy& strategy, int workers, OperationMemory* memory);

  const UnitGraph& units() const { return chains_ ? memory_.chains.units : memory_.graph.nodes; }
  void Run(int worker, UnitId unit) override;
  // Takes back and runs again what must be; how many transactions that were.
  int64_t Redo();
  bool failed() const;

 private:
  void RunNode(int worker, Node node);
  void RunWhole(int worker, Task task);
  void Fail(int worker, Task task);

  PlannedBatch& batch_;
  const Graph& graph_;
  OperationMemory& memory_;
  const bool chains_;
  const bool eager_;
  std::deque<PlannedBatch::Worker> workers_;
  struct alignas(64) Failed {
    std::vector<Task> tasks;
  };
  std::vector<Failed> failed_;  // by worker
};

}  // namespace morphspark
