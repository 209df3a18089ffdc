// Keys to slots for the whole batch: every site's column at once, on all threads, in blocks that prefetch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/column.h"
#include "base/thread_pool.h"
#include "plan/classify.h"
#include "program/code.h"
#include "state/table.h"

namespace morphspark {

// For each site that events use the slots of its keys: by batch row, or by element of its list column. Keys that no row
// has get a slot, in batch order. Rows whose transaction does not use the site are left out.
void ResolveKeys(const Code& code, std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
                 std::span<const std::unique_ptr<Table>> tables, ThreadPool* pool,
                 std::vector<std::vector<Slot>>* slots);

// The same for the sites of triggers: rows from `first` on are firings. What is there of rows before it stays.
void ResolveFirings(const Code& code, std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
                    size_t first, std::span<const std::unique_ptr<Table>> tables, ThreadPool* pool,
                    std::vector<std::vector<Slot>>* slots);

}  // namespace morphspark
