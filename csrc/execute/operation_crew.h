// Runs single operations, or chains of them, without waiting for verdicts: an operation may read what another
// transaction wrote before it is known that none of that transaction's operations fails.
//
// The life of an operation is told in operation_state.h.
//
// With e-abort the rest of a transaction that has failed does not run. Where all units are explored in strata with
// barriers, failures are looked at after each stratum, too: what a failed transaction has published is taken back, so
// that later strata don't read it; who read it before is noted. Elsewhere others may be reading it at that moment, and
// it stays until all have run.
//
// After exploration `Redo` makes it right. Transactions that failed, or read what was taken back, run again as a whole,
// those that don't wait for each other at the same time, each when everything before it is final: this takes back
// exactly its versions, finds its first failure in program order, or finds that it failed only because of what it had
// read too early. If that changes what it published, those that read it follow; if it leaves the same values, nobody
// does. So exactly what depended on an abort is redone, and it ends because a transaction is only ever followed by
// later ones.
#pragma once

#include <deque>
#include <vector>

#include "base/arena.h"
#include "base/padded.h"
#include "execute/explorer.h"
#include "execute/operation_state.h"
#include "execute/planned_batch.h"
#include "execute/rerun.h"
#include "plan/operation_graph.h"

namespace morphspark {

// Kept from batch to batch.
struct OperationMemory {
  // What a worker that redoes transactions needs.
  struct Redoer {
    Rerun rerun;
    int64_t redone = 0;
  };
  // Who reads what an access published.
  struct Readers {
    Scratch<uint32_t> first;  // by access, and one more
    Scratch<Access> list;

    std::span<const Access> Of(Access access) const {
      return {list.data() + first[access], list.data() + first[access + 1]};
    }
  };

  OperationGraph graph;
  ChainGraph chains;
  Scratch<OperationState> states;      // by node
  Scratch<uint8_t> failed;             // by task: an operation of it failed, or it did as a whole
  Scratch<Value> values;               // the exchange
  Scratch<uint8_t> null;               // the same
  std::vector<Padded<Arena>> strings;  // by worker: those that operations leave to each other
  // What is redone:
  UnitGraph transactions;
  Strata strata;
  Scratch<uint8_t> due;      // by task: it runs again, or has
  Scratch<Task> stratum;     // those of one that are due
  Scratch<uint8_t> changed;  // by access: what it published is not what it had published
  Readers readers;
  std::vector<Padded<Redoer>> redoers;  // by worker

  uint64_t bytes() const;
};

class OperationCrew : public Crew {
 public:
  // `strata`: it is explored in strata, all of it.
  OperationCrew(PlannedBatch* batch, const Policies& policies, bool strata, int workers, OperationMemory* memory);

  const UnitGraph& units() const { return chains_ ? memory_.chains.units : memory_.graph.nodes; }
  // The nodes of a unit.
  std::span<const Node> Nodes(const UnitId& unit) const;
  void Run(int worker, UnitId unit) override;
  void Held(int worker) override { own_[worker].held = true; }
  void EndStratum() override;
  // A transaction that ran as a whole has failed; what it had read may not have been final.
  void Fail(int worker, Task task);
  // Units of transactions that are not cut have run elsewhere.
  void RanWhole(int worker, std::span<const Task> tasks);
  // Takes back and runs again what must be, on the pool's threads if there is one; how many transactions that were.
  int64_t Redo(ThreadPool* pool);
  bool failed() const;
  // All ran again as a whole, elsewhere.
  void RanAgain();
  // The transitions of all operations so far.
  Transitions Made() const;
  bool optimistic() const { return optimistic_; }
  // Every operation has come to an end, and those of a transaction to the same.
  bool Validate() const;

 private:
  using Redoer = OperationMemory::Redoer;
  struct alignas(64) Own {
    std::vector<Task> failed;
    size_t settled = 0;  // so many of them are taken back
    bool held = false;   // it has waited for what it runs next
    Transitions made{};
  };

  void RunNode(int worker, Node node);
  void Become(int worker, OperationState* state, OperationState to);
  bool Ready(Node node) const;
  void RunWhole(int worker, Task task);
  std::span<OperationState> StatesOf(Task task);
  void TakeBack(Task task);
  bool Ran(Access access, bool first) const;
  void FindReaders();
  void BecomeDue(Task task);
  bool FindDue();
  std::span<const Task> FindStratum(uint32_t level);
  void RedoOne(int worker, Task task, Redoer* redoer);

  PlannedBatch& batch_;
  const Graph& graph_;
  OperationMemory& memory_;
  const Policies& policies_;
  const bool chains_;
  const bool optimistic_;  // some transactions are cut
  const bool takes_back_;  // after each stratum
  std::deque<PlannedBatch::Worker> workers_;
  std::vector<Own> own_;      // by worker
  std::vector<Task> fresh_;   // failed in the stratum that is over
  std::vector<Task> misled_;  // they read what was taken back
  bool knows_readers_ = false;
};

}  // namespace morphspark
