// Rows as they are before a batch, for looking ahead: nothing is written, and the rows that are named by computed keys
// are noted, and those that the keys depend on. A key without a slot gets none here, as many threads look at once.
#pragma once

#include <cassert>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "program/window.h"
#include "state/read_only_rows.h"
#include "state/table.h"

namespace morphspark {

// A row that a transaction will name.
struct ForeseenRow {
  Slot slot;  // kNoSlot: of a key that is new
  uint16_t table;
  bool writes;
};

// A row that the keys depend on.
struct ReadRow {
  Slot slot;  // kNoSlot: of a key that is new
  uint16_t table;
};

// What one thread has noted.
struct ForeseenNotes {
  std::vector<ForeseenRow> rows;
  std::vector<ReadRow> reads;
  std::vector<Value> fresh;  // of each row without a slot its key
  Arena strings;

  void Clear() {
    rows.clear();
    reads.clear();
    fresh.clear();
    strings.Reset();
  }
};

class ForeseenRows : public ReadOnlyRows {
 public:
  ForeseenRows(const std::unique_ptr<Table>* tables, ForeseenNotes* notes) : tables_(tables), notes_(notes) {}

  bool Exists(TableId table, RowHandle row) const {
    NoteRead(table, row);
    return row != kAbsentKey && tables_[table]->Exists(row);
  }
  bool Readable(TableId table, RowHandle row) const {
    NoteRead(table, row);
    return row == kAbsentKey ? tables_[table]->spec().has_default : tables_[table]->Readable(row);
  }
  template <Kind kind>
  void Read(TableId table, RowHandle row, ColumnId column, Value* out) const {
    if (row == kAbsentKey)
      *out = tables_[table]->spec().defaults[column];
    else
      tables_[table]->Read<kind>(row, column, out);
  }
  template <class Key>
  RowHandle Find(TableId table, Key key, bool writes) {
    const Slot slot = tables_[table]->index().Find(key);
    notes_->rows.push_back({slot, static_cast<uint16_t>(table), writes});
    if (slot == kNoSlot) notes_->fresh.push_back(Kept(key));
    return slot == kNoSlot ? kAbsentKey : slot;
  }
  Slot SlotOf(RowHandle row) const { return row == kAbsentKey ? kNoSlot : row; }

  // What foresight leaves out.
  void AddVersions(TableId, ColumnId, RowHandle, WindowReader*) const { assert(false); }
  void PrefetchWindow(TableId, RowHandle, const WindowReader&) const {}
  void PrefetchVersions(TableId, RowHandle, const WindowReader&) const {}

 private:
  void NoteRead(TableId table, RowHandle row) const {
    notes_->reads.push_back({SlotOf(row), static_cast<uint16_t>(table)});
  }
  Value Kept(int64_t key) const { return Value{.i = key}; }
  Value Kept(Bytes key) const { return Value{.s = notes_->strings.Copy(key)}; }

  const std::unique_ptr<Table>* tables_;
  ForeseenNotes* notes_;
};

}  // namespace morphspark
