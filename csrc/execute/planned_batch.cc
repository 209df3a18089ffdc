#include "execute/planned_batch.h"

namespace morphspark {

PlannedBatch::PlannedBatch(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                           const Graph& graph, BatchVersions* versions, Verdicts* verdicts)
    : context_(context),
      order_(order),
      transactions_(transactions),
      graph_(graph),
      versions_(versions),
      verdicts_(verdicts) {}

const TransactionCode* PlannedBatch::CodeOf(Task task) const {
  if (Position(task) >= order_.keyed) return nullptr;
  const TransactionId id = transactions_[Row(task)];
  return id == kUnmatched ? nullptr : &context_.code->transactions[id];
}

PlannedBatch::Worker::Worker(PlannedBatch* batch, int number)
    : batch_(*batch),
      frame_(*batch->context_.code, number),
      machine_(batch->context_, PlannedRows(batch->versions_, number), &frame_) {}

void PlannedBatch::Worker::Run(Task task) {
  if (batch_.stopped()) return;
  const int64_t position = batch_.graph_.begin + task;
  const BatchRow row = batch_.order_.Row(position);
  TransactionStatus& status = batch_.verdicts_->status[position];
  ReasonId& reason = batch_.verdicts_->reason[position];
  status = TransactionStatus::kCommitted;
  reason = kNoReason;
  try {
    if (position >= batch_.order_.keyed) {
      reason = NullOrderReason(batch_.context_, row);
    } else if (batch_.transactions_[row] == kUnmatched) {
      status = TransactionStatus::kUnmatched;
      return;
    } else {
      reason = machine_.Run(batch_.context_.code->transactions[batch_.transactions_[row]], row, position);
      batch_.versions_->Settle(task, reason == kNoReason);
    }
  } catch (...) {
    batch_.Stop(Status::Ok(), std::current_exception());
    return;
  }
  if (reason == kStringLimit) return batch_.Stop(StringLimitStatus(batch_.context_));
  if (reason != kNoReason) status = TransactionStatus::kAborted;
}

ReasonId PlannedBatch::Worker::RunOperation(Task task, const TransactionCode& code, const Operation& operation,
                                            const Exchange& exchange) {
  return machine_.RunOperation(code, operation, batch_.Row(task), batch_.Position(task), exchange);
}

void PlannedBatch::Reset() {
  versions_->Prepare(graph_);
  for (Task task = 0; task < graph_.tasks; ++task) {
    for (ReturnedValues& column : *context_.returned) column.Clear(Position(task));
  }
}

void PlannedBatch::Cancel() { Stop(CancelledStatus()); }

void PlannedBatch::Stop(Status status, std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  if (!error_) error_ = std::move(error);
  stopped_.store(true, std::memory_order_relaxed);
}

Status PlannedBatch::Finish() {
  std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return std::move(status_);
}

}  // namespace morphspark
