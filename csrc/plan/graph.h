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
// A transaction that computes keys (from state, say) names rows only when it runs. Most of these rows can be foreseen
// (execute/foresee.h): they are accesses like all others, behind those of its sites. If it then names another row, it
// stops, and is put right after all others have run: execute/repair.h.
//
// Where that happens too often, it *roams*: it is ordered against everybody, so it waits for all transactions before
// it, and those behind it wait for it. There is no list of such operations in every row: `roamer` says for each
// transaction which one was the last before it. While it runs nobody else does, so it may add accesses of its own to
// the graph: see PlannedRows::Find.
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
#include "plan/foreseen.h"
#include "plan/order.h"
#include "plan/row_uses.h"
#include "program/code.h"
#include "state/table.h"

namespace morphspark {

struct Graph {
  static constexpr uint8_t kWrites = 1;
  static constexpr uint8_t kSuperseded = 2;  // a later access of the batch writes the row, too
  static constexpr uint8_t kHole = 4;        // no access after all: a null key, or
  static constexpr uint8_t kAlias = 8;       // the same row as an earlier access of its transaction
  static constexpr uint8_t kRoams = 16;      // its transaction roams, and may write it though that was not planned

  int64_t begin = 0;  // position of the first transaction
  Task tasks = 0;

  Scratch<Access> first;        // by task, and one more: its accesses are [first[t], first[t + 1])
  Scratch<Slot> slot;           // by access
  Scratch<Task> owner;          // by access
  Scratch<uint16_t> table;      // by access
  Scratch<uint8_t> flags;       // by access
  Scratch<Access> previous;     // by access; kBase: no earlier write in this batch
  Scratch<Access> earlier;      // by access: the latest earlier access of its row, kBase: it is the first
  Scratch<TransactionId> type;  // by task; kUnmatched: nothing runs
  Scratch<uint8_t> aliased;     // by task: two of its sites name one row
  Scratch<Task> grouped;        // by part of kPart tasks: its tasks by type, then those that run nothing
  Scratch<uint32_t> groups;     // by part and type: where its tasks begin in `grouped`
  uint32_t types = 0;
  std::vector<std::vector<RowHandle>> rows;  // by site: the access, or kNullKey; as BatchContext::rows
  std::vector<Task> roamers;                 // transactions that compute keys, in order
  Scratch<Task> roamer;                      // by task: the last of them before it, or kNobody; if there are any
  std::vector<Task> foreseen;                // transactions that compute keys and don't roam, in order

  bool reads_windows = false;     // one of its transactions does
  std::vector<Task> onlookers;    // in order; they have no accesses: see execute/onlookers.h
  std::vector<uint8_t> onlooker;  // by type; empty: none is one

  static constexpr Task kNobody = 0xFFFFFFFFu;

  // Threads share a batch in parts. In each the transactions of a type are looked at together: planning does the same
  // to all of them, so its loops have no surprises for the processor.
  static constexpr Task kPart = 1 << 12;
  uint32_t parts() const { return (tasks + kPart - 1) / kPart; }
  Task PartBegin(uint32_t part) const { return part * kPart; }
  Task PartEnd(uint32_t part) const { return std::min(tasks, (part + 1) * kPart); }
  // Those of a part that have a type; `types` stands for none.
  std::span<const Task> Group(uint32_t part, uint32_t type) const {
    const uint32_t* const begin = groups.data() + uint64_t{part} * (types + 2) + type;
    return {grouped.data() + begin[0], grouped.data() + begin[1]};
  }
  // Those that planning found; what roaming transactions add is numbered from there.
  Access accesses() const { return tasks == 0 ? 0 : first[tasks]; }
  // Those that are none after all left out.
  int64_t CountOperations() const {
    return std::ranges::count_if(flags.begin(), flags.begin() + accesses(), [](uint8_t one) { return !(one & kHole); });
  }
  bool onlooks(Task task) const { return !onlooker.empty() && type[task] != kUnmatched && onlooker[type[task]]; }
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
  // What each access waits for is an earlier write of its row, by an earlier transaction; accesses belong to the
  // transaction that they are listed with.
  bool Validate() const;
};

// Gives every row of the batch a number, in order of first use: by access, but for holes; how many there are.
uint32_t NumberRows(const Graph& graph, Scratch<uint32_t>* numbers);

// What planning needs to know of an epoch.
struct PlanInput {
  const Code& code;
  std::span<const ColumnView> columns;
  const Order& order;
  std::span<const TransactionId> transactions;  // by batch row
  std::span<const std::vector<Slot>> slots;     // by site
  const Foreseen* foreseen = nullptr;           // null: transactions that compute keys roam
  std::span<const uint8_t> onlooker = {};       // by type: those that shall have no accesses; empty: all have some
};

class Planner {
 public:
  explicit Planner(std::span<const std::unique_ptr<Table>> tables) : tables_(tables), last_(tables.size()) {}

  // Plans the transactions at positions [begin, end).
  void Plan(const PlanInput& input, int64_t begin, int64_t end, ThreadPool* pool, Graph* graph);

  // What follows is about the graph that was planned last.
  //
  // The last write of a row; kBase: there is none.
  Access LastWrite(const Graph& graph, TableId table, Slot slot) const {
    if (slot >= last_[table].size()) return kBase;  // a key that is new
    const uint32_t base = base_ - graph.accesses(), write = last_[table][slot].write;
    return write < base ? kBase : write - base;
  }

  // The rest is for one thread at a time.
  //
  // The latest write of a row by a transaction before this one.
  Access LastWriteBefore(const Graph& graph, TableId table, Slot slot, Task task);
  // The planned uses of a row by transactions behind this one, in order.
  std::span<const Access> UsesBehind(const Graph& graph, TableId table, Slot slot, Task task);

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
  void Sort(const PlanInput& input, uint32_t part, Graph* graph);
  void Fill(const PlanInput& input, ThreadPool* pool, Graph* graph);
  void FillGroup(const PlanInput& input, std::span<const Task> tasks, const TransactionCode& code, Graph* graph);
  void FillForeseen(const PlanInput& input, std::span<const Task> tasks, const TransactionCode& code, Graph* graph);
  void FindRoamers(const PlanInput& input, Graph* graph);
  void FindWindows(const PlanInput& input, Graph* graph);
  void MakeRoom(Access accesses);
  void Link(Graph* graph, uint32_t part, uint32_t parts, std::vector<Alias>* aliases);
  void Redirect(const PlanInput& input, Graph* graph);
  // The latest planned use of a row; kBase: there is none.
  Access LastUse(const Graph& graph, TableId table, Slot slot) const;

  std::span<const std::unique_ptr<Table>> tables_;
  std::vector<std::vector<Last>> last_;      // by table, by slot
  std::vector<Last*> last_of_;               // by table: where its rows begin
  std::vector<std::vector<Alias>> aliases_;  // by part of the rows, while linking
  std::vector<Access> uses_;                 // by type: how many a transaction has; of elements, the rest
  uint32_t base_ = 1;
  RowUses row_uses_;
};

}  // namespace morphspark
