// Explores a batch that is planned, in the way that its strategy names: makes the units, gives them to a crew, and lets
// an explorer find who runs what when; where transactions ran in parts, redoes what must be. One function for each
// scheme.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "execute/batch_report.h"
#include "execute/chain_explorer.h"
#include "execute/explorer.h"
#include "execute/nest.h"
#include "execute/operation_crew.h"
#include "execute/planned_batch.h"
#include "execute/strategy.h"
#include "execute/tickets.h"
#include "plan/graph.h"

namespace morphspark {

struct BatchInput {
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

// Kept from batch to batch.
struct ExploreMemory {
  UnitGraph units;
  ExplorerMemory explorer;
  OperationMemory operations;
  std::deque<LaneMemory> lanes;  // by worker
  NestMemory nest;
  TicketMemory tickets;
  ChainExplorerMemory chains;

  uint64_t bytes() const;
};

// Are units of the strategy parts of transactions?
bool RunsInParts(const Strategy& strategy, std::span<const Strategy> nested);
// What stands in for such a strategy where transactions must run as a whole: see ExploreBatch.
Strategy InWhole(Strategy strategy);

// Says in the report if it could not do what the strategy asks for, and did something else.
void ExploreBatch(const Strategy& strategy, const BatchInput& input, ThreadPool* pool, PlannedBatch* batch,
                  ExploreMemory* memory, BatchReport* report);

}  // namespace morphspark
