#include "execute/serial.h"

#include <chrono>

namespace morphspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTransactionsBetweenLooks = 1024;             // at the clock
constexpr auto kTimeBetweenPolls = std::chrono::milliseconds(50);  // of the caller
constexpr int64_t kPrefetchDistance = 16;

// Which order column of this row is null.
ReasonId NullOrderReason(const BatchContext& context, BatchRow row) {
  const Code& code = *context.code;
  for (size_t i = 0; i < code.order_columns.size(); ++i) {
    if (context.columns[code.order_columns[i]].IsNull(row)) return code.order_reasons[i];
  }
  return kNoReason;
}

[[gnu::always_inline]] inline void PrefetchRows(const BatchContext& context, const TransactionCode& code, BatchRow row) {
  for (SiteId id : code.sites) {
    const Site& site = context.code->sites[id];
    if (site.of_element) continue;
    const Slot slot = context.slots[id][row];
    if (slot < kNullKey) context.tables[site.table]->PrefetchRow(slot);
  }
}

}  // namespace

Status RunSerial(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                 Stamp first_stamp, const Poll& poll, Verdicts* verdicts) {
  const Code& code = *context.code;
  Frame frame(code);
  Machine machine(context, &frame);
  verdicts->status.assign(order.running, TransactionStatus::kCommitted);
  verdicts->reason.assign(order.running, kNoReason);
  auto polled = Clock::now();
  for (int64_t position = 0; position < order.running; ++position) {
    if (position % kTransactionsBetweenLooks == 0 && Clock::now() - polled > kTimeBetweenPolls) {
      if (poll && poll()) return Status(StatusCode::kCancelled, "the epoch was cancelled; nothing was changed");
      polled = Clock::now();
    }
    if (position + kPrefetchDistance < order.keyed) {
      const BatchRow ahead = order.Row(position + kPrefetchDistance);
      if (transactions[ahead] != kUnmatched) PrefetchRows(context, code.transactions[transactions[ahead]], ahead);
    }
    const BatchRow row = order.Row(position);
    ReasonId reason;
    if (position >= order.keyed) {
      reason = NullOrderReason(context, row);
    } else if (transactions[row] == kUnmatched) {
      verdicts->status[position] = TransactionStatus::kUnmatched;
      continue;
    } else {
      const Stamp stamp = first_stamp + static_cast<Stamp>(position);
      reason = machine.Run(code.transactions[transactions[row]], row, position, stamp);
      if (reason != kNoReason) {
        for (const auto& table : context.tables) table->Undo(stamp);
      }
    }
    if (reason == kStringLimit) {
      return Status::Limit("a string grew over max_string_bytes=" + std::to_string(context.max_string_bytes) +
                           "; nothing was changed");
    }
    if (reason != kNoReason) {
      verdicts->status[position] = TransactionStatus::kAborted;
      verdicts->reason[position] = reason;
    }
  }
  return Status::Ok();
}

}  // namespace morphspark
