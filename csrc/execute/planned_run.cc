#include "execute/planned_run.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/stage_clock.h"
#include "execute/adviser.h"
#include "execute/nested_crews.h"
#include "execute/onlookers.h"
#include "execute/repair.h"

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

// Onlookers have added up versions that are kept only if the batch ends well.
class KeptSums {
 public:
  explicit KeptSums(std::span<const std::unique_ptr<Table>> tables) : tables_(tables) {}
  ~KeptSums() {
    for (const auto& table : tables_) {
      if (!well_ && table->history() != nullptr) table->history()->ForgetSums();
    }
  }
  KeptSums(const KeptSums&) = delete;
  KeptSums& operator=(const KeptSums&) = delete;
  void EndsWell() { well_ = true; }

 private:
  const std::span<const std::unique_ptr<Table>> tables_;
  bool well_ = false;
};

}  // namespace

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

void BatchReport::Add(const BatchReport& other) {
  transactions += other.transactions;
  aborted += other.aborted;
  not_due += other.not_due;
  predicted += other.predicted;
  seconds += other.seconds;
  accesses += other.accesses;
  dependencies += other.dependencies;
  redone += other.redone;
  for (size_t number = 0; number < transitions.size(); ++number) transitions[number] += other.transitions[number];
  onlookers += other.onlookers;
  followed += other.followed;
  levels += other.levels;
  units += other.units;
  plan += other.plan;
  construct += other.construct;
  workers = std::max(workers, other.workers);
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
  const bool looks = Foreseer::CanLook(input.plan.code);
  const Lookahead::Way way = looks ? lookahead_.Next() : Lookahead::Way::kRoam;
  for (int64_t begin = input.begin; begin < input.end;) {
    BatchReport piece;
    piece.strategy = report->strategy;
    piece.why = report->why;
    piece.chunk = report->chunk;
    MORPHSPARK_RETURN_IF_ERROR(RunPiece(strategy, input, way, &begin, pool, verdicts, &piece));
    report->strategy = piece.strategy;  // another one where transactions must run as a whole
    report->why = piece.why;
    report->Add(piece);
  }
  return Status::Ok();
}

Status PlannedRun::RunPiece(const Strategy& strategy, const Input& input, Lookahead::Way way, int64_t* begin,
                            ThreadPool* pool, Verdicts* verdicts, BatchReport* report) {
  StageClock clock;
  report->workers = input.interleaving ? 1 : input.workers;
  int64_t end = input.end;
  const std::vector<uint8_t> onlooker = FindOnlookers(input.plan.code, strategy);
  Plan(input, onlooker, way, *begin, &end, pool);
  if (input.poller->cancelled()) return CancelledStatus();
  report->plan = clock.Lap();
  versions_.Prepare(&graph_, input.plan.order, input.context.times, input.first_stamp);
  report->construct = clock.Lap();
  BatchContext context = input.context;
  context.rows = graph_.rows;
  context.door = nullptr;  // open while it explores: nothing is written to the tables
  TableDoor* const door = input.context.door;
  PlannedBatch batch(context, input.plan.order, input.plan.transactions, graph_, &versions_, verdicts, door,
                     input.poller);
  KeptSums sums(input.context.tables);
  Explore(strategy, input, pool, &batch, report);
  clock.Lap();
  const auto unforeseen = std::ranges::count_if(graph_.foreseen, [&](Task task) { return batch.Unforeseen(task); });
  if (unforeseen > 0) {
    const Repaired repaired = Repair(&batch, &planner_);
    report->redone += repaired.transactions;
    report->followed = repaired.followed;
    report->redo += clock.Lap();
  }
  batch.Settle();
  if (way == Lookahead::Way::kTrust)
    lookahead_.Learn(std::max<int64_t>(static_cast<int64_t>(CountDoubtful()), unforeseen), unforeseen);
  if (way == Lookahead::Way::kCut) {
    if (end < input.end) lookahead_.Cut(end - *begin);
    lookahead_.Ran(static_cast<int64_t>(graph_.foreseen.size()), unforeseen);
  }
  MORPHSPARK_RETURN_IF_ERROR(batch.Finish());
  {
    const TableDoor::Writing writing(door);
    versions_.Install();
  }
  sums.EndsWell();
  report->install = clock.Lap();
  report->accesses = graph_.accesses();
  report->onlookers = static_cast<int64_t>(graph_.onlookers.size());
  report->graph_bytes = GraphBytes();
  report->version_bytes = versions_.bytes();
  *begin = end;
  return Status::Ok();
}

void PlannedRun::Plan(const Input& input, std::span<const uint8_t> onlooker, Lookahead::Way way, int64_t begin,
                      int64_t* end, ThreadPool* pool) {
  PlanInput plan = input.plan;
  plan.onlooker = onlooker;
  if (way == Lookahead::Way::kCut) *end = std::min(*end, begin + lookahead_.Reach());
  foreseen_ = way == Lookahead::Way::kRoam ? nullptr : LookAhead(input, begin, *end, pool);
  plan.foreseen = foreseen_;
  if (input.poller->cancelled()) return;
  planner_.Plan(plan, begin, *end, pool, &graph_);
  if (way != Lookahead::Way::kCut) return;
  if (!remembered_.empty() && !foreseen_->tasks.empty() && foreseen_->tasks[0] == 0) {
    const auto rows = foreseen_->RowsAt(0);
    lookahead_.Learn(1, !std::ranges::equal(rows, remembered_, {}, &ForeseenRow::slot, &ForeseenRow::slot));
  }
  remembered_.clear();
  for (size_t place = 0; place < foreseen_->tasks.size(); ++place) {
    if (!Doubtful(place)) continue;
    const auto rows = foreseen_->RowsAt(place);
    remembered_.assign(rows.begin(), rows.end());
    *end = begin + foreseen_->tasks[place];
    foreseen_->Cut(place);
    return planner_.Plan(plan, begin, *end, pool, &graph_);
  }
}

Foreseen* PlannedRun::LookAhead(const Input& input, int64_t begin, int64_t end, ThreadPool* pool) {
  BatchContext context = input.context;
  context.door = nullptr;  // open while many threads look, which may call functions of the user's
  return foreseer_.Look(input.plan, context, begin, end, pool, input.context.door, input.poller);
}

// Whether an earlier transaction may write a row that its keys depend on. Of a row that is not there yet nobody knows
// which of those that it names it is.
bool PlannedRun::Doubtful(size_t place) {
  const Task task = foreseen_->tasks[place];
  const Access begin = graph_.first[task], end = graph_.first[task + 1];
  const auto changes = [&](Access access) { return graph_.previous[access] != kBase; };
  Access access = begin;
  while (access < end && !changes(access)) ++access;
  if (access == end) return false;
  changing_.Clear(2 * (end - access));
  for (; access < end; ++access) {
    if (!changes(access)) continue;
    changing_.Add(graph_.table[access], graph_.slot[access], access);
    changing_.Add(graph_.table[access], kNoSlot, access);
  }
  return std::ranges::any_of(foreseen_->ReadsAt(place),
                             [&](const ReadRow& read) { return changing_.Find(read.table, read.slot) != kBase; });
}

size_t PlannedRun::CountDoubtful() {
  size_t count = 0;
  for (size_t place = 0; place < foreseen_->tasks.size(); ++place) count += Doubtful(place);
  return count;
}

void PlannedRun::Explore(const Strategy& strategy, const Input& input, ThreadPool* pool, PlannedBatch* batch,
                         BatchReport* report) {
  const int workers = input.workers;
  ThreadPool* const redo_pool = input.interleaving ? nullptr : pool;
  StageClock clock;
  BatchReport again;  // where tstream does all a second time
  std::deque<TimedCrew> timed;
  // What explorers call instead of a crew.
  const auto watched = [&](Crew* crew) -> Crew* { return input.observe ? &timed.emplace_back(crew, workers) : crew; };
  const auto drive_one = [&](const std::unique_ptr<Explorer>& explorer) {
    report->construct += clock.Lap();
    if (input.interleaving) {
      DriveSeeded(explorer.get(), workers, *input.interleaving);
    } else {
      report->waiting += Drive(explorer.get(), workers, pool, input.poller);
    }
    report->explore += clock.Lap();
    for (const TimedCrew& one : timed) report->useful += one.seconds();
    timed.clear();
  };
  const auto drive = [&](const std::unique_ptr<Explorer>& explorer) {
    drive_one(explorer);
    if (graph_.onlookers.empty()) return;
    BatchContext context = batch->context();
    context.rows = input.plan.slots;
    OnlookerCrew crew(batch, context, workers);
    drive_one(MakeFreeExplorer(static_cast<UnitId>(graph_.onlookers.size()), watched(&crew), workers));
  };
  const auto run_transactions = [&](Exploration exploration, Crew* crew) {
    UnitsOfTransactions(graph_, &units_);
    report->plan += clock.Lap();
    report->dependencies = units_.first[units_.units];
    report->units = units_.units;
    drive(MakeExplorer(exploration, units_, watched(crew), workers, &explorer_memory_));
    if (exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
  };
  const auto plan_operations = [&](const Policies& policies) {
    std::vector<const Operations*>& cuts = operation_memory_.graph.cuts;
    cuts.assign(input.plan.code.transactions.size(), nullptr);
    for (size_t type = 0; type < cuts.size(); ++type) {
      const Operations& operations = *input.plan.code.transactions[type].operations;
      if (policies.Of(static_cast<TransactionId>(type)).cuts() && !operations.list.empty()) cuts[type] = &operations;
    }
    FindOperations(graph_, pool, &operation_memory_.graph);
    report->plan += clock.Lap();
  };
  const auto count_units = [&](const UnitGraph& units) {
    report->dependencies = units.first[units.units];
    report->units = units.units;
  };

  // Who roams must find everything before it settled. A window depends on all writes of its rows that are before it,
  // and with operations as units one of them may be taken back that only a later one has read. A function may not bear
  // what is taken back. So nothing runs in parts.
  const bool whole = !graph_.roamers.empty() || graph_.reads_windows || input.plan.code.calls_functions();
  if (whole && RunsInParts(strategy, input.nested)) report->why = static_cast<uint32_t>(Why::kWhole);
  if (whole && (strategy.scheme == Scheme::kTstream || strategy.cuts())) {
    report->strategy = InWhole(strategy);
    TransactionCrew crew(batch, workers);
    run_transactions(strategy.exploration, &crew);
  } else if (strategy.scheme == Scheme::kTstream) {
    const Policies policies(Strategy{.unit = Unit::kOperation});
    plan_operations(policies);
    OperationCrew crew(batch, policies, /*strata=*/false, workers, &operation_memory_);
    const OperationGraph& operations = operation_memory_.graph;
    FindRawChains(graph_, operations, &operation_memory_.chains);
    report->dependencies = operations.nodes.first[operations.nodes.units];
    report->units = operation_memory_.chains.rows;
    drive(MakeChainExplorer(operations, operation_memory_.chains, watched(&crew), workers, &chain_memory_));
    report->transitions = crew.Made();
    if (!crew.failed() || batch->stopped()) return;
    // An abort redoes the batch, now by whole transactions, which need no second redo. All of that is redoing.
    BatchReport* const told = std::exchange(report, &again);
    batch->Reset();
    TransactionCrew crew_of_whole(batch, workers);
    run_transactions(Exploration::kBfs, &crew_of_whole);
    report = told;
    if (!batch->stopped()) crew.RanAgain();
    report->transitions = crew.Made();
    report->redo = again.plan + again.construct + again.explore + clock.Lap();
    report->redone = graph_.tasks;
  } else if (strategy.scheme == Scheme::kNested) {
    std::vector<Strategy> by_type(input.nested.begin(), input.nested.end());
    for (Strategy& one : by_type) {
      if (whole && one.cuts()) one.unit = Unit::kTransaction;
    }
    const Policies policies(std::move(by_type));
    plan_operations(policies);
    NestedCrews crews(batch, policies, workers, input.lanes_min, &operation_memory_, &lane_memory_,
                      &nest_memory_.group_of);
    count_units(crews.operations().units());
    std::vector<Nest::Member> members(crews.members().begin(), crews.members().end());
    for (Nest::Member& member : members) member.crew = watched(member.crew);
    drive(std::make_unique<Nest>(crews.operations().units(), members, workers, &nest_memory_));
    report->levels = nest_memory_.strata.levels();
    report->redone = crews.operations().Redo(redo_pool);
    if (crews.operations().optimistic()) report->transitions = crews.operations().Made();
    report->redo = clock.Lap();
    assert(batch->stopped() || crews.operations().Validate());
  } else if (strategy.scheme == Scheme::kNolock) {
    versions_.StartFromTables();
    TransactionCrew crew(batch, workers);
    report->units = graph_.tasks;
    drive(MakeFreeExplorer(graph_.tasks, watched(&crew), workers));
  } else if (strategy.scheme != Scheme::kExplore) {
    TransactionCrew crew(batch, workers);
    report->units = graph_.tasks;
    drive(MakeTicketExplorer(strategy.scheme, graph_, watched(&crew), workers, &ticket_memory_));
  } else if (strategy.cuts()) {
    const Policies policies(strategy);
    plan_operations(policies);
    OperationCrew crew(batch, policies, strategy.exploration == Exploration::kBfs, workers, &operation_memory_);
    count_units(crew.units());
    drive(MakeExplorer(strategy.exploration, crew.units(), watched(&crew), workers, &explorer_memory_));
    if (strategy.exploration != Exploration::kNs) report->levels = explorer_memory_.strata.levels();
    report->redone = crew.Redo(redo_pool);
    report->transitions = crew.Made();
    report->redo = clock.Lap();
    assert(batch->stopped() || crew.Validate());
  } else if (strategy.unit == Unit::kStratum) {
    LaneCrew crew(batch, workers, input.lanes_min, &lane_memory_);
    run_transactions(strategy.exploration, &crew);
  } else {
    TransactionCrew crew(batch, workers, report->chunk);
    run_transactions(strategy.exploration, &crew);
  }
}

uint64_t PlannedRun::GraphBytes() const {
  uint64_t bytes = graph_.bytes() + planner_.bytes() + units_.bytes() + explorer_memory_.bytes() +
                   operation_memory_.bytes() + nest_memory_.bytes() + ticket_memory_.bytes() + chain_memory_.bytes();
  for (const LaneMemory& one : lane_memory_) bytes += one.bytes();
  return bytes;
}

}  // namespace morphspark
