#include "execute/planned_run.h"

#include <algorithm>

#include "base/stage_clock.h"
#include "execute/onlookers.h"
#include "execute/repair.h"

namespace morphspark {
namespace {

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

Status PlannedRun::Run(Strategy strategy, const BatchInput& input, ThreadPool* pool, Verdicts* verdicts,
                       BatchReport* report) {
  const bool looks = Foreseer::CanLook(input.plan.code);
  const Lookahead::Way way = looks ? lookahead_.Next() : Lookahead::Way::kRoam;
  for (int64_t begin = input.begin; begin < input.end;) {
    BatchReport piece;
    piece.batches = 0;  // it is part of one
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

Status PlannedRun::RunPiece(const Strategy& strategy, const BatchInput& input, Lookahead::Way way, int64_t* begin,
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
  ExploreBatch(strategy, input, pool, &batch, &explore_memory_, report);
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
  report->accesses = graph_.CountOperations();
  report->onlookers = static_cast<int64_t>(graph_.onlookers.size());
  report->graph_bytes = graph_.bytes() + planner_.bytes() + explore_memory_.bytes();
  report->version_bytes = versions_.bytes();
  *begin = end;
  return Status::Ok();
}

void PlannedRun::Plan(const BatchInput& input, std::span<const uint8_t> onlooker, Lookahead::Way way, int64_t begin,
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

Foreseen* PlannedRun::LookAhead(const BatchInput& input, int64_t begin, int64_t end, ThreadPool* pool) {
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

}  // namespace morphspark
