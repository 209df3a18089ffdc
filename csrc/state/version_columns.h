// Versions of rows as columns of Arrow: what a delta or a snapshot has of a table that keeps them.
#pragma once

#include <span>
#include <vector>

#include "base/column.h"
#include "base/thread_pool.h"
#include "state/table.h"

namespace morphspark {

// A row to put out: a version; or only the row, as the table has it; or that it was deleted (zeros).
struct VersionRow {
  Slot slot;
  const uint8_t* version;
  bool deleted = false;
};

// Key parts, value columns, then time, sequence and the beginning of each session (zeros where there is no version).
void ExportVersions(const Table& table, std::span<const VersionRow> rows, ThreadPool* pool,
                    std::vector<ColumnBuffers>* columns);

// The same of what the executed epoch left, and a last column that says where a row was deleted.
void ExportEntries(const Table& table, ThreadPool* pool, std::vector<ColumnBuffers>* columns);

}  // namespace morphspark
