#include "execute/planned_run.h"

#include <chrono>

#include "base/stage_clock.h"
#include "execute/chain_explorer.h"
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

}  // namespace

Status PlannedRun::Run(const Strategy& strategy, const Input& input, ThreadPool* pool, Verdicts* verdicts,
                       BatchReport* report) {
  StageClock clock;
  planner_.Plan(input.plan, input.begin, input.end, pool, &graph_);
  report->plan = clock.Lap();
  versions_.Prepare(graph_);
  report->construct = clock.Lap();
  BatchContext context = input.context;
  context.rows = graph_.rows;
  PlannedBatch batch(context, input.plan.order, input.plan.transactions, graph_, &versions_, verdicts);
  Explore(strategy, input, pool, &batch, report);
  clock.Lap();
  MORPHSPARK_RETURN_IF_ERROR(batch.Finish());
  versions_.Install(input.first_stamp);
  report->install = clock.Lap();
  report->accesses = graph_.accesses();
  report->graph_bytes =
      graph_.bytes() + planner_.bytes() + units_.bytes() + explorer_memory_.bytes() + operation_memory_.bytes();
  report->version_bytes = versions_.bytes();
  return Status::Ok();
}

void PlannedRun::Explore(const Strategy& strategy, const Input& input, ThreadPool* pool, PlannedBatch* batch,
                         BatchReport* report) {
  const int workers = input.workers;
  StageClock clock;
  const auto drive = [&](Crew* crew, auto make_explorer) {
    TimedCrew timed(crew, workers);
    const std::unique_ptr<Explorer> explorer = make_explorer(input.observe ? &timed : crew);
    report->construct += clock.Lap();
    if (input.interleaving) {
      DriveSeeded(explorer.get(), workers, *input.interleaving);
    } else {
      report->waiting += Drive(explorer.get(), workers, pool, input.poll, [&] { batch->Cancel(); });
    }
    report->explore += clock.Lap();
    report->useful += timed.seconds();
  };
  const auto run_transactions = [&](Exploration exploration, Crew* crew) {
    UnitsOfTransactions(graph_, &units_);
    report->plan += clock.Lap();
    report->dependencies = units_.first[units_.units];
    report->units = units_.units;
    drive(crew, [&](Crew* one) { return MakeExplorer(exploration, units_, one, workers, &explorer_memory_); });
    if (exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
  };

  if (strategy.scheme == Scheme::kTstream) {
    OperationCrew crew(batch, strategy, workers, &operation_memory_);
    const OperationGraph& operations = operation_memory_.graph;
    FindRawChains(graph_, operations, &operation_memory_.chains);
    report->dependencies = operations.nodes.first[operations.nodes.units];
    report->units = operation_memory_.chains.rows;
    drive(&crew, [&](Crew* one) {
      return MakeChainExplorer(operations, operation_memory_.chains, one, workers, &explorer_memory_);
    });
    if (!crew.failed() || batch->stopped()) return;
    // An abort redoes the batch, now by whole transactions, which need no second redo.
    const double explored = report->explore;
    batch->Reset();
    TransactionCrew whole(batch, workers);
    run_transactions(Exploration::kBfs, &whole);
    report->redo = report->explore - explored;
    report->explore = explored;
    report->redone = graph_.tasks;
  } else if (strategy.scheme != Scheme::kExplore) {
    TransactionCrew crew(batch, workers);
    report->units = graph_.tasks;
    drive(&crew, [&](Crew* one) { return MakeTicketExplorer(strategy.scheme, graph_, one, workers); });
  } else if (strategy.unit == Unit::kOperation || strategy.unit == Unit::kChain) {
    OperationCrew crew(batch, strategy, workers, &operation_memory_);
    report->dependencies = crew.units().first[crew.units().units];
    report->units = crew.units().units;
    drive(&crew,
          [&](Crew* one) { return MakeExplorer(strategy.exploration, crew.units(), one, workers, &explorer_memory_); });
    if (strategy.exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
    report->redone = crew.Redo();
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
  uint64_t bytes =
      graph_.bytes() + planner_.bytes() + units_.bytes() + explorer_memory_.bytes() + operation_memory_.bytes();
  for (const LaneMemory& one : lane_memory_) bytes += one.bytes();
  return bytes;
}

}  // namespace morphspark
