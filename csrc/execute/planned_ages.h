// Rows of tables in the order of when an event of a stretch last may write them: what the history will know of them, at
// most, when the stretch has run. Firings are planned from it before (stretch.h).
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace morphspark {

class PlannedAges {
 public:
  // Nothing is planned. Tables are those whose rows start firings.
  void Begin(size_t tables) {
    tables_.resize(tables);
    ++stretch_;
    for (Table& one : tables_) one.newest = kNoSlot;
  }
  // Times only grow.
  void MayWrite(TableId id, Slot slot, int64_t time) {
    Table& table = tables_[id];
    if (slot >= table.rows.size()) table.rows.resize(std::max<size_t>(slot + 1, 2 * table.rows.size()));
    Row& row = table.rows[slot];
    if (row.stretch == stretch_) {
      if (row.older != kNoSlot) table.rows[row.older].newer = row.newer;
      (row.newer == kNoSlot ? table.newest : table.rows[row.newer].older) = row.older;
    }
    row = {stretch_, time, table.newest, kNoSlot};
    if (table.newest != kNoSlot) table.rows[table.newest].newer = slot;
    table.newest = slot;
  }
  // The time of the newest version that there may be; false: there may be none.
  bool Newest(TableId id, int64_t* time) const {
    const Table& table = tables_[id];
    if (table.newest != kNoSlot) *time = table.rows[table.newest].time;
    return table.newest != kNoSlot;
  }
  // To rows that have versions since `start` already, those that may get some.
  void AddCandidates(TableId id, int64_t start, std::vector<Slot>* slots) const {
    const Table& table = tables_[id];
    std::erase_if(*slots, [&](Slot slot) { return slot < table.rows.size() && table.rows[slot].stretch == stretch_; });
    for (Slot slot = table.newest; slot != kNoSlot && table.rows[slot].time >= start; slot = table.rows[slot].older)
      slots->push_back(slot);
  }

 private:
  struct Row {
    uint64_t stretch = 0;  // in which it was put here; of others nothing is known
    int64_t time = 0;
    Slot older = kNoSlot, newer = kNoSlot;
  };
  struct Table {
    std::vector<Row> rows;  // by slot
    Slot newest = kNoSlot;
  };

  std::vector<Table> tables_;
  uint64_t stretch_ = 0;
};

}  // namespace morphspark
