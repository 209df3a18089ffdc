// The order of transactions: by order key, then arrival; events with a null order key last.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/column.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace morphspark {

enum class Late : uint32_t { kAdmit, kDivert, kFail };

// The largest order key of all committed epochs. String parts point into `text`.
struct OrderKey {
  std::vector<Value> parts;
  std::vector<std::string> text;
};

struct Order {
  bool identity = true;            // rows run as they came
  std::vector<BatchRow> rows;      // in transaction order; empty where identity
  std::vector<BatchRow> diverted;  // late rows that do not run
  int64_t keyed = 0;               // how many rows have a whole order key; they come first
  int64_t late = 0;
  int64_t running = 0;  // rows in transaction order

  BatchRow Row(int64_t position) const { return identity ? static_cast<BatchRow>(position) : rows[position]; }
};

// Sorts a batch of `count` rows by `columns`; none: arrival order.
Status OrderBatch(std::span<const ColumnView* const> columns, int64_t count, const std::optional<OrderKey>& last,
                  Late late, ThreadPool* pool, Order* order);

}  // namespace morphspark
