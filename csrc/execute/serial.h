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

// Asked now and then while a batch runs; true stops it. Called on the thread that called the engine.
using Poll = std::function<bool()>;

// Runs every transaction of the batch; stamps count up from `first_stamp`.
Status RunSerial(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                 Stamp first_stamp, const Poll& poll, Verdicts* verdicts);

}  // namespace morphspark
