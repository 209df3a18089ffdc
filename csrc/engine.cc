#include "engine.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/prepare_to_throw.h"
#include "base/stage_clock.h"
#include "output/verdicts.h"
#include "plan/resolve.h"
#include "program/foresight.h"
#include "state/version_columns.h"

namespace morphspark {
namespace {

constexpr size_t kBatchesTold = 1000;  // of an epoch one by one

// Reports stay few: beyond those, batches that ran alike are told of together. Where the program has triggers all
// that ran alike one after the other are, as pieces between firings are short and many.
void Tell(const BatchReport& report, bool fires, std::vector<BatchReport>* told) {
  const size_t apart = told->size() < kBatchesTold ? told->size() - (fires && !told->empty()) : kBatchesTold - 1;
  const auto alike = std::find_if(told->begin() + static_cast<ptrdiff_t>(apart), told->end(),
                                  [&](const BatchReport& one) { return one.RanAs(report); });
  if (alike == told->end())
    told->push_back(report);
  else
    alike->Add(report);
}

Status CheckStrategy(const EpochInput& input, std::span<const std::unique_ptr<Table>> tables) {
  const Scheme scheme = input.strategy->scheme;
  if (scheme == Scheme::kNested) {
    const auto explores = [](const Strategy& one) {
      return one.scheme == Scheme::kExplore && (one.unit != Unit::kStratum || one.exploration == Exploration::kBfs);
    };
    const bool each = !input.nested.empty() && input.nested.size() == input.code->transactions.size();
    if (!each || !std::ranges::all_of(input.nested, explores))
      return Status::Invalid("nested: every type of transaction needs a strategy that explores the graph");
  }
  // Whoever does not wait may read a value while it is written: half of one number is a wrong number, but half of one
  // string's address is no string.
  const auto has_strings = [](const auto& table) {
    return std::ranges::count(table->spec().columns, Kind::kString) > 0;
  };
  const bool roams = std::ranges::any_of(input.code->transactions, &TransactionCode::computes_keys);
  if (scheme == Scheme::kNolock && (roams || std::ranges::any_of(tables, has_strings)))
    return Status::Invalid("nolock: neither with string values nor with keys that are computed");
  return Status::Ok();
}

// Values of this kind tell how much time passes.
bool TellsTime(Kind kind) { return kind == Kind::kInt64 || kind == Kind::kTimestamp; }

// The effective timestamps of events. Without a clock all have that of the epoch.
Times TimesOf(const EpochInput& input) {
  const Code& code = *input.code;
  if (code.order_columns.empty() || !TellsTime(code.columns[code.order_columns[0]].kind))
    return {nullptr, code.order_columns.empty() ? input.clock.value_or(INT64_MIN) : INT64_MIN};
  const ColumnView& own = input.columns[code.order_columns[0]];
  return {reinterpret_cast<const int64_t*>(own.values) + own.offset, input.watermark ? input.watermark->i : INT64_MIN};
}

// Looks at every column once, so that nothing behind it has to.
Status CheckColumns(const EpochInput& input) {
  const Code& code = *input.code;
  bool fit = input.columns.size() == code.columns.size();
  for (size_t i = 0; fit && i < code.event_columns; ++i) {
    const ColumnView& column = input.columns[i];
    fit = column.kind == code.columns[i].kind && column.length >= input.rows &&
          (column.kind != Kind::kList || column.child->kind == code.columns[i].element);
  }
  if (!fit) return Status::Invalid("the batch has not the columns of its program");
  if (!std::ranges::all_of(code.functions, &UserFunction::linked)) return Status::Invalid("a function is not linked");
  const bool counts = !code.order_columns.empty() && TellsTime(code.columns[code.order_columns[0]].kind);
  if (!code.triggers.empty() && !counts && input.rows > 0) return Status::Invalid("triggers need a clock");
  if (input.last_key && input.last_key->parts.size() != code.order_columns.size()) {
    return Status::Invalid("the last order key has not the parts of the program's");
  }
  return Status::Ok();
}

// Rows with a whole key are sorted by it, so the last of them has the largest timestamp; a row whose key is broken
// elsewhere may still have a larger one.
std::optional<BatchRow> LargestTimestamp(const ColumnView& timestamps, const Order& order) {
  std::optional<BatchRow> largest;
  if (order.keyed > 0) largest = order.Row(order.keyed - 1);
  for (int64_t position = order.keyed; position < order.running; ++position) {
    Value own, best;
    if (!timestamps.Load(order.Row(position), &own)) continue;
    if (!largest || (timestamps.Load(*largest, &best) && CompareValues(timestamps.kind, best, own) < 0))
      largest = order.Row(position);
  }
  return largest;
}

// Firings have the boundary's time.
ColumnBuffers TimestampsWithFirings(const ColumnView& timestamps, const EpochResult& result, const Times& times) {
  ReturnedValues values(timestamps.kind, result.order.running);
  auto firing = result.firings.begin();
  for (int64_t position = 0; position < result.order.running; ++position) {
    Value time;
    if (firing != result.firings.end() && position == firing->end) ++firing;
    if (firing != result.firings.end() && position >= firing->begin) {
      time.i = firing->boundary;
    } else {
      const BatchRow row = result.order.Row(position);
      if (timestamps.IsNull(row)) continue;
      time.i = times.At(row);
    }
    values.Set(position, time);
  }
  return std::move(values).Finish();
}

// Results may be taken while this lives.
class EarlyParts {
 public:
  EarlyParts(Parts* parts, const Parts::Source& source) : parts_(parts) {
    if (parts_) parts_->Open(source);
  }
  ~EarlyParts() {
    if (parts_) parts_->Close();
  }
  EarlyParts(const EarlyParts&) = delete;
  EarlyParts& operator=(const EarlyParts&) = delete;

 private:
  Parts* const parts_;
};

std::vector<std::unique_ptr<Table>> MakeTables(std::vector<TableSpec> specs) {
  std::vector<std::unique_ptr<Table>> tables;
  for (TableSpec& spec : specs) tables.push_back(std::make_unique<Table>(std::move(spec)));
  return tables;
}

}  // namespace

Engine::Engine(std::vector<TableSpec> tables, int threads)
    : tables_(MakeTables(std::move(tables))),
      pool_(threads),
      planned_(tables_, std::max(threads, kInterleavedWorkersMax)) {}

Status Engine::Apply(TableId table, std::span<const ColumnView> keys, std::span<const ColumnView> values,
                     const ColumnView* deleted, std::span<const ColumnView> versions) {
  if (table >= tables_.size()) return Status::Invalid("apply: no such table");
  if (executed_) return Status::Invalid("apply: an executed epoch waits for Commit or Rollback");
  const TableDoor::Writing writing(&door_);
  try {
    const Status status = tables_[table]->Apply(keys, values, deleted, &pool_, versions);
    const History* const history = tables_[table]->history();
    if (history != nullptr) next_stamp_ = std::max(next_stamp_, history->last_sequence() + 1);
    return status;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory for all of these rows");
  }
}

Status Engine::Execute(const EpochInput& input, EpochResult* result) {
  if (executed_) return Status::Invalid("an executed epoch waits for Commit or Rollback");
  executed_ = true;
  Status status;
  PrepareToThrow();
  try {
    status = Run(input, result);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kOutOfMemory, "not enough memory for this epoch; nothing was changed");
  } catch (const std::length_error& error) {
    status = Status::Limit(std::string(error.what()) + "; send smaller micro-batches; nothing was changed");
  } catch (const Cancelled&) {
    status = CancelledStatus();
  }
  if (!status.ok()) Rollback();
  return status;
}

Status Engine::Prepare(const EpochInput& input, Order* order, StageSeconds* seconds) {
  const Code& code = *input.code;
  StageClock clock;
  MORPHSPARK_RETURN_IF_ERROR(CheckColumns(input));
  if (input.strategy) MORPHSPARK_RETURN_IF_ERROR(CheckStrategy(input, tables_));
  std::vector<const ColumnView*> order_columns;
  for (uint32_t column : code.order_columns) order_columns.push_back(&input.columns[column]);
  MORPHSPARK_RETURN_IF_ERROR(OrderBatch(order_columns, input.rows, input.last_key, input.late, &pool_, order));
  seconds->order = clock.Lap();
  Classify(code, input.columns, input.rows, &pool_, &transactions_);
  seconds->classify = clock.Lap();
  {
    const TableDoor::Writing writing(&door_);  // new keys get slots
    ResolveKeys(code, input.columns, transactions_, tables_, &pool_, &slots_);
  }
  seconds->resolve = clock.Lap();
  return Status::Ok();
}

Status Engine::Run(const EpochInput& input, EpochResult* result) {
  const Code& code = *input.code;
  poller_.emplace(input.poll);
  MORPHSPARK_RETURN_IF_ERROR(Prepare(input, &result->order, &result->seconds));
  StageClock clock;
  const Order order = std::move(result->order);
  std::vector<ReturnedValues> returned;
  const int workers = Workers(input);
  for (const ReturnedColumn& column : code.returned) returned.emplace_back(column.kind, order.running, workers);
  epoch_stamps_ = static_cast<Stamp>(order.running);
  verdicts_.status.assign(order.running, TransactionStatus::kCommitted);
  verdicts_.reason.assign(order.running, kNoReason);
  reason_texts_.Reset(code.reasons);
  const Times times = TimesOf(input);
  const Piece events{{&code, input.columns, slots_, tables_, &returned, input.max_string_bytes, &reason_texts_, times,
                      input.recompute, &door_, input.draws, input.wall_us},
                     {code, input.columns, order, transactions_, slots_}};
  if (code.triggers.empty()) {
    {
      const EarlyParts early(
          input.parts, {&order, &returned, &verdicts_, &reason_texts_,
                        code.order_columns.empty() ? nullptr : &input.columns[code.order_columns[0]], input.watermark});
      MORPHSPARK_RETURN_IF_ERROR(RunBatches(input, events, 0, order.running, result));
    }
    result->clock = input.clock;
    result->last_event = input.last_event;
    if (times.own != nullptr && order.keyed > 0)
      result->last_event = result->clock = times.At(order.Row(order.keyed - 1));
    if (input.until) result->clock = std::max(result->clock.value_or(*input.until), *input.until);
    result->order = order;
  } else {
    MORPHSPARK_RETURN_IF_ERROR(RunWithFirings(input, events, result));
  }
  now_ = result->clock.value_or(INT64_MIN);
  result->seconds.execute = clock.Lap();

  for (ReturnedValues& column : returned) result->returned.push_back(std::move(column).Finish());
  result->status = StatusColumn(verdicts_.status, &pool_);
  result->reason = ReasonColumn(verdicts_.reason, reason_texts_);
  if (!code.order_columns.empty()) {
    const ColumnView& timestamps = input.columns[code.order_columns[0]];
    result->timestamps = result->firings.empty()
                             ? EffectiveTimestamps(timestamps, order, 0, order.running, input.watermark, &pool_)
                             : TimestampsWithFirings(timestamps, *result, times);
    for (const FiredRange& one : result->firings)
      std::fill(result->order.rows.begin() + one.begin, result->order.rows.begin() + one.end, kNoRow);
    result->watermark_row = LargestTimestamp(timestamps, order);
    if (order.keyed > 0) result->last_key_row = order.Row(order.keyed - 1);
  }
  for (TransactionStatus one : verdicts_.status) {
    result->committed += one == TransactionStatus::kCommitted;
    result->aborted += one == TransactionStatus::kAborted;
  }
  result->unmatched = static_cast<int64_t>(verdicts_.status.size()) - result->committed - result->aborted;
  result->seconds.output = clock.Lap();
  return Status::Ok();
}

Status Engine::Explain(const EpochInput& input, int64_t draw_max, EpochExplanation* explanation) {
  if (executed_) return Status::Invalid("an executed epoch waits for Commit or Rollback");
  Order order;
  StageSeconds seconds;
  Status status;
  PrepareToThrow();
  try {
    status = Prepare(input, &order, &seconds);
    if (status.ok()) status = Look(input, order, draw_max, explanation);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kOutOfMemory, "not enough memory to explain this epoch");
  } catch (const std::length_error& error) {
    status = Status::Limit(std::string(error.what()) + "; explain a smaller batch");
  }
  Rollback();  // of keys that got slots
  return status;
}

Status Engine::Look(const EpochInput& input, const Order& order, int64_t draw_max, EpochExplanation* explanation) {
  const Code& code = *input.code;
  PlanInput plan{code, input.columns, order, transactions_, slots_};
  explanation->plannable = Plannable(input);
  Adviser adviser = adviser_;  // a copy: looking is not learning
  explanation->advice = Advise(input, plan, /*ran=*/0, 0, order.running, &adviser);
  Foreseer foreseer;
  if (Foreseer::CanLook(code) && !code.calls_functions()) {  // which are the user's, and may do more than return
    poller_.emplace(input.poll);
    const BatchContext context{&code,   input.columns,  slots_,          tables_, nullptr,     input.max_string_bytes,
                               nullptr, TimesOf(input), input.recompute, nullptr, input.draws, input.wall_us};
    plan.foreseen = foreseer.Look(plan, context, 0, order.running, &pool_, &door_, &*poller_);
    if (poller_->cancelled()) return CancelledStatus();
  }
  Planner planner(tables_);
  Graph graph;
  planner.Plan(plan, 0, order.running, &pool_, &graph);
  // Firings will most likely be among the events.
  const bool fires = std::ranges::any_of(
      code.transactions, [](const TransactionCode& one) { return one.is_trigger && !one.windows.empty(); });
  explanation->whole = graph.reads_windows || fires || code.calls_functions() || !graph.roamers.empty();
  explanation->shape = ShapeOf(plan, graph, explanation->whole);
  const auto type_of = [&](Task task) { return task < order.keyed ? transactions_[order.Row(task)] : kUnmatched; };
  for (Task task : explanation->shape.critical_path) explanation->path_types.push_back(type_of(task));
  if (const Access one = explanation->shape.of_longest_chain; one != kBase) {
    explanation->longest_chain_table = graph.table[one];
    explanation->longest_chain_key = tables_[graph.table[one]]->KeyText(graph.slot[one]);
  }
  Adviser::Advice& advice = explanation->advice;
  if (explanation->whole && RunsInParts(advice.strategy, input.nested)) {
    advice.why = Why::kWhole;
    advice.strategy = InWhole(advice.strategy);
  }
  constexpr Access kDrawnMost = 512;  // nobody can read more
  if (order.running > draw_max || graph.accesses() > kDrawnMost) return Status::Ok();
  for (Task task = 0; task < graph.tasks; ++task) {
    explanation->types.push_back(type_of(task));
    explanation->alone.push_back(graph.roams(task));
  }
  explanation->accesses = Drawing(plan, graph, tables_);
  return Status::Ok();
}

int Engine::Workers(const EpochInput& input) const {
  return input.interleaving ? input.interleaved_workers : pool_.threads();
}

// A transaction that roams, or may have to, leaves no versions behind where a table keeps them. Who does not wait for
// anybody must find nothing that grows, such as the versions of a window.
bool Engine::Plannable(const EpochInput& input) const {
  const std::vector<TransactionCode>& transactions = input.code->transactions;
  const bool roams = std::ranges::any_of(
      transactions, [](const TransactionCode& one) { return one.computes_keys && !one.foresight->exact; });
  const auto keeps = [](const auto& table) { return table->history() != nullptr; };
  if (roams && std::ranges::any_of(tables_, keeps)) return false;
  return !input.strategy || input.strategy->scheme != Scheme::kNolock || !input.code->uses_windows();
}

Adviser::Advice Engine::Advise(const EpochInput& input, const PlanInput& plan, int64_t ran, int64_t begin, int64_t end,
                               Adviser* adviser) {
  Adviser::Advice advice{.strategy = {}, .transactions = end - begin};
  if (!Plannable(input)) {
    advice.why = Why::kUnplannable;
    return advice;
  }
  if (input.strategy) {
    advice.strategy = *input.strategy;
    if (input.punctuation > 0) advice.transactions = std::min(input.punctuation, end - begin);
    return advice;
  }
  if (const auto known = adviser->WithoutALook(ran, end - begin, input.punctuation)) return *known;
  BatchStatistics statistics = LookAtBatch(plan, begin, end);
  statistics.ran = ran;
  return adviser->Next(statistics, Workers(input), input.punctuation);
}

Status Engine::RunBatches(const EpochInput& input, const Piece& piece, int64_t begin, int64_t end,
                          EpochResult* result) {
  if (input.interleaving) adviser_.Shake(*input.interleaving);
  const int64_t first = begin;
  while (begin < end) {
    poller_->Look();
    if (poller_->cancelled()) return CancelledStatus();
    const Adviser::Advice advice = Advise(input, piece.plan, begin - first, begin, end, &adviser_);
    BatchReport report;
    report.strategy = advice.strategy;
    report.begin = begin;
    report.transactions = advice.transactions;
    report.predicted = advice.predicted;
    report.why = static_cast<uint32_t>(advice.why);
    report.inputs = advice.inputs;
    report.chunk = advice.chunk;
    MORPHSPARK_RETURN_IF_ERROR(RunBatch(input, piece, &report));
    adviser_.Learn(advice, report, Workers(input));
    Tell(report, !input.code->triggers.empty(), &result->batches);
    begin += advice.transactions;
    // Of the last one all will be known at once; and firings come between, where the program has triggers.
    if (input.parts != nullptr && begin < end && input.code->triggers.empty()) input.parts->Ended(begin);
  }
  return Status::Ok();
}

Status Engine::RunBatch(const EpochInput& input, const Piece& piece, BatchReport* report) {
  const int64_t begin = report->begin, end = begin + report->transactions;
  StageClock clock;
  if (report->strategy.scheme == Scheme::kSerial) {
    const TableDoor::Writing writing(&door_);
    MORPHSPARK_RETURN_IF_ERROR(RunSerial(piece.context, piece.plan.order, piece.plan.transactions, begin, end,
                                         next_stamp_, &*poller_, &verdicts_));
  } else {
    const BatchInput batch{.plan = piece.plan,
                           .context = piece.context,
                           .begin = begin,
                           .end = end,
                           .first_stamp = next_stamp_,
                           .workers = Workers(input),
                           .interleaving = input.interleaving,
                           .observe = input.observe,
                           .lanes_min = input.lanes_min,
                           .poller = &*poller_,
                           .nested = input.nested};
    MORPHSPARK_RETURN_IF_ERROR(planned_.Run(report->strategy, batch, &pool_, &verdicts_, report));
  }
  report->seconds = clock.Lap();
  for (int64_t position = begin; position < end; ++position) {
    if (verdicts_.status[position] != TransactionStatus::kAborted) continue;
    ++(verdicts_.reason[position] == input.code->not_due ? report->not_due : report->aborted);
  }
  return Status::Ok();
}

// ----------------------------------------------------------------------------------------------- triggers

// There is room for all events from the beginning; each firing is one more.
void Engine::MakeRoom(int64_t positions, std::vector<ReturnedValues>* returned) {
  if (positions <= static_cast<int64_t>(verdicts_.status.size())) return;
  verdicts_.status.resize(positions, TransactionStatus::kCommitted);
  verdicts_.reason.resize(positions, kNoReason);
  for (ReturnedValues& column : *returned) column.Grow(positions);
  epoch_stamps_ = static_cast<Stamp>(positions);
}

Status Engine::RunWithFirings(const EpochInput& input, const Piece& events, EpochResult* result) {
  const Order& order = events.plan.order;
  const bool stretches = Stretch::CanPlan(*input.code);
  Triggers triggers(*input.code, tables_, input.clock, input.last_event, stretches ? stretch_.ages() : nullptr);
  Order whole;
  whole.identity = false;
  MORPHSPARK_RETURN_IF_ERROR(stretches ? RunStretches(input, events, &triggers, &whole, result)
                                       : RunPieces(input, events, &triggers, &whole, result));
  result->clock = triggers.clock();
  result->last_event = triggers.last_event();
  if (input.code->not_due != kNoReason) DropNotDue(*input.code, &whole, result, events.context.returned);
  whole.diverted = order.diverted;
  whole.late = order.late;
  whole.running = static_cast<int64_t>(whole.rows.size());
  result->order = result->firings.empty() && order.identity ? order : std::move(whole);
  return Status::Ok();
}

// Events up to a boundary, its firings, events up to the next: each piece is a batch, and all stand in one order.
Status Engine::RunPieces(const EpochInput& input, const Piece& events, Triggers* triggers, Order* whole,
                         EpochResult* result) {
  const Order& order = events.plan.order;
  const Times& times = events.context.times;
  std::vector<ReturnedValues>* const returned = events.context.returned;
  const Piece merged{events.context, {*input.code, input.columns, *whole, transactions_, slots_}};
  for (int64_t next = 0; next < order.keyed;) {
    MORPHSPARK_RETURN_IF_ERROR(Fire(input, times.At(order.Row(next)), triggers, whole, result, returned));
    const int64_t stop = triggers->Stop();
    const auto begin = static_cast<int64_t>(whole->rows.size());
    for (; next < order.keyed && times.At(order.Row(next)) < stop; ++next) AddEvent(order.Row(next), whole, result);
    whole->keyed = static_cast<int64_t>(whole->rows.size());
    MakeRoom(whole->keyed, returned);
    MORPHSPARK_RETURN_IF_ERROR(RunBatches(input, merged, begin, whole->keyed, result));
    triggers->Happened(times.At(order.Row(next - 1)));
    triggers->Reached(times.At(order.Row(next - 1)));
  }
  MORPHSPARK_RETURN_IF_ERROR(RunKeyless(input, events, whole, result));
  return input.until ? Fire(input, *input.until, triggers, whole, result, returned) : Status::Ok();
}

void Engine::AddEvent(BatchRow row, Order* whole, EpochResult* result) {
  const TransactionId type = transactions_[row];
  whole->rows.push_back(row);
  result->kinds.push_back(type == kUnmatched ? -1 : type);
}

Status Engine::RunKeyless(const EpochInput& input, const Piece& events, Order* whole, EpochResult* result) {
  const Order& order = events.plan.order;
  if (order.keyed == order.running) return Status::Ok();
  const Piece merged{events.context, {*input.code, input.columns, *whole, transactions_, slots_}};
  const auto begin = static_cast<int64_t>(whole->rows.size());
  for (int64_t next = order.keyed; next < order.running; ++next) {
    whole->rows.push_back(order.Row(next));
    result->kinds.push_back(-1);
  }
  const auto end = static_cast<int64_t>(whole->rows.size());
  MakeRoom(end, events.context.returned);
  return RunBatches(input, merged, begin, end, result);
}

Status Engine::RunStretches(const EpochInput& input, const Piece& events, Triggers* triggers, Order* whole,
                            EpochResult* result) {
  const Order& order = events.plan.order;
  const Times& times = events.context.times;
  stretch_.Start(events.plan, times, tables_, &transactions_, &slots_);
  for (int64_t next = 0; next < order.keyed;) {
    stretch_.Begin();
    const auto begin = static_cast<int64_t>(whole->rows.size());
    while (next < order.keyed && stretch_.firings() < Stretch::kFiringsMax) {
      PlanFirings(*input.code, times.At(order.Row(next)), triggers, whole, result);
      const int64_t stop = triggers->Stop();
      for (; next < order.keyed && times.At(order.Row(next)) < stop; ++next) {
        AddEvent(order.Row(next), whole, result);
        stretch_.AddEvent(order.Row(next));
      }
      triggers->Happened(times.At(order.Row(next - 1)));
      triggers->Reached(times.At(order.Row(next - 1)));
    }
    MORPHSPARK_RETURN_IF_ERROR(RunStretch(input, events, begin, whole, result));
  }
  MORPHSPARK_RETURN_IF_ERROR(RunKeyless(input, events, whole, result));
  if (!input.until) return Status::Ok();
  stretch_.Begin();
  const auto begin = static_cast<int64_t>(whole->rows.size());
  PlanFirings(*input.code, *input.until, triggers, whole, result);
  return RunStretch(input, events, begin, whole, result);
}

void Engine::PlanFirings(const Code& code, int64_t until, Triggers* triggers, Order* whole, EpochResult* result) {
  triggers->Begin(until);
  while (const auto boundary = triggers->Next(until)) {
    for (size_t trigger = 0; trigger < code.triggers.size(); ++trigger) {
      triggers->Find(code.triggers[trigger], *boundary);
      stretch_.AddFirings(trigger, *boundary, *triggers, whole);
      result->kinds.resize(whole->rows.size(), code.triggers[trigger].transaction);
    }
    triggers->Reached(*boundary);
  }
  triggers->Reached(until);
}

Status Engine::RunStretch(const EpochInput& input, const Piece& events, int64_t begin, Order* whole,
                          EpochResult* result) {
  const auto end = static_cast<int64_t>(whole->rows.size());
  if (begin == end) return Status::Ok();
  {
    const TableDoor::Writing writing(&door_);  // new keys get slots
    stretch_.Finish(whole, &pool_);
  }
  whole->keyed = end;
  MakeRoom(end, events.context.returned);
  Piece piece{events.context, {*input.code, stretch_.columns(), *whole, transactions_, slots_}};
  piece.context.columns = stretch_.columns();
  piece.context.rows = slots_;
  piece.context.times = stretch_.times();
  MORPHSPARK_RETURN_IF_ERROR(RunBatches(input, piece, begin, end, result));
  result->firings.insert(result->firings.end(), stretch_.fired().begin(), stretch_.fired().end());
  return Status::Ok();
}

void Engine::DropNotDue(const Code& code, Order* whole, EpochResult* result, std::vector<ReturnedValues>* returned) {
  if (std::ranges::find(verdicts_.reason, code.not_due) == verdicts_.reason.end()) return;
  std::vector<int64_t> kept;
  const auto positions = static_cast<int64_t>(whole->rows.size());
  auto range = result->firings.begin();
  for (int64_t position = 0; position < positions; ++position) {
    if (range != result->firings.end() && position == range->begin) range->begin = static_cast<int64_t>(kept.size());
    if (verdicts_.reason[position] != code.not_due) kept.push_back(position);
    if (range != result->firings.end() && position + 1 == range->end)
      (range++)->end = static_cast<int64_t>(kept.size());
  }
  std::erase_if(result->firings, [](const FiredRange& one) { return one.begin == one.end; });
  const auto keep = [&](auto* all) {
    for (size_t i = 0; i < kept.size(); ++i) (*all)[i] = (*all)[kept[i]];
    all->resize(kept.size());
  };
  keep(&verdicts_.status);
  keep(&verdicts_.reason);
  keep(&whole->rows);
  keep(&result->kinds);
  for (ReturnedValues& column : *returned) column.Keep(kept);
  whole->keyed -= positions - static_cast<int64_t>(kept.size());
}

Status Engine::Fire(const EpochInput& input, int64_t until, Triggers* triggers, Order* order, EpochResult* result,
                    std::vector<ReturnedValues>* returned) {
  const Code& code = *input.code;
  triggers->Begin(until);
  while (const auto boundary = triggers->Next(until)) {
    for (const TriggerCode& trigger : code.triggers) {
      triggers->Collect(trigger, *boundary, &pool_, &firings_);
      if (firings_.rows == 0) continue;
      {
        const TableDoor::Writing writing(&door_);
        ResolveFirings(code, firings_.columns, firings_.transactions, 0, tables_, &pool_, &firing_slots_);
      }
      const auto begin = static_cast<int64_t>(order->rows.size());
      for (int64_t row = 0; row < firings_.rows; ++row) {
        order->rows.push_back(static_cast<BatchRow>(row));
        result->kinds.push_back(trigger.transaction);
      }
      const int64_t end = begin + firings_.rows;
      order->keyed = end;
      MakeRoom(end, returned);
      const Piece piece{
          {&code, firings_.columns, firing_slots_, tables_, returned, input.max_string_bytes, &reason_texts_,
           Times{nullptr, *boundary}, input.recompute, &door_, input.draws, input.wall_us},
          {code, firings_.columns, *order, firings_.transactions, firing_slots_}};
      MORPHSPARK_RETURN_IF_ERROR(RunBatches(input, piece, begin, end, result));
      result->firings.push_back({begin, end, *boundary});
    }
    triggers->Reached(*boundary);
  }
  triggers->Reached(until);
  return Status::Ok();
}

Status Engine::Changes(TableId table, std::vector<ColumnBuffers>* columns) {
  if (table >= tables_.size()) return Status::Invalid("changes: no such table");
  if (!executed_) return Status::Invalid("changes: no executed epoch");
  const Table& source = *tables_[table];
  try {
    if (source.history() != nullptr) {
      ExportEntries(source, &pool_, columns);
      return Status::Ok();
    }
    const std::vector<Slot> slots = source.ChangedSlots();
    for (size_t part = 0; part < source.spec().key.size(); ++part)
      columns->push_back(source.ExportKey(part, slots, &pool_));
    for (ColumnId column = 0; column < source.spec().columns.size(); ++column)
      columns->push_back(source.ExportValues(column, slots, &pool_));
    columns->push_back(source.ExportDeleted(slots, &pool_));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory for the rows that this epoch changed");
  } catch (const std::length_error& error) {
    return Status::Limit(std::string(error.what()) + " in rows that one epoch changed; send smaller micro-batches");
  }
  return Status::Ok();
}

void Engine::Commit() {
  const TableDoor::Writing writing(&door_);
  executed_ = false;
  for (const auto& table : tables_) table->CommitEpoch(now_);
  next_stamp_ += epoch_stamps_;
  epoch_stamps_ = 0;
  TrimBufferPool();
}

void Engine::Rollback() {
  const TableDoor::Writing writing(&door_);
  executed_ = false;
  for (const auto& table : tables_) table->RollbackEpoch();
  epoch_stamps_ = 0;
}

Status Engine::ReadCommitted(std::span<const TableId> tables, std::vector<std::vector<ColumnBuffers>>* columns) {
  for (TableId table : tables) {
    if (table >= tables_.size()) return Status::Invalid("read: no such table");
  }
  const TableDoor::Reading reading(&door_);
  try {
    for (TableId table : tables) tables_[table]->ExportCommitted(&columns->emplace_back());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory for a copy of these tables");
  } catch (const std::length_error& error) {
    return Status::Limit(error.what());
  }
  return Status::Ok();
}

Status Engine::BeginSnapshot() {
  if (executed_) return Status::Invalid("snapshot: an executed epoch waits for Commit or Rollback");
  if (snapshot_) return Status::Invalid("snapshot: one is open");
  try {
    snapshot_ = std::make_unique<Snapshot>(tables_);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory to begin a snapshot");
  }
  return Status::Ok();
}

Status Engine::ReadSnapshot(int64_t rows_max, SnapshotChunk* chunk) {
  if (executed_) return Status::Invalid("snapshot: an executed epoch waits for Commit or Rollback");
  if (!snapshot_) return Status::Invalid("snapshot: none is open");
  if (rows_max < 1) return Status::Invalid("snapshot: a chunk has at least one row");
  try {
    return snapshot_->Read(rows_max, &pool_, chunk);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory for a part of a snapshot");
  }
}

std::vector<const TableSpec*> Engine::table_specs() const {
  std::vector<const TableSpec*> specs;
  for (const auto& table : tables_) specs.push_back(&table->spec());
  return specs;
}

uint64_t Engine::state_rows() const {
  uint64_t rows = 0;
  for (const auto& table : tables_) rows += table->rows();
  return rows;
}

uint64_t Engine::state_bytes(uint64_t enough) const {
  uint64_t bytes = 0;
  for (const auto& table : tables_) bytes += table->bytes_at_most();
  if (bytes <= enough) return bytes;
  bytes = 0;
  for (const auto& table : tables_) bytes += table->bytes_used();
  return bytes;
}

bool Engine::Validate() const {
  for (const auto& table : tables_) {
    if (!table->Validate()) return false;
  }
  return !snapshot_ || snapshot_->Validate();
}

}  // namespace morphspark
