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
// With strata and e-abort, failures are looked at after each stratum: what a failed transaction has published is taken
// back at once, so that later strata read what is right; who read it before is noted.
//
// After exploration `Redo` makes it right. Transactions that failed, or read what was taken back, run again as a whole,
// those that don't wait for each other at the same time, each when everything before it is final: this takes back
// exactly its versions, finds its first failure in program order, or finds that it failed only because of what it had
// read too early. If that changes what it published, those that read it follow; if it does not, nobody does. So exactly
// what depended on an abort is redone, and it ends because a transaction is only ever followed by later ones.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "execute/explorer.h"
#include "execute/planned_batch.h"
#include "plan/operation_graph.h"

namespace morphspark {

// Kept from batch to batch.
struct OperationMemory {
  OperationGraph graph;
  ChainGraph chains;
  UnitGraph transactions;  // for Redo, as are the next two
  Strata strata;
  Scratch<uint8_t> due;     // by task: it runs again, or has
  Scratch<uint8_t> failed;  // by task
  Scratch<uint8_t> ran;     // by node; e-abort in strata only
  Scratch<Value> values;    // the exchange
  Scratch<uint8_t> null;

  uint64_t bytes() const {
    return graph.bytes() + chains.bytes() + transactions.bytes() + strata.bytes() + due.bytes() + failed.bytes() +
           ran.bytes() + values.bytes() + null.bytes();
  }
};

// Who reads what an access published.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  std::span<const Access> Of(Access access) const {
    return {readers_.data() + first_[access], readers_.data() + first_[access + 1]};
  }

 private:
  std::vector<uint32_t> first_;
  std::vector<Access> readers_;
};

class OperationCrew : public Crew {
 public:
  // `strata`: it is explored in strata, all of it.
  OperationCrew(PlannedBatch* batch, const Policies& policies, bool strata, int workers, OperationMemory* memory);

  const UnitGraph& units() const { return chains_ ? memory_.chains.units : memory_.graph.nodes; }
  // The nodes of a unit.
  std::span<const Node> Nodes(const UnitId& unit) const;
  void Run(int worker, UnitId unit) override;
  void EndStratum() override;
  // A transaction that ran as a whole has failed; what it had read may not have been final.
  void Fail(int worker, Task task);
  // Takes back and runs again what must be, on the pool's threads if there is one; how many transactions that were.
  int64_t Redo(ThreadPool* pool);
  bool failed() const;
  bool optimistic() const { return optimistic_; }

 private:
  // What a worker that redoes transactions needs.
  struct alignas(64) Redoer {
    struct Before {
      Access source;
      std::vector<uint64_t> image;
    };
    std::vector<Before> before;  // by access of the transaction: what it had published
    std::vector<uint64_t> image;
    std::vector<Task> followers;
  };
  struct alignas(64) Failed {
    std::vector<Task> tasks;
    size_t settled = 0;  // so many are taken back
  };

  void RunNode(int worker, Node node);
  void RunWhole(int worker, Task task);
  void TakeBack(Task task);
  bool Ran(Access access, bool first) const;
  const Readers& readers();
  bool MarkDue(Task task);
  void RedoOne(int worker, Task task, Redoer* redoer);

  PlannedBatch& batch_;
  const Graph& graph_;
  OperationMemory& memory_;
  const Policies& policies_;
  const bool chains_;
  const bool optimistic_;  // some transactions are cut
  const bool takes_back_;  // after each stratum
  std::deque<PlannedBatch::Worker> workers_;
  std::vector<Failed> failed_;  // by worker
  std::vector<Task> misled_;    // they read what was taken back
  std::optional<Readers> readers_;
  std::vector<uint8_t> changed_;  // by access, while redoing: what it published is not what it had published
};

}  // namespace morphspark
