// The task precedence graph of a batch: who must wait for whom.
//
// An *access* is the use of one row by one transaction; all operations of a transaction on that row belong to it, and
// it writes if one of them may. Accesses are numbered in transaction order. Planning has two phases, both parallel:
//
//   1. operations from the program: each transaction's sites, and the elements of its lists, become accesses
//   2. each row's accesses are linked in order: `previous` is the latest earlier write of the row
//
//        t0 ── a0 w row 7                previous[a2] = a0, previous[a3] = a2; t1's read of row 7 waits for t0
//        t1 ── a1 w row 9, a2 w row 7    TD: previous
//        t2 ── a3 r row 7                PD: what one access of a transaction gives another; here both are inside
//                                            one transaction, whose accesses wait together
//                                        LD: accesses of one transaction abort together (owner)
//
// A write waits for the latest earlier write, never for reads: versions serve those. If two sites of a transaction
// name the same row at run time, they are one access: the second is a hole, and its handle leads to the first.
//
// A transaction that computes keys (from state, say) names rows only when it runs: it *roams*. It is ordered against
// all rows that it may touch, which here means against everybody: it waits for all transactions before it, and those
// behind it wait for it. There is no list of such operations in every row: `roamer` says for each transaction which one
// was the last before it. While it runs nobody else does, so it may add accesses of its own to the graph: see
// PlannedRows::Find.
//
// All arrays are flat and reused; nothing is allocated per operation.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/column.h"
#include "base/scratch.h"
#include "base/thread_pool.h"
#include "plan/classify.h"
#include "plan/order.h"
#include "program/code.h"
#include "state/table.h"

namespace morphspark {

using Task = uint32_t;  // a transaction of the batch: its position minus that of the batch's first

struct Graph {
  static constexpr uint8_t kWrites = 1;
  static constexpr uint8_t kSuperseded = 2;  // a later access of the batch writes the row, too
  static constexpr uint8_t kHole = 4;        // no access after all: a null key, or
  static constexpr uint8_t kAlias = 8;       // the same row as an earlier access of its transaction

  int64_t begin = 0;  // position of the first transaction
  Task tasks = 0;

  Scratch<Access> first;                     // by task, and one more: its accesses are [first[t], first[t + 1])
  Scratch<Slot> slot;                        // by access
  Scratch<Task> owner;                       // by access
  Scratch<uint16_t> table;                   // by access
  Scratch<uint8_t> flags;                    // by access
  Scratch<Access> previous;                  // by access; kBase: no earlier write in this batch
  std::vector<std::vector<RowHandle>> rows;  // by site: the access, or kNullKey; as BatchContext::rows
  std::vector<Task> roamers;                 // transactions that compute keys, in order
  Scratch<Task> roamer;                      // by task: the last of them before it, or kNobody; if there are any

  bool reads_windows = false;  // one of its transactions does

  static constexpr Task kNobody = 0xFFFFFFFFu;

  // Those that planning found; what roaming transactions add is numbered from there.
  Access accesses() const { return tasks == 0 ? 0 : first[tasks]; }
  bool roams(Task task) const { return std::ranges::binary_search(roamers, task); }
  // Calls visit(task) for those that a task waits for because one of the two roams.
  template <class Visit>
  void EachRoamingBefore(Task task, Visit visit) const {
    if (roamers.empty()) return;
    if (roamer[task] != kNobody) visit(roamer[task]);
    if (!roams(task)) return;
    for (Task other = roamer[task] == kNobody ? 0 : roamer[task] + 1; other < task; ++other) visit(other);
  }
  uint64_t bytes() const;
};

// What planning needs to know of an epoch.
struct PlanInput {
  const Code& code;
  std::span<const ColumnView> columns;
  const Order& order;
  std::span<const TransactionId> transactions;  // by batch row
  std::span<const std::vector<Slot>> slots;     // by site
};

class Planner {
 public:
  explicit Planner(std::span<const std::unique_ptr<Table>> tables) : tables_(tables), last_(tables.size()) {}

  // Plans the transactions at positions [begin, end).
  void Plan(const PlanInput& input, int64_t begin, int64_t end, ThreadPool* pool, Graph* graph);

  // The latest write of a row by a transaction before this one, of those in the graph that was planned last.
  Access LastWriteBefore(const Graph& graph, TableId table, Slot slot, Task task) const;

  uint64_t bytes() const;

 private:
  // The newest accesses of a row, as numbers since the planner was made; below `base_`: none in this batch.
  struct Last {
    uint32_t any = 0;
    uint32_t write = 0;
  };
  struct Alias {
    Access hole;
    Access kept;
  };

  void Count(const PlanInput& input, ThreadPool* pool, Graph* graph);
  void Fill(const PlanInput& input, ThreadPool* pool, Graph* graph);
  void FindRoamers(const PlanInput& input, Graph* graph);
  void FindWindows(const PlanInput& input, Graph* graph);
  void MakeRoom(Access accesses);
  void Link(Graph* graph, uint32_t part, uint32_t parts, std::vector<Alias>* aliases);
  void Redirect(const PlanInput& input, std::vector<std::vector<Alias>>* parts, Graph* graph);

  std::span<const std::unique_ptr<Table>> tables_;
  std::vector<std::vector<Last>> last_;  // by table, by slot
  uint32_t base_ = 1;
};

}  // namespace morphspark
