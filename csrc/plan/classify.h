// Which transaction each event runs: the first whose on() matches.
#pragma once

#include <span>
#include <vector>

#include "base/column.h"
#include "base/thread_pool.h"
#include "program/code.h"

namespace morphspark {

// By batch row.
void Classify(const Code& code, std::span<const ColumnView> columns, int64_t count, ThreadPool* pool,
              std::vector<TransactionId>* transactions);

}  // namespace morphspark
