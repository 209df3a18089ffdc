// The columns that every result has: _status, _reason and _ts.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/column.h"
#include "base/thread_pool.h"
#include "execute/serial.h"

namespace morphspark {

ColumnBuffers StatusColumn(std::span<const TransactionStatus> status, ThreadPool* pool);
ColumnBuffers ReasonColumn(std::span<const ReasonId> reason, const ReasonTexts& texts);

// max(own timestamp, watermark) at the positions [begin, end); `watermark` is none before the first epoch.
ColumnBuffers EffectiveTimestamps(const ColumnView& timestamps, const Order& order, int64_t begin, int64_t end,
                                  const std::optional<Value>& watermark, ThreadPool* pool);

}  // namespace morphspark
