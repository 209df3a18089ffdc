#include "state/version_columns.h"

#include "state/row_columns.h"

namespace morphspark {

void ExportVersions(const Table& table, std::span<const VersionRow> rows, ThreadPool* pool,
                    std::vector<ColumnBuffers>* columns) {
  const History& history = *table.history();
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<Slot> slots;
  slots.reserve(rows.size());
  for (const VersionRow& row : rows) slots.push_back(row.slot);
  for (size_t part = 0; part < table.spec().key.size(); ++part) columns->push_back(table.ExportKey(part, slots, pool));
  for (ColumnId column = 0; column < table.spec().columns.size(); ++column) {
    const auto cell = [&](int64_t row) {
      const VersionRow& one = rows[row];
      if (one.version) return one.version + history.offset(column);
      return one.deleted ? nullptr : table.CellOrNull(one.slot, column);
    };
    columns->push_back(ValueColumn(table.spec().columns[column], count, cell, pool));
  }
  for (size_t word = 0; word < 2 + history.sessions(); ++word) {
    const auto fill = [&](int64_t row, uint8_t* to) {
      if (rows[row].version)
        std::memcpy(to, rows[row].version + 8 * word, 8);
      else
        std::memset(to, 0, 8);
    };
    columns->push_back(FixedColumn<sizeof(int64_t)>(count, fill, pool));
  }
}

void ExportEntries(const Table& table, ThreadPool* pool, std::vector<ColumnBuffers>* columns) {
  std::vector<VersionRow> rows;
  table.history()->EachEntry(
      [&](Slot slot, const uint8_t* version) { rows.push_back({slot, version, version == nullptr}); });
  ExportVersions(table, rows, pool, columns);
  const auto deleted = [&](int64_t row) { return rows[row].deleted; };
  columns->push_back(BitColumn(static_cast<int64_t>(rows.size()), deleted, pool));
}

}  // namespace morphspark
