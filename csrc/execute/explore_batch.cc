#include "execute/explore_batch.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/stage_clock.h"
#include "execute/adviser.h"
#include "execute/nested_crews.h"
#include "execute/onlookers.h"

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
  void Held(int worker) override { crew_->Held(worker); }
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

class BatchExploration {
 public:
  BatchExploration(const BatchInput& input, ThreadPool* pool, PlannedBatch* batch, ExploreMemory* memory,
                   BatchReport* report)
      : input_(input),
        pool_(pool),
        batch_(batch),
        graph_(batch->graph()),
        memory_(*memory),
        report_(report),
        workers_(input.workers) {}

  void Run(const Strategy& strategy) {
    // Who roams must find everything before it settled. A window depends on all writes of its rows that are before it,
    // and with operations as units one of them may be taken back that only a later one has read. A function may not
    // bear what is taken back. So nothing runs in parts.
    const bool whole = !graph_.roamers.empty() || graph_.reads_windows || input_.plan.code.calls_functions();
    if (whole && RunsInParts(strategy, input_.nested)) report_->why = static_cast<uint32_t>(Why::kWhole);
    if (whole && (strategy.scheme == Scheme::kTstream || strategy.cuts())) {
      report_->strategy = InWhole(strategy);
      TransactionCrew crew(batch_, workers_);
      return Transactions(strategy.exploration, &crew);
    }
    switch (strategy.scheme) {
      case Scheme::kTstream:
        return Tstream();
      case Scheme::kNested:
        return Nested(whole);
      case Scheme::kNolock:
        return Nolock();
      case Scheme::kLock:
      case Scheme::kMvlk:
      case Scheme::kPat:
        return Tickets(strategy.scheme);
      case Scheme::kSerial:  // needs no graph
      case Scheme::kExplore:
        break;
    }
    assert(strategy.scheme == Scheme::kExplore);
    if (strategy.cuts()) return Parts(strategy);
    if (strategy.unit == Unit::kStratum) {
      LaneCrew crew(batch_, workers_, input_.lanes_min, &memory_.lanes);
      return Transactions(strategy.exploration, &crew);
    }
    TransactionCrew crew(batch_, workers_, report_->chunk);
    Transactions(strategy.exploration, &crew);
  }

 private:
  // Whole transactions are the units.
  void Transactions(Exploration exploration, Crew* crew) {
    UnitsOfTransactions(graph_, &memory_.units);
    report_->plan += clock_.Lap();
    Count(memory_.units);
    Drive(MakeExplorer(exploration, memory_.units, Watched(crew), workers_, &memory_.explorer));
    if (exploration != Exploration::kNs) report_->levels = memory_.explorer.strata.levels();
  }

  // Operations are, or chains of them.
  void Parts(const Strategy& strategy) {
    const Policies policies(strategy);
    PlanOperations(policies);
    OperationCrew crew(batch_, policies, strategy.exploration == Exploration::kBfs, workers_, &memory_.operations);
    Count(crew.units());
    Drive(MakeExplorer(strategy.exploration, crew.units(), Watched(&crew), workers_, &memory_.explorer));
    if (strategy.exploration != Exploration::kNs) report_->levels = memory_.explorer.strata.levels();
    Redo(&crew);
    report_->transitions = crew.Made();
  }

  void Nested(bool whole) {
    std::vector<Strategy> by_type(input_.nested.begin(), input_.nested.end());
    for (Strategy& one : by_type) {
      if (whole && one.cuts()) one.unit = Unit::kTransaction;
    }
    const Policies policies(std::move(by_type));
    PlanOperations(policies);
    NestedCrews crews(batch_, policies, workers_, input_.lanes_min, &memory_.operations, &memory_.lanes,
                      &memory_.nest.group_of);
    OperationCrew& operations = crews.operations();
    Count(operations.units());
    std::vector<Nest::Member> members(crews.members().begin(), crews.members().end());
    for (Nest::Member& member : members) member.crew = Watched(member.crew);
    Drive(std::make_unique<Nest>(operations.units(), members, workers_, &memory_.nest));
    report_->levels = memory_.nest.strata.levels();
    Redo(&operations);
    if (operations.optimistic()) report_->transitions = operations.Made();
  }

  void Tstream() {
    const Policies policies(Strategy{.unit = Unit::kOperation});
    PlanOperations(policies);
    OperationCrew crew(batch_, policies, /*strata=*/false, workers_, &memory_.operations);
    const OperationGraph& operations = memory_.operations.graph;
    ChainGraph& chains = memory_.operations.chains;
    FindRawChains(graph_, operations, &chains);
    report_->dependencies = operations.nodes.first[operations.nodes.units];
    report_->units = chains.rows;
    Drive(MakeChainExplorer(operations, chains, Watched(&crew), workers_, &memory_.chains));
    report_->transitions = crew.Made();
    if (!crew.failed() || batch_->stopped()) return;
    // An abort redoes the batch, now by whole transactions, which need no second redo. All of that is redoing.
    BatchReport again;
    BatchReport* const told = std::exchange(report_, &again);
    batch_->Reset();
    TransactionCrew whole(batch_, workers_);
    Transactions(Exploration::kBfs, &whole);
    report_ = told;
    if (!batch_->stopped()) crew.RanAgain();
    report_->transitions = crew.Made();
    report_->redo = again.plan + again.construct + again.explore + clock_.Lap();
    report_->redone = graph_.tasks;
  }

  void Tickets(Scheme scheme) {
    TransactionCrew crew(batch_, workers_);
    report_->units = graph_.tasks;
    Drive(MakeTicketExplorer(scheme, graph_, Watched(&crew), workers_, &memory_.tickets));
  }

  void Nolock() {
    batch_->versions()->StartFromTables();
    TransactionCrew crew(batch_, workers_);
    report_->units = graph_.tasks;
    Drive(MakeFreeExplorer(graph_.tasks, Watched(&crew), workers_));
  }

  void PlanOperations(const Policies& policies) {
    std::vector<const Operations*>& cuts = memory_.operations.graph.cuts;
    cuts.assign(input_.plan.code.transactions.size(), nullptr);
    for (size_t type = 0; type < cuts.size(); ++type) {
      const Operations& operations = *input_.plan.code.transactions[type].operations;
      if (policies.Of(static_cast<TransactionId>(type)).cuts() && !operations.list.empty()) cuts[type] = &operations;
    }
    FindOperations(graph_, pool_, &memory_.operations.graph);
    report_->plan += clock_.Lap();
  }

  void Count(const UnitGraph& units) {
    report_->dependencies = units.first[units.units];
    report_->units = units.units;
  }

  // What explorers call instead of a crew.
  Crew* Watched(Crew* crew) { return input_.observe ? &timed_.emplace_back(crew, workers_) : crew; }

  // All units; then the onlookers, which wait for all others.
  void Drive(const std::unique_ptr<Explorer>& explorer) {
    DriveOne(explorer);
    if (graph_.onlookers.empty()) return;
    BatchContext context = batch_->context();
    context.rows = input_.plan.slots;
    OnlookerCrew crew(batch_, context, workers_);
    DriveOne(MakeFreeExplorer(static_cast<UnitId>(graph_.onlookers.size()), Watched(&crew), workers_));
  }

  void DriveOne(const std::unique_ptr<Explorer>& explorer) {
    report_->construct += clock_.Lap();
    if (input_.interleaving) {
      DriveSeeded(explorer.get(), workers_, *input_.interleaving);
    } else {
      report_->waiting += morphspark::Drive(explorer.get(), workers_, pool_, input_.poller);
    }
    report_->explore += clock_.Lap();
    for (const TimedCrew& one : timed_) report_->useful += one.seconds();
    timed_.clear();
  }

  void Redo(OperationCrew* crew) {
    report_->redone = crew->Redo(input_.interleaving ? nullptr : pool_);
    report_->redo = clock_.Lap();
    assert(batch_->stopped() || crew->Validate());
  }

  const BatchInput& input_;
  ThreadPool* const pool_;
  PlannedBatch* const batch_;
  const Graph& graph_;
  ExploreMemory& memory_;
  BatchReport* report_;
  const int workers_;
  StageClock clock_;
  std::deque<TimedCrew> timed_;
};

}  // namespace

uint64_t ExploreMemory::bytes() const {
  uint64_t bytes =
      units.bytes() + explorer.bytes() + operations.bytes() + nest.bytes() + tickets.bytes() + chains.bytes();
  for (const LaneMemory& one : lanes) bytes += one.bytes();
  return bytes;
}

bool RunsInParts(const Strategy& strategy, std::span<const Strategy> nested) {
  return strategy.scheme == Scheme::kTstream || strategy.cuts() ||
         (strategy.scheme == Scheme::kNested && std::ranges::any_of(nested, &Strategy::cuts));
}

Strategy InWhole(Strategy strategy) {
  if (strategy.scheme == Scheme::kTstream || strategy.cuts()) {
    strategy.scheme = Scheme::kExplore;
    strategy.unit = Unit::kTransaction;
  }
  return strategy;
}

void ExploreBatch(const Strategy& strategy, const BatchInput& input, ThreadPool* pool, PlannedBatch* batch,
                  ExploreMemory* memory, BatchReport* report) {
  BatchExploration(input, pool, batch, memory, report).Run(strategy);
}

}  // namespace morphspark
