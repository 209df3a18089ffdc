// Strategy `serial`: one thread, transaction order, no graph.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
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

// Asked now and then while a batch runs; true stops it. Called on the thread that called the engine.
using Poll = std::function<bool()>;

// Runs the transactions at positions [begin, end); stamps count up from `first_stamp`, by position.
Status RunSerial(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                 int64_t begin, int64_t end, Stamp first_stamp, const Poll& poll, Verdicts* verdicts);

}  // namespace morphspark
