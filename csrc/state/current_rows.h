// Rows as tables hold them: a row's handle is its slot, reads see the newest version, writes change it in place.
//
// Thread safety: one thread; its transactions run in their order.
#pragma once

#include <memory>

#include "program/window.h"
#include "state/table.h"

namespace morphspark {

class CurrentRows {
 public:
  explicit CurrentRows(const std::unique_ptr<Table>* tables) : tables_(tables) {}

  bool Exists(TableId table, RowHandle row) const { return tables_[table]->Exists(row); }
  bool Readable(TableId table, RowHandle row) const { return tables_[table]->Readable(row); }
  template <Kind kind>
  void Read(TableId table, RowHandle row, ColumnId column, Value* out) const {
    tables_[table]->Read<kind>(row, column, out);
  }
  template <Kind kind>
  void Write(TableId table, RowHandle row, ColumnId column, const Value& value) {
    tables_[table]->Own(row);
    tables_[table]->StoreAs<kind>(row, column, value);
  }
  template <Kind kind, class Function>
  bool Update(TableId table, RowHandle row, ColumnId column, Function function) {
    return tables_[table]->Update<kind>(row, column, function);
  }
  void Insert(TableId table, RowHandle row) { tables_[table]->Insert(row); }
  void Store(TableId table, RowHandle row, ColumnId column, const Value& value) {
    tables_[table]->Store(row, column, value);
  }
  void Delete(TableId table, RowHandle row) { tables_[table]->Delete(row); }
  void AddVersions(TableId table, ColumnId, RowHandle row, WindowReader* reader) const {
    reader->Add(tables_[table]->history(), row);
  }
  // Two steps that ask for what a window needs of a row.
  [[gnu::always_inline]] void PrefetchWindow(TableId table, RowHandle row, const WindowReader&) const {
    tables_[table]->history()->PrefetchRow(row);
  }
  [[gnu::always_inline]] void PrefetchVersions(TableId table, RowHandle row, const WindowReader& reader) const {
    tables_[table]->history()->PrefetchVersions(row, reader.sums());
  }
  // The row of a key that only the transaction knows.
  template <class Key>
  RowHandle Find(TableId table, Key key, bool) {
    return tables_[table]->FindOrAdd(key);
  }
  Slot SlotOf(RowHandle row) const { return row; }

 private:
  const std::unique_ptr<Table>* tables_;
};

}  // namespace morphspark
