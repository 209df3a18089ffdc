// Runs one batch by its graph: plan → units → explore → redo → install; and says what each part took.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "execute/explore_batch.h"
#include "execute/foresee.h"
#include "execute/lookahead.h"
#include "plan/graph.h"

namespace morphspark {

class PlannedRun {
 public:
  PlannedRun(std::span<const std::unique_ptr<Table>> tables, int workers_max)
      : planner_(tables), versions_(tables, &planner_, workers_max) {}

  // Says in the report if it could not do what the strategy asks for, and did something else.
  Status Run(Strategy strategy, const BatchInput& input, ThreadPool* pool, Verdicts* verdicts, BatchReport* report);

 private:
  // Plans and runs from `begin` on as far as it is planned at once; where that ends.
  Status RunPiece(const Strategy& strategy, const BatchInput& input, Lookahead::Way way, int64_t* begin,
                  ThreadPool* pool, Verdicts* verdicts, BatchReport* report);
  // Plans up to `end`, or to where it is cut. Types that are onlookers get no accesses.
  void Plan(const BatchInput& input, std::span<const uint8_t> onlooker, Lookahead::Way way, int64_t begin, int64_t* end,
            ThreadPool* pool);
  Foreseen* LookAhead(const BatchInput& input, int64_t begin, int64_t end, ThreadPool* pool);
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
  ExploreMemory explore_memory_;
};

}  // namespace morphspark
