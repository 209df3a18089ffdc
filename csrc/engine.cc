#include "engine.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "base/stage_clock.h"
#include "output/verdicts.h"
#include "plan/resolve.h"

namespace morphspark {
namespace {

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

// Looks at every column once, so that nothing behind it has to.
Status CheckColumns(const EpochInput& input) {
  const Code& code = *input.code;
  bool fit = input.columns.size() == code.columns.size();
  for (size_t i = 0; fit && i < code.columns.size(); ++i) {
    const ColumnView& column = input.columns[i];
    fit = column.kind == code.columns[i].kind && column.length >= input.rows &&
          (column.kind != Kind::kList || column.child->kind == code.columns[i].element);
  }
  if (!fit) return Status::Invalid("the batch has not the columns of its program");
  if (!std::ranges::all_of(code.functions, &UserFunction::linked)) return Status::Invalid("a function is not linked");
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

}  // namespace

namespace {

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
                     const ColumnView* deleted) {
  if (table >= tables_.size()) return Status::Invalid("apply: no such table");
  if (executed_) return Status::Invalid("apply: an executed epoch waits for Commit or Rollback");
  try {
    return tables_[table]->Apply(keys, values, deleted, &pool_);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "not enough memory for all of these rows");
  }
}

Status Engine::Execute(const EpochInput& input, EpochResult* result) {
  if (executed_) return Status::Invalid("an executed epoch waits for Commit or Rollback");
  executed_ = true;
  Status status;
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
  ResolveKeys(code, input.columns, transactions_, tables_, &pool_, &slots_);
  seconds->resolve = clock.Lap();
  return Status::Ok();
}

Status Engine::Run(const EpochInput& input, EpochResult* result) {
  const Code& code = *input.code;
  MORPHSPARK_RETURN_IF_ERROR(Prepare(input, &result->order, &result->seconds));
  StageClock clock;
  const Order& order = result->order;
  std::vector<ReturnedValues> returned;
  const int workers = Workers(input);
  for (const ReturnedColumn& column : code.returned) returned.emplace_back(column.kind, order.running, workers);
  epoch_stamps_ = static_cast<Stamp>(order.running);
  reason_texts_.Reset(code.reasons);
  MORPHSPARK_RETURN_IF_ERROR(RunBatches(input, result, &returned));
  result->seconds.execute = clock.Lap();

  for (ReturnedValues& column : returned) result->returned.push_back(std::move(column).Finish());
  result->status = StatusColumn(verdicts_.status, &pool_);
  result->reason = ReasonColumn(verdicts_.reason, reason_texts_);
  if (!code.order_columns.empty()) {
    const ColumnView& timestamps = input.columns[code.order_columns[0]];
    result->timestamps = EffectiveTimestamps(timestamps, order, input.watermark, &pool_);
    result->watermark_row = LargestTimestamp(timestamps, order);
    if (order.keyed > 0) result->last_key_row = order.Row(order.keyed - 1);
  }
  for (TransactionStatus one : verdicts_.status) {
    result->committed += one == TransactionStatus::kCommitted;
    result->aborted += one == TransactionStatus::kAborted;
  }
  result->unmatched = order.running - result->committed - result->aborted;
  result->seconds.output = clock.Lap();
  return Status::Ok();
}

Status Engine::Explain(const EpochInput& input, int64_t draw_max, EpochExplanation* explanation) {
  if (executed_) return Status::Invalid("an executed epoch waits for Commit or Rollback");
  Order order;
  StageSeconds seconds;
  Status status;
  try {
    status = Prepare(input, &order, &seconds);
    if (status.ok()) Look(input, order, draw_max, explanation);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kOutOfMemory, "not enough memory to explain this epoch");
  } catch (const std::length_error& error) {
    status = Status::Limit(std::string(error.what()) + "; explain a smaller batch");
  }
  Rollback();  // of keys that got slots
  return status;
}

void Engine::Look(const EpochInput& input, const Order& order, int64_t draw_max, EpochExplanation* explanation) {
  const Code& code = *input.code;
  const PlanInput plan{code, input.columns, order, transactions_, slots_};
  explanation->features = LookAtBatch(plan, 0, order.running);
  Adviser adviser = adviser_;  // a copy: looking is not learning
  explanation->advice = adviser.Next(explanation->features, Workers(input), input.punctuation);
  Planner planner(tables_);
  Graph graph;
  planner.Plan(plan, 0, order.running, &pool_, &graph);
  const auto type_at = [&](Task task) { return task < order.keyed ? transactions_[order.Row(task)] : kUnmatched; };
  explanation->shape = ShapeOf(graph, [&](Task task) {
    const TransactionId id = type_at(task);
    return id == kUnmatched ? nullptr : &code.transactions[id];
  });
  if (order.running > draw_max) return;
  for (Task task = 0; task < graph.tasks; ++task) {
    explanation->rows.push_back(order.Row(task));
    explanation->types.push_back(type_at(task));
  }
  explanation->accesses = Drawing(graph, tables_);
}

int Engine::Workers(const EpochInput& input) const {
  return input.interleaving ? input.interleaved_workers : pool_.threads();
}

Status Engine::RunBatches(const EpochInput& input, EpochResult* result, std::vector<ReturnedValues>* returned) {
  const Order& order = result->order;
  const Code& code = *input.code;
  verdicts_.status.assign(order.running, TransactionStatus::kCommitted);
  verdicts_.reason.assign(order.running, kNoReason);
  const BatchContext context{&code, input.columns, slots_, tables_, returned, input.max_string_bytes, &reason_texts_};
  const PlanInput plan{code, input.columns, order, transactions_, slots_};
  for (int64_t begin = 0; begin < order.running;) {
    const int64_t left = order.running - begin;
    Adviser::Advice advice{.strategy = {}, .transactions = left, .arm = -1};
    if (input.strategy) {
      advice.strategy = *input.strategy;
      if (input.punctuation > 0) advice.transactions = std::min(input.punctuation, left);
    } else if (const auto known = adviser_.WithoutALook(left, input.punctuation)) {
      advice = *known;
    } else {
      advice = adviser_.Next(LookAtBatch(plan, begin, order.running), Workers(input), input.punctuation);
    }
    BatchReport report;
    report.strategy = advice.strategy;
    report.begin = begin;
    report.transactions = advice.transactions;
    report.predicted = advice.predicted;
    report.why = static_cast<uint32_t>(advice.why);
    report.inputs = advice.inputs;
    MORPHSPARK_RETURN_IF_ERROR(RunBatch(input, context, plan, &report));
    adviser_.Learn(advice, report);
    result->batches.push_back(report);
    begin += advice.transactions;
  }
  return Status::Ok();
}

Status Engine::RunBatch(const EpochInput& input, const BatchContext& context, const PlanInput& plan,
                        BatchReport* report) {
  const int64_t begin = report->begin, end = begin + report->transactions;
  StageClock clock;
  if (report->strategy.scheme == Scheme::kSerial) {
    MORPHSPARK_RETURN_IF_ERROR(
        RunSerial(context, plan.order, transactions_, begin, end, next_stamp_, input.poll, &verdicts_));
  } else {
    const PlannedRun::Input batch{.plan = plan,
                                  .context = context,
                                  .begin = begin,
                                  .end = end,
                                  .first_stamp = next_stamp_,
                                  .workers = Workers(input),
                                  .interleaving = input.interleaving,
                                  .observe = input.observe,
                                  .lanes_min = input.lanes_min,
                                  .poll = input.poll,
                                  .nested = input.nested};
    MORPHSPARK_RETURN_IF_ERROR(planned_.Run(report->strategy, batch, &pool_, &verdicts_, report));
  }
  report->seconds = clock.Lap();
  report->aborted =
      std::count(verdicts_.status.begin() + begin, verdicts_.status.begin() + end, TransactionStatus::kAborted);
  return Status::Ok();
}

Status Engine::Changes(TableId table, std::vector<ColumnBuffers>* columns) {
  if (table >= tables_.size()) return Status::Invalid("changes: no such table");
  if (!executed_) return Status::Invalid("changes: no executed epoch");
  const Table& source = *tables_[table];
  try {
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
  executed_ = false;
  for (const auto& table : tables_) table->CommitEpoch();
  next_stamp_ += epoch_stamps_;
  epoch_stamps_ = 0;
  TrimBufferPool();
}

void Engine::Rollback() {
  executed_ = false;
  for (const auto& table : tables_) table->RollbackEpoch();
  epoch_stamps_ = 0;
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
