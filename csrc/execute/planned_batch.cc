#include "execute/planned_batch.h"

#include <algorithm>

namespace morphspark {

PlannedBatch::PlannedBatch(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                           const Graph& graph, BatchVersions* versions, Verdicts* verdicts, TableDoor* door,
                           Poller* poller)
    : context_(context),
      order_(order),
      transactions_(transactions),
      graph_(graph),
      versions_(versions),
      verdicts_(verdicts),
      door_(door),
      poller_(*poller) {}

const TransactionCode* PlannedBatch::CodeOf(Task task) const {
  const TransactionId id = TypeOf(task);
  return id == kUnmatched ? nullptr : &context_.code->transactions[id];
}

PlannedBatch::Worker::Worker(PlannedBatch* batch, int number)
    : batch_(*batch),
      frame_(*batch->context_.code, number),
      machine_(batch->context_, PlannedRows(batch->versions_, number), &frame_),
      pace_(&batch->poller_) {}

void PlannedBatch::Worker::Run(Task task, bool final) {
  if (batch_.graph_.onlooks(task)) return;  // not now
  pace_.Step();
  if (batch_.stopped()) return;
  const int64_t position = batch_.graph_.begin + task;
  const BatchRow row = batch_.order_.Row(position);
  try {
    if (position >= batch_.order_.keyed) {
      batch_.Conclude(task, NullOrderReason(batch_.context_, row), final);
    } else if (batch_.transactions_[row] == kUnmatched) {
      batch_.verdicts_->status[position] = TransactionStatus::kUnmatched;
    } else {
      const TransactionCode& code = batch_.context_.code->transactions[batch_.transactions_[row]];
      machine_.rows().Enter(task);
      // Who roams changes tables, and opens the door again while it calls a function.
      TableDoor* const door = machine_.rows().roams() ? batch_.door_ : nullptr;
      const TableDoor::Writing writing(door);
      machine_.BehindDoor(door);
      batch_.Conclude(task, machine_.Run(code, row, position), final);
    }
  } catch (...) {
    batch_.Stop(Status::Ok(), std::current_exception());
  }
}

PlannedBatch::LaneWorker::LaneWorker(PlannedBatch* batch, int number, uint32_t lanes_min, LaneMemory* memory)
    : batch_(*batch),
      lanes_min_(lanes_min),
      one_by_one_(batch, number),
      machine_(batch->context_, PlannedRows(batch->versions_, number), number, memory),
      tasks_of_(batch->context_.code->transactions.size()),
      rows_(LaneMachine::kLanes),
      positions_(LaneMachine::kLanes) {}

void PlannedBatch::LaneWorker::Run(std::span<const Task> tasks, bool final) {
  if (batch_.stopped()) return;
  const Code& code = *batch_.context_.code;
  try {
    for (Task task : tasks) {
      const TransactionId type = batch_.TypeOf(task);
      if (type == kUnmatched || !LaneMachine::CanRun(code, code.transactions[type])) {
        one_by_one_.Run(task, final);
        continue;
      }
      if (tasks_of_[type].empty()) types_.push_back(type);
      tasks_of_[type].push_back(task);
    }
    for (TransactionId type : types_) {
      std::vector<Task>& some = tasks_of_[type];
      if (some.size() < lanes_min_) {
        one_by_one_.Run(some, final);
      } else {
        for (size_t at = 0; at < some.size(); at += LaneMachine::kLanes) {
          RunInLanes(type, std::span(some).subspan(at, std::min<size_t>(LaneMachine::kLanes, some.size() - at)), final);
        }
      }
      some.clear();
    }
    types_.clear();
  } catch (...) {
    batch_.Stop(Status::Ok(), std::current_exception());
  }
}

void PlannedBatch::LaneWorker::RunInLanes(TransactionId type, std::span<const Task> tasks, bool final) {
  for (size_t lane = 0; lane < tasks.size(); ++lane) {
    positions_[lane] = batch_.graph_.begin + tasks[lane];
    rows_[lane] = batch_.order_.Row(positions_[lane]);
  }
  const auto reasons = machine_.Run(batch_.context_.code->transactions[type], std::span(rows_).first(tasks.size()),
                                    std::span(positions_).first(tasks.size()));
  for (size_t lane = 0; lane < tasks.size(); ++lane) batch_.Conclude(tasks[lane], reasons[lane], final);
  batch_.poller_.Look();
}

Crew::Chunk LaneChunk(uint32_t lanes_min) {
  constexpr uint32_t kMost = 1024;
  // Not less than what several types need to fill some lanes each.
  return {std::min(4 * lanes_min, kMost), kMost};
}

LaneCrew::LaneCrew(PlannedBatch* batch, int workers, uint32_t lanes_min, std::deque<LaneMemory>* memory)
    : chunk_(LaneChunk(lanes_min)) {
  if (memory->size() < static_cast<size_t>(workers)) memory->resize(workers);
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number, lanes_min, &(*memory)[number]);
}

void PlannedBatch::Conclude(Task task, ReasonId reason, bool final) {
  versions_->Settle(task, reason == kNoReason);
  const int64_t position = graph_.begin + task;
  verdicts_->status[position] = reason == kNoReason ? TransactionStatus::kCommitted : TransactionStatus::kAborted;
  verdicts_->reason[position] = reason;
  // Who was not foreseen comes later, and may change what others have read: until then nothing is final.
  if (final && reason == kStringLimit && graph_.foreseen.empty()) Stop(StringLimitStatus(context_));
}

void PlannedBatch::Settle() {
  if (graph_.foreseen.empty() || stopped()) return;
  const auto first = verdicts_->reason.begin() + graph_.begin;
  if (std::find(first, first + graph_.tasks, kStringLimit) != first + graph_.tasks) Stop(StringLimitStatus(context_));
}

ReasonId PlannedBatch::Worker::RunOperation(Task task, const TransactionCode& code, const Operation& operation,
                                            const Exchange& exchange) {
  pace_.Step();
  return machine_.RunOperation(code, operation, batch_.Row(task), batch_.Position(task), exchange);
}

void PlannedBatch::Reset() {
  versions_->Restart();
  for (Task task = 0; task < graph_.tasks; ++task) {
    for (ReturnedValues& column : *context_.returned) column.Clear(Position(task));
  }
}

void PlannedBatch::Stop(Status status, std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  if (!error_) error_ = std::move(error);
  stopped_.store(true, std::memory_order_relaxed);  // with the load in stopped
}

Status PlannedBatch::Finish() {
  std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  if (status_.ok() && poller_.cancelled()) return CancelledStatus();
  return std::move(status_);
}

}  // namespace morphspark
