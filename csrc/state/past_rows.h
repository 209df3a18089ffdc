// Rows as the transactions of a batch have left them, seen from the place of one that only reads: it runs when all of
// them are settled, and finds the latest write before its own place. A row's handle is its slot.
//
// Thread safety: any number of threads, while nobody writes.
#pragma once

#include <cassert>

#include "state/planned_rows.h"
#include "state/read_only_rows.h"

namespace morphspark {

class PastRows : public ReadOnlyRows {
 public:
  explicit PastRows(BatchVersions* versions) : versions_(versions) {}

  // Which transaction runs next.
  void Enter(Task task) { task_ = task; }

  bool Exists(TableId table, RowHandle row) const {
    const Access at = Newest(table, row);
    return at == kBase ? Stored(table).Exists(row) : versions_->state_[at] & BatchVersions::kExists;
  }
  bool Readable(TableId table, RowHandle row) const { return Stored(table).spec().has_default || Exists(table, row); }
  template <Kind kind>
  void Read(TableId table, RowHandle row, ColumnId column, Value* out) const {
    const Access at = Newest(table, row);
    if (at == kBase) {
      Stored(table).template Read<kind>(row, column, out);
    } else if (versions_->state_[at] & BatchVersions::kExists) {
      Stored(table).image().template Read<kind>(versions_->words_.data() + versions_->image_[at], column, out);
    } else {
      *out = Stored(table).spec().defaults[column];
    }
  }
  void AddVersions(TableId table, ColumnId column, RowHandle row, WindowReader* reader) const {
    if (!versions_->has_cut()) {
      if (const StandingSum* const sum = reader->Standing(row)) return reader->Add(*sum);
    }
    History* const history = Stored(table).history();
    const BatchVersions::Left* const left = reader->adds_up() ? All(table, row) : nullptr;
    if (left == nullptr || left->cut)
      versions_->AddVersions(table, column, row, versions_->WriteBefore(table, row, task_), reader);
    else
      reader->Add(history, row, List(*left, *history));
  }
  // Two steps that ask for what a window needs of a row.
  [[gnu::always_inline]] void PrefetchWindow(TableId table, RowHandle row, const WindowReader& reader) const {
    if (row >= kHandlesMax || reader.Standing(row) != nullptr) return;
    Stored(table).history()->PrefetchRow(row);
    if (const auto* const left = All(table, row)) Prefetch(left);
  }
  [[gnu::always_inline]] void PrefetchVersions(TableId table, RowHandle row, const WindowReader& reader) const {
    if (row >= kHandlesMax || reader.Standing(row) != nullptr) return;
    const History& history = *Stored(table).history();
    history.PrefetchVersions(row, reader.sums());
    if (const auto* const left = All(table, row)) history.PrefetchNewer(row, reader.sums(), List(*left, history));
  }
  Slot SlotOf(RowHandle row) const { return row; }

  // It computes no keys.
  template <class Key>
  RowHandle Find(TableId, Key, bool) {
    assert(false);
    return kOutsideKey;
  }

 private:
  Table& Stored(TableId table) const { return *versions_->tables_[table]; }
  // What the batch has left of a row; null: nothing.
  const BatchVersions::Left* All(TableId table, RowHandle row) const {
    const Access last = versions_->planner_->LastWrite(*versions_->graph_, table, row);
    return last == kBase ? nullptr : &versions_->left_[last];
  }
  VersionList List(const BatchVersions::Left& left, const History& history) const {
    const auto* const area = reinterpret_cast<const uint8_t*>(versions_->areas_.data() + left.area);
    return {area, left.count, history.stride()};
  }
  // The access whose image it sees; kBase: the table's row.
  Access Newest(TableId table, RowHandle row) const {
    const Access write = versions_->WriteBefore(table, row, task_);
    return write == kBase ? kBase : versions_->source_[write];
  }

  BatchVersions* versions_;
  Task task_ = 0;
};

}  // namespace morphspark
