// Versions of a running batch: one image per access that writes. A row's handle is the access.
//
//        table, as before the batch ◀── previous ── a0 image ◀── previous ── a4 image     (the row's accesses)
//                                                    source[a0] = a0          source[a4] = a0: a4's owner aborted
//
// While a transaction runs it writes to its own images only. When it is over, `Settle` says for each of its writes
// which image its successors shall read: its own, or, if it aborted or did not write after all, the one before. So
// nothing is ever copied back, and a later write never disturbs an earlier read. After the batch `Install` gives every
// row its last version.
//
// A transaction that roams gets its accesses while it runs (`Find`), numbered behind those of the graph. When it is
// over, its writes become what later transactions read: `Settle` puts them in the place of the write before, or, where
// the batch has none, into the table. It may do all this because nobody else runs meanwhile.
//
// Thread safety: an access is written by the worker that runs its owner, and read by others only after that worker
// has said so (release) and they have heard it (acquire); the strategy sees to that.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/arena.h"
#include "base/prefetch.h"
#include "base/scratch.h"
#include "plan/graph.h"
#include "plan/times.h"
#include "program/window.h"
#include "state/access_index.h"
#include "state/table.h"

namespace morphspark {

class BatchVersions {
 public:
  BatchVersions(std::span<const std::unique_ptr<Table>> tables, Planner* planner, int workers)
      : tables_(tables), planner_(planner), strings_(workers) {}

  // `times` and stamps, which count up from `first_stamp` by position, are what versions are left with.
  void Prepare(Graph* graph, const Order& order, const Times& times, Stamp first_stamp);
  // As if nothing had run. Nobody may have roamed: that can't be taken back here.
  void Restart();
  // Lets every access be read as if nobody wrote before it, so that a reader who does not wait finds something.
  void StartFromTables();
  void Settle(Task task, bool committed);
  // Settles one access; `own` says that its image is to be read, if it was written.
  void Publish(Access access, bool own);
  // What is needed to run a transaction again.
  bool Published(Access access, std::vector<uint64_t>* image) const;
  // Whether the access publishes an image of its own with the values of that one.
  bool PublishesSame(Access access, std::span<const uint64_t> image) const;
  Access Source(Access access) const { return source_[access]; }
  void Forget(Task task);
  // Makes the last versions those of the tables; and all of them versions that stay, where a table keeps some.
  void Install();
  // How a transaction that computes keys finds its accesses. One per worker.
  struct Finder {
    Access next = 0;       // where the next row that was foreseen may be
    bool indexed = false;  // whether the index has the accesses of the transaction that runs
    AccessIndex index;
  };
  // The access of the roaming transaction to a row; a new one if it has none yet. No table keeps versions.
  Access Roam(Task task, TableId table, Slot slot, Finder* finder);
  // What the transaction that was settled last has written by that.
  const std::vector<Access>& roamed() const { return roamed_; }
  // The access to a row that was foreseen, or else kUnforeseenKey. Rows are named in the order in which they were
  // foreseen, mostly.
  RowHandle Foreseen(Task task, TableId table, Slot slot, bool writes, Finder* finder) const;

  // For onlookers: the latest write of a row by a transaction before this one.
  Access WriteBefore(TableId table, Slot slot, Task task) {
    const Access last = planner_->LastWrite(*graph_, table, slot);
    return last == kBase || graph_->owner[last] < task ? last : EarlierWrite(last, task);
  }
  // What the table keeps of a row, and what transactions of this batch have left up to this write.
  void AddVersions(TableId table, ColumnId column, Slot slot, Access write, WindowReader* reader) const;
  // Has a row with versions been deleted? Relaxed: asked for when all have run.
  bool has_cut() const { return has_cut_.load(std::memory_order_relaxed); }

  uint64_t bytes() const;

 private:
  friend class PlannedRows;
  friend class PastRows;

  static constexpr uint8_t kOwned = 1;   // the image is the transaction's
  static constexpr uint8_t kExists = 2;  // and a row, not the lack of one
  static constexpr uint8_t kCut = 4;     // the row was deleted on the way

  // What windows of this batch read, where there are some: versions of a row side by side, in the order of its writes.
  // A write waits for the one before it, so when it is settled its place is known.
  struct Left {
    uint64_t area;   // where the row's versions begin, in words
    uint32_t count;  // how many there are behind this write
    uint32_t first;  // those before it were hidden by a deletion
    bool cut;        // as is what the table has kept
  };
  void PrepareWindows();
  void ListWrites();
  Access EarlierWrite(Access last, Task task);
  void Leave(Access access, bool own);

  void PrefetchInstalled(Access access) const;
  void LeaveVersions();
  Stamp StampOf(Access access) const {
    return first_stamp_ + static_cast<Stamp>(graph_->begin) + graph_->owner[access];
  }
  int64_t TimeOf(Access access) const { return times_.At(order_->Row(graph_->begin + graph_->owner[access])); }

  // The transaction's access to a row, or kBase.
  Access FindOwn(Task task, TableId table, Slot slot, Finder* finder) const;
  void AddImage(Access access);
  void SettleRoaming(bool committed);
  void InstallOne(Access access, Access source);

  Graph* graph_ = nullptr;
  const Order* order_ = nullptr;
  Times times_;
  Stamp first_stamp_ = 0;
  std::span<const std::unique_ptr<Table>> tables_;
  Planner* planner_;
  Access next_ = 0;  // number of the next access that is added
  std::vector<Access> roamed_;
  std::vector<Access> roaming_;  // of the transaction that roams now: what it may write, beyond what was planned
  Scratch<uint32_t> image_;      // by access: its first word in `words_`
  Scratch<uint8_t> state_;       // by access
  Scratch<Access> source_;       // by settled access: whose image its successors read; kBase: the table's row
  Scratch<uint64_t> words_;
  bool reads_windows_ = false;
  Scratch<Left> left_;       // by access that writes to a table that keeps versions; if windows are read
  Scratch<uint64_t> areas_;  // versions, as those of the table's history
  std::atomic<bool> has_cut_{false};
  // For onlookers: the writes of a row side by side, in order. Made by the first who asks: most don't.
  std::atomic<bool> listed_{false};
  std::mutex listing_;
  Scratch<uint32_t> place_;  // by access that writes: where it is among them
  Scratch<uint32_t> first_;  // by last write of a row: where the row's begin
  Scratch<Access> writes_;
  Scratch<Task> writers_;       // whose they are
  std::vector<Arena> strings_;  // by worker: what images point to
};

class PlannedRows {
 public:
  PlannedRows(BatchVersions* versions, int worker) : versions_(versions), strings_(&versions->strings_[worker]) {}

  bool Exists(TableId table, RowHandle row) const {
    const Access at = Newest(row);
    return at == kBase ? Stored(table).Exists(Graph().slot[row]) : versions_->state_[at] & BatchVersions::kExists;
  }
  bool Readable(TableId table, RowHandle row) const { return Stored(table).spec().has_default || Exists(table, row); }
  template <Kind kind>
  void Read(TableId table, RowHandle row, ColumnId column, Value* out) const {
    const Access at = Newest(row);
    if (at == kBase) {
      Stored(table).template Read<kind>(Graph().slot[row], column, out);
    } else if (versions_->state_[at] & BatchVersions::kExists) {
      Stored(table).image().template Read<kind>(Image(at), column, out);
    } else {
      *out = Stored(table).spec().defaults[column];
    }
  }
  template <Kind kind>
  void Write(TableId table, RowHandle row, ColumnId column, const Value& value) {
    Own(table, row);
    if constexpr (kind == Kind::kString) {
      Value copy;
      copy.s = strings_->Copy(value.s);
      Stored(table).image().template Write<kind>(Image(row), column, copy);
    } else {
      Stored(table).image().template Write<kind>(Image(row), column, value);
    }
  }
  template <Kind kind, class Function>
  bool Update(TableId table, RowHandle row, ColumnId column, Function function) {
    Value value;
    Read<Kind::kInt64>(table, row, column, &value);
    if (!function(&value)) [[unlikely]]
      return false;
    Own(table, row);
    Stored(table).image().template Write<kind>(Image(row), column, value);
    return true;
  }
  void Insert(TableId, RowHandle row) {
    uint8_t& state = versions_->state_[row];
    state = static_cast<uint8_t>((state & BatchVersions::kCut) | BatchVersions::kOwned | BatchVersions::kExists);
  }
  void Store(TableId table, RowHandle row, ColumnId column, const Value& value) {
    const Kind kind = Stored(table).spec().columns[column];
    Value copy = value;
    if (kind == Kind::kString) copy.s = strings_->Copy(value.s);
    Stored(table).image().Write(Image(row), column, kind, copy);
  }
  void Delete(TableId table, RowHandle row) {
    if (Exists(table, row)) versions_->state_[row] = BatchVersions::kOwned | BatchVersions::kCut;
  }

  // Three steps that ask for a row's newest version, to be taken over many rows in turn. Each looks at what the one
  // before it has asked for; the first says if there is more to do.
  [[gnu::always_inline]] bool PrefetchStored(TableId table, RowHandle row) const {
    if (row >= kHandlesMax) return false;
    const Access previous = Graph().previous[row];
    if (previous != kBase) {
      Prefetch(&versions_->source_[previous]);
      return true;
    }
    PrefetchSlot(table, row);
    return false;
  }
  [[gnu::always_inline]] void PrefetchSource(TableId table, RowHandle row) const {
    const Access previous = row >= kHandlesMax ? kBase : Graph().previous[row];
    if (previous == kBase) return;
    const Access source = versions_->source_[previous];
    if (source == kBase) return PrefetchSlot(table, row);
    Prefetch(&versions_->image_[source]);
    Prefetch(&versions_->state_[source]);
  }
  [[gnu::always_inline]] void PrefetchImage(RowHandle row) const {
    const Access previous = row >= kHandlesMax ? kBase : Graph().previous[row];
    const Access source = previous == kBase ? kBase : versions_->source_[previous];
    if (source != kBase) Prefetch(Image(source));
  }

  // A transaction waits for the latest earlier write of its row, and that one for the write before it: all are settled.
  void AddVersions(TableId table, ColumnId column, RowHandle row, WindowReader* reader) const {
    versions_->AddVersions(table, column, Graph().slot[row], Graph().previous[row], reader);
  }
  // Two steps that ask for what a window needs of a row.
  [[gnu::always_inline]] void PrefetchWindow(TableId table, RowHandle row, const WindowReader&) const {
    if (row >= kHandlesMax) return;
    Stored(table).history()->PrefetchRow(Graph().slot[row]);
    const Access previous = Graph().previous[row];
    if (previous != kBase) Prefetch(&versions_->left_[previous]);
  }
  [[gnu::always_inline]] void PrefetchVersions(TableId table, RowHandle row, const WindowReader& reader) const {
    if (row >= kHandlesMax) return;
    Stored(table).history()->PrefetchVersions(Graph().slot[row], reader.sums());
    const Access previous = Graph().previous[row];
    if (previous == kBase) return;
    const uint64_t* const area = versions_->areas_.data() + versions_->left_[previous].area;
    Prefetch(area);
    Prefetch(area + 8);
  }
  Slot SlotOf(RowHandle row) const { return row >= kHandlesMax ? kNoSlot : Graph().slot[row]; }

  // A row that the transaction names only now. If it roams, nobody else runs; else the row must have been foreseen.
  template <class Key>
  RowHandle Find(TableId table, Key key, bool writes) {
    if (roams_) return versions_->Roam(task_, table, versions_->tables_[table]->FindOrAdd(key), &finder_);
    return versions_->Foreseen(task_, table, Stored(table).index().Find(key), writes, &finder_);
  }
  // Which transaction runs next; who computes keys must know it.
  void Enter(Task task) {
    task_ = task;
    finder_.indexed = false;
    roams_ = all_roam_ || (!Graph().roamers.empty() && Graph().roams(task));
  }
  // From now on every transaction roams.
  void Roam() { all_roam_ = true; }
  // Does the one that was entered? Then tables change while it runs.
  bool roams() const { return roams_; }

 private:
  const morphspark::Graph& Graph() const { return *versions_->graph_; }
  const Table& Stored(TableId table) const { return *versions_->tables_[table]; }
  [[gnu::always_inline]] void PrefetchSlot(TableId table, RowHandle row) const {
    const RowAddresses at = Stored(table).addresses();
    const uint64_t slot = Graph().slot[row];
    Prefetch(at.headers + slot * at.header_bytes);
    Prefetch(at.cells + slot * at.cell_bytes);
  }
  uint64_t* Image(Access access) const { return versions_->words_.data() + versions_->image_[access]; }
  // The access whose image is what the transaction sees: its own, or the latest earlier one; kBase: the table's row.
  Access Newest(RowHandle row) const {
    if (versions_->state_[row] & BatchVersions::kOwned) return row;
    const Access previous = Graph().previous[row];
    return previous == kBase ? kBase : versions_->source_[previous];
  }
  void Own(TableId table, RowHandle row);

  BatchVersions* versions_;
  Arena* strings_;
  Task task_ = 0;
  BatchVersions::Finder finder_;
  bool roams_ = false, all_roam_ = false;
};

}  // namespace morphspark
