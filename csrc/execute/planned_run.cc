#include "execute/planned_run.h"

#include <algorithm>
#include <chrono>

#include "base/stage_clock.h"
#include "execute/adviser.h"
#include "execute/chain_explorer.h"
#include "execute/nested_crews.h"
#include "execute/tickets.h"

namespace morphspark {
namespace {

// Measures what a crew's units take.
class TimedCrew : public Crew {
 public:
  TimedCrew(Crew* crew, int workers) : crew_(crew), seconds_(workers) {}

  void Run(int worker, UnitId unit) override {
    StageClock clock;
    crew_->Run(worker, unit);
    seconds_[worker].value += clock.Lap();
  }
  Chunk chunk() const override { return crew_->chunk(); }
  void EndStratum() override { crew_->EndStratum(); }
  void RunMany(int worker, std::span<const UnitId> units) override {
    StageClock clock;
    crew_->RunMany(worker, units);
    seconds_[worker].value += clock.Lap();
  }
  double seconds() const {
    double sum = 0;
    for (const Spent& one : seconds_) sum += one.value;
    return sum;
  }

 private:
  struct alignas(64) Spent {
    double value = 0;
  };
  Crew* crew_;
  std::vector<Spent> seconds_;
};

// Are units of the strategy parts of transactions?
bool RunsInParts(const Strategy& strategy, std::span<const Strategy> nested) {
  return strategy.scheme == Scheme::kTstream || strategy.cuts() ||
         (strategy.scheme == Scheme::kNested && std::ranges::any_of(nested, &Strategy::cuts));
}

}  // namespace

void BatchReport::Add(const BatchReport& other) {
  transactions += other.transactions;
  aborted += other.aborted;
  predicted += other.predicted;
  seconds += other.seconds;
  accesses += other.accesses;
  dependencies += other.dependencies;
  redone += other.redone;
  levels += other.levels;
  units += other.units;
  plan += other.plan;
  construct += other.construct;
  explore += other.explore;
  waiting += other.waiting;
  useful += other.useful;
  redo += other.redo;
  install += other.install;
  graph_bytes = std::max(graph_bytes, other.graph_bytes);
  version_bytes = std::max(version_bytes, other.version_bytes);
}

Status PlannedRun::Run(Strategy strategy, const Input& input, ThreadPool* pool, Verdicts* verdicts,
                       BatchReport* report) {
  StageClock clock;
  planner_.Plan(input.plan, input.begin, input.end, pool, &graph_);
  report->plan = clock.Lap();
  versions_.Prepare(&graph_, input.plan.order, input.context.times, input.first_stamp);
  report->construct = clock.Lap();
  BatchContext context = input.context;
  context.rows = graph_.rows;
  PlannedBatch batch(context, input.plan.order, input.plan.transactions, graph_, &versions_, verdicts);
  Explore(strategy, input, pool, &batch, report);
  clock.Lap();
  MORPHSPARK_RETURN_IF_ERROR(batch.Finish());
  versions_.Install();
  report->install = clock.Lap();
  report->accesses = graph_.accesses();
  report->graph_bytes = GraphBytes();
  report->version_bytes = versions_.bytes();
  return Status::Ok();
}

void PlannedRun::Explore(const Strategy& strategy, const Input& input, ThreadPool* pool, PlannedBatch* batch,
                         BatchReport* report) {
  const int workers = input.workers;
  ThreadPool* const redo_pool = input.interleaving ? nullptr : pool;
  StageClock clock;
  std::deque<TimedCrew> timed;
  // What explorers call instead of a crew.
  const auto watched = [&](Crew* crew) -> Crew* { return input.observe ? &timed.emplace_back(crew, workers) : crew; };
  const auto drive = [&](const std::unique_ptr<Explorer>& explorer) {
    report->construct += clock.Lap();
    if (input.interleaving) {
      DriveSeeded(explorer.get(), workers, *input.interleaving);
    } else {
      report->waiting += Drive(explorer.get(), workers, pool, input.poll, [&] { batch->Cancel(); });
    }
    report->explore += clock.Lap();
    for (const TimedCrew& one : timed) report->useful += one.seconds();
    timed.clear();
  };
  const auto run_transactions = [&](Exploration exploration, Crew* crew) {
    UnitsOfTransactions(graph_, &units_);
    report->plan += clock.Lap();
    report->dependencies = units_.first[units_.units];
    report->units = units_.units;
    drive(MakeExplorer(exploration, units_, watched(crew), workers, &explorer_memory_));
    if (exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
  };
  const auto count_units = [&](const UnitGraph& units) {
    report->dependencies = units.first[units.units];
    report->units = units.units;
  };

  // Who roams must find everything before it settled. A window depends on all writes of its rows that are before it,
  // and with operations as units one of them may be taken back that only a later one has read. So nothing runs in
  // parts.
  const bool whole = !graph_.roamers.empty() || graph_.reads_windows;
  if (whole && RunsInParts(strategy, input.nested)) report->why = static_cast<uint32_t>(Why::kWhole);
  if (whole && (strategy.scheme == Scheme::kTstream || strategy.cuts())) {
    report->strategy.scheme = Scheme::kExplore;
    report->strategy.unit = Unit::kTransaction;
    TransactionCrew crew(batch, workers);
    run_transactions(strategy.exploration, &crew);
  } else if (strategy.scheme == Scheme::kTstream) {
    const Policies policies(Strategy{.unit = Unit::kOperation});
    OperationCrew crew(batch, policies, /*strata=*/false, workers, &operation_memory_);
    const OperationGraph& operations = operation_memory_.graph;
    FindRawChains(graph_, operations, &operation_memory_.chains);
    report->dependencies = operations.nodes.first[operations.nodes.units];
    report->units = operation_memory_.chains.rows;
    drive(MakeChainExplorer(operations, operation_memory_.chains, watched(&crew), workers, &explorer_memory_));
    if (!crew.failed() || batch->stopped()) return;
    // An abort redoes the batch, now by whole transactions, which need no second redo.
    const double explored = report->explore;
    batch->Reset();
    TransactionCrew whole(batch, workers);
    run_transactions(Exploration::kBfs, &whole);
    report->redo = report->explore - explored;
    report->explore = explored;
    report->redone = graph_.tasks;
  } else if (strategy.scheme == Scheme::kNested) {
    std::vector<Strategy> by_type(input.nested.begin(), input.nested.end());
    for (Strategy& one : by_type) {
      if (whole && one.cuts()) one.unit = Unit::kTransaction;
    }
    const Policies policies(std::move(by_type));
    NestedCrews crews(batch, policies, workers, input.lanes_min, &operation_memory_, &lane_memory_,
                      &nest_memory_.group_of);
    count_units(crews.operations().units());
    std::vector<Nest::Member> members(crews.members().begin(), crews.members().end());
    for (Nest::Member& member : members) member.crew = watched(member.crew);
    drive(std::make_unique<Nest>(crews.operations().units(), members, workers, &nest_memory_));
    report->levels = nest_memory_.strata.levels();
    report->redone = crews.operations().Redo(redo_pool);
    report->redo = clock.Lap();
  } else if (strategy.scheme == Scheme::kNolock) {
    versions_.StartFromTables();
    TransactionCrew crew(batch, workers);
    report->units = graph_.tasks;
    drive(MakeFreeExplorer(graph_.tasks, watched(&crew)));
  } else if (strategy.scheme != Scheme::kExplore) {
    TransactionCrew crew(batch, workers);
    report->units = graph_.tasks;
    drive(MakeTicketExplorer(strategy.scheme, graph_, watched(&crew), workers));
  } else if (strategy.cuts()) {
    const Policies policies(strategy);
    OperationCrew crew(batch, policies, strategy.exploration == Exploration::kBfs, workers, &operation_memory_);
    count_units(crew.units());
    drive(MakeExplorer(strategy.exploration, crew.units(), watched(&crew), workers, &explorer_memory_));
    if (strategy.exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
    report->redone = crew.Redo(redo_pool);
    report->redo = clock.Lap();
  } else if (strategy.unit == Unit::kStratum) {
    LaneCrew crew(batch, workers, input.lanes_min, &lane_memory_);
    run_transactions(strategy.exploration, &crew);
  } else {
    TransactionCrew crew(batch, workers);
    run_transactions(strategy.exploration, &crew);
  }
}

uint64_t PlannedRun::GraphBytes() const {
  uint64_t bytes = graph_.bytes() + planner_.bytes() + units_.bytes() + explorer_memory_.bytes() +
                   operation_memory_.bytes() + nest_memory_.bytes();
  for (const LaneMemory& one : lane_memory_) bytes += one.bytes();
  return bytes;
}

}  // namespace morphspark
