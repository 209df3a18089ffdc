// Strategy `serial`: one thread, transaction order, no graph.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "execute/poller.h"
#include "plan/classify.h"
#include "plan/order.h"
#include "program/machine.h"

namespace morphspark {

enum class TransactionStatus : uint8_t { kCommitted, kAborted, kUnmatched };

// What came of each transaction, by position in transaction order.
struct Verdicts {
  std::vector<TransactionStatus> status;
  std::vector<ReasonId> reason;
};

// Which order column of this row is null.
ReasonId NullOrderReason(const BatchContext& context, BatchRow row);
Status StringLimitStatus(const BatchContext& context);
Status CancelledStatus();

// Runs the transactions at positions [begin, end); stamps count up from `first_stamp`, by position.
Status RunSerial(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                 int64_t begin, int64_t end, Stamp first_stamp, Poller* poller, Verdicts* verdicts);

}  // namespace morphspark
