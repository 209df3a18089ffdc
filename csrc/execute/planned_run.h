// Runs one batch by its graph: plan → units → explore → redo → install; and says what each part took.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "execute/chain_explorer.h"
#include "execute/cost_model.h"
#include "execute/explorer.h"
#include "execute/foresee.h"
#include "execute/lookahead.h"
#include "execute/nest.h"
#include "execute/operation_crew.h"
#include "execute/planned_batch.h"
#include "execute/strategy.h"
#include "execute/tickets.h"
#include "plan/graph.h"

namespace morphspark {

// What a batch was and took: `seconds` on the clock, in which `workers` threads were its own. What they did:
//
//     plan, construct, install      the graph, what goes with it, and the rest: `seconds` without the next two
//     explore × workers             = useful + waiting + looking for the next unit
//     redo × workers                taking back and running again, and waiting for that
struct BatchReport {
  Strategy strategy;
  int64_t begin = 0, transactions = 0;
  int64_t aborted = 0;
  int64_t not_due = 0;   // firings that were planned and found their windows empty: in `transactions`, in nothing else
  double predicted = 0;  // seconds; 0: no prediction was made
  double seconds = 0;    // from planning to the last version, on the clock; the look before it is in `inputs`
  uint32_t why = 0;      // see adviser.h
  DecisionInputs inputs;
  // Planned batches only:
  int64_t accesses = 0, dependencies = 0, redone = 0;
  Transitions transitions{};  // of operations, where transactions ran in parts
  int64_t onlookers = 0;      // transactions that were not planned
  int64_t followed = 0;       // uses of rows that repairs have looked at
  uint32_t levels = 0, units = 0;
  uint32_t chunk = Crew::kUsualChunk;  // whole transactions that a worker takes at once
  int workers = 1;
  double plan = 0;               // from slots to a complete graph: operations, links, who waits for whom
  double construct = 0;          // units, strata, successors, versions
  double explore = 0;            // on the clock
  double waiting = 0;            // of workers without work, added up
  double useful = 0;             // of workers inside units, added up; 0 unless observed
  double redo = 0, install = 0;  // on the clock
  uint64_t graph_bytes = 0, version_bytes = 0;

  int64_t transition(int number) const { return transitions[number]; }
  // Pieces of an epoch between firings are short and many: those that ran alike are told of together.
  bool RanAs(const BatchReport& other) const { return strategy == other.strategy && why == other.why; }
  void Add(const BatchReport& other);
};

// Are units of the strategy parts of transactions?
bool RunsInParts(const Strategy& strategy, std::span<const Strategy> nested);
// What stands in for such a strategy where transactions must run as a whole: see PlannedRun::Explore.
Strategy InWhole(Strategy strategy);

class PlannedRun {
 public:
  PlannedRun(std::span<const std::unique_ptr<Table>> tables, int workers_max)
      : planner_(tables), versions_(tables, &planner_, workers_max) {}

  struct Input {
    PlanInput plan;
    BatchContext context;  // its rows are replaced by the graph's
    int64_t begin, end;
    Stamp first_stamp;
    int workers;
    std::optional<uint64_t> interleaving;  // see EpochInput
    bool observe = false;                  // time every unit
    uint32_t lanes_min = 0;                // see EpochInput
    Poller* poller;
    std::span<const Strategy> nested = {};  // by type of transaction, for Scheme::kNested
  };
  // Says in the report if it could not do what the strategy asks for, and did something else.
  Status Run(Strategy strategy, const Input& input, ThreadPool* pool, Verdicts* verdicts, BatchReport* report);

 private:
  uint64_t GraphBytes() const;
  void Explore(const Strategy& strategy, const Input& input, ThreadPool* pool, PlannedBatch* batch,
               BatchReport* report);

  // Plans and runs from `begin` on as far as it is planned at once; where that ends.
  Status RunPiece(const Strategy& strategy, const Input& input, Lookahead::Way way, int64_t* begin, ThreadPool* pool,
                  Verdicts* verdicts, BatchReport* report);
  // Plans up to `end`, or to where it is cut. Types that are onlookers get no accesses.
  void Plan(const Input& input, std::span<const uint8_t> onlooker, Lookahead::Way way, int64_t begin, int64_t* end,
            ThreadPool* pool);
  Foreseen* LookAhead(const Input& input, int64_t begin, int64_t end, ThreadPool* pool);
  // Of a transaction that was foreseen, and of how many.
  bool Doubtful(size_t place);
  size_t CountDoubtful();

  Foreseer foreseer_;
  Foreseen* foreseen_ = nullptr;  // null: nobody has looked
  Lookahead lookahead_;
  std::vector<ForeseenRow> remembered_;  // what was thought of the transaction that comes next
  AccessIndex changing_;                 // rows of a transaction that an earlier one may write
  Planner planner_;
  Graph graph_;
  BatchVersions versions_;
  UnitGraph units_;
  ExplorerMemory explorer_memory_;
  OperationMemory operation_memory_;
  std::deque<LaneMemory> lane_memory_;  // by worker
  NestMemory nest_memory_;
  TicketMemory ticket_memory_;
  ChainExplorerMemory chain_memory_;
};

}  // namespace morphspark
