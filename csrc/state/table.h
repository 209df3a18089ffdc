// A table: flat columns addressed by slot, and a chain of versions per row.
//
//   columns      the newest version of every row
//   version log  older versions, newest last; each knows the one before it, and the transaction that replaced it:
//
//        header[slot] ──▶ log[12] replaced by 7, older ──▶ log[3] replaced by 4, older ──▶ none
//
//                So transaction 7 left the newest version, transaction 4 the one in log[12].
//
// A transaction that writes a row for the first time pushes the row's present version to the log and then changes the
// columns in place; so the log is also what undoes an abort, and what undoes an epoch. After the commit it is emptied
// in O(1): versions that windows need later are in the table's history (history.h), and what an open snapshot
// (snapshot.h) needs is copied just before.
//
// An entry whose row's header names no entry of this epoch is the row's first one: it holds the row as it was before
// the epoch. So the rows that an epoch changed fall out of one pass over the log, each once.
//
// Headers are small, as every access looks at one: a bit that says whether the row exists, and the id of its newest
// entry in the log.
//
// Invariants:
//   1. An id below that of the log's first entry means: no older version is kept.
//   2. Rows written by the running transaction are the log's entries since `Begin`.
//   3. A slot with no row and no version is given back at the end of the epoch.
//
// Thread safety: none of its own; the strategy that runs decides who may touch which row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/column.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "state/history.h"
#include "state/key_index.h"
#include "state/row_image.h"

namespace morphspark {

class TableSnapshot;

// Adds a part of a composite key to its bytes.
void AppendKeyPart(Kind kind, const Value& part, std::string* key);

// Where a row begins, to ask the processor for it. Good until a key is added.
struct RowAddresses {
  const uint8_t* headers;
  const uint8_t* cells;
  uint32_t header_bytes, cell_bytes;
};

class Table {
 public:
  explicit Table(TableSpec spec);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const { return spec_; }
  const KeyIndex& index() const { return index_; }
  uint64_t rows() const { return rows_; }
  Slot slots() const { return static_cast<Slot>(headers_.size()); }  // one more than the largest
  const RowImage& image() const { return image_; }

  // -- slots: a key gets one when it is first named, whether or not a row exists

  Slot FindOrAdd(int64_t key);
  Slot FindOrAdd(Bytes key);

  // -- rows, as the newest version has them

  bool Exists(Slot slot) const { return headers_[slot] & kExistsBit; }
  bool Readable(Slot slot) const { return spec_.has_default || Exists(slot); }

  // A column of a readable row, as a register holds it. kInt64 reads timestamps and floats, too.
  template <Kind kind>
  void Read(Slot slot, ColumnId column, Value* out) const {
    if (!Exists(slot)) [[unlikely]] {
      *out = spec_.defaults[column];
    } else {
      ReadStoredAs<kind>(slot, column, out);
    }
  }
  RowAddresses addresses() const {
    const auto* headers = reinterpret_cast<const uint8_t*>(headers_.data());
    return {headers, cells_[0], sizeof(Header), columns_[0].width};
  }

  // A transaction starts that may write to this table.
  void Begin(Stamp stamp) {
    transaction_ = stamp;
    transaction_begin_ = log_next_;
    deleted_.clear();
  }
  // Makes the row the transaction's own: its present version goes to the log, once. Creates it from the default
  // where it does not exist. The row must be readable.
  void Own(Slot slot) {
    if (!Owned(slot)) PushVersion(slot);
    if (!Exists(slot)) [[unlikely]]
      CreateFromDefault(slot);
  }
  // A cell of 8 bytes as a function of itself: Read, Own and Store in one look at the row. The row must be readable;
  // false, and nothing changed, if the function says so.
  template <Kind kind, class Function>
  bool Update(Slot slot, ColumnId column, Function function) {
    static_assert(StoredWidth(kind) == 8);
    Value value;
    const Header header = headers_[slot];
    if (single_word_ && (header & kExistsBit)) [[likely]] {  // nothing is looked at twice
      uint8_t* const cell = cells_[0] + uint64_t{slot} * 8;
      std::memcpy(&value.i, cell, 8);
      const int64_t before = value.i;
      if (!function(&value)) [[unlikely]]
        return false;
      if ((header & ~kExistsBit) < transaction_begin_) {
        const VersionHead head{transaction_, header, slot};
        uint8_t* entry = NextEntry();
        std::memcpy(entry, &head, sizeof(head));
        std::memcpy(entry + sizeof(head), &before, 8);
        headers_[slot] = kExistsBit | log_next_++;
      }
      if constexpr (kind == Kind::kFloat64) value.f = CanonicalNan(value.f);
      std::memcpy(cell, &value.i, 8);
      return true;
    }
    Read<Kind::kInt64>(slot, column, &value);
    if (!function(&value)) [[unlikely]]
      return false;
    Own(slot);
    StoreAs<kind>(slot, column, value);
    return true;
  }
  // Stores a value in a row that the transaction owns. kInt64 stores timestamps, too.
  template <Kind kind>
  void StoreAs(Slot slot, ColumnId column, const Value& value) {
    uint8_t* cell = cells_[column] + uint64_t{slot} * StoredWidth(kind);
    if constexpr (kind == Kind::kBool) {
      *cell = static_cast<uint8_t>(value.i);
    } else if constexpr (kind == Kind::kString) {
      const Bytes copy = heap_.Copy(value.s);
      std::memcpy(cell, &copy, sizeof(copy));
    } else if constexpr (kind == Kind::kDecimal) {
      const auto unscaled = static_cast<int64_t>(value.d);
      std::memcpy(cell, &unscaled, sizeof(unscaled));
    } else if constexpr (kind == Kind::kFloat64) {
      const double canonical = CanonicalNan(value.f);
      std::memcpy(cell, &canonical, sizeof(canonical));
    } else {
      std::memcpy(cell, &value.i, sizeof(value.i));
    }
  }
  void Store(Slot slot, ColumnId column, Value value);
  // Creates an absent row; every column is stored next.
  void Insert(Slot slot);
  void Delete(Slot slot);

  // -- rows as images

  // Copies a row that exists.
  void CopyTo(Slot slot, uint64_t* image) const {
    for (ColumnId column = 0; column < columns_.size(); ++column) {
      const uint32_t width = columns_[column].width;
      image[image_.offset(column)] = 0;
      std::memcpy(image + image_.offset(column), cells_[column] + uint64_t{slot} * width, width);
    }
  }
  // Makes a row what the transaction left: an image, or no row (null).
  void Install(Slot slot, const uint64_t* image);

  // -- versions that outlive the epoch; null: the table keeps none

  const History* history() const { return history_.get(); }
  History* history() { return history_.get(); }
  // The transaction has committed at this time: each row that it wrote has one more version, or none any more.
  void LeaveVersions(int64_t time);
  // The same of one row, which an image (null: no row) describes; `cut`: it was deleted on the way.
  void LeaveVersion(Slot slot, const uint64_t* image, bool cut, int64_t time, Stamp stamp);
  // A cell of a row that exists, else null.
  const uint8_t* CellOrNull(Slot slot, ColumnId column) const {
    return Exists(slot) ? cells_[column] + uint64_t{slot} * columns_[column].width : nullptr;
  }

  // -- the ends of a transaction and of an epoch

  // Takes back what happened since `Begin`.
  void Undo();
  // `now`: the effective timestamp of the last transaction; versions are kept as seen from there.
  void CommitEpoch(int64_t now = 0);
  void RollbackEpoch();

  // -- whole columns (table_columns.cc); a pool, where given, shares the work

  // Gives rows their values, with stamp 0, or deletes those that `deleted` (may be null) says. Of several rows with one
  // key the last counts. Part of no epoch. Fails before any change, unless there is no memory.
  // `versions`, where given: time, sequence and beginnings of sessions of each, which becomes one more version of its
  // row.
  Status Apply(std::span<const ColumnView> keys, std::span<const ColumnView> values,
               const ColumnView* deleted = nullptr, ThreadPool* pool = nullptr,
               std::span<const ColumnView> versions = {});
  std::vector<Slot> LiveSlots() const;
  // Rows that are not what they were before the epoch, each once, and those written with equal values.
  std::vector<Slot> ChangedSlots() const;
  ColumnBuffers ExportKey(size_t part, std::span<const Slot> slots, ThreadPool* pool = nullptr) const;
  // Zeros where there is no row.
  ColumnBuffers ExportValues(ColumnId column, std::span<const Slot> slots, ThreadPool* pool = nullptr) const;
  ColumnBuffers ExportDeleted(std::span<const Slot> slots, ThreadPool* pool = nullptr) const;

  // -- what is committed, while an epoch is under way

  // A row as it was before the epoch.
  struct CommittedRow {
    Slot slot;
    const uint8_t* before;  // its columns, packed in the log; null: as the table has them
  };
  std::vector<CommittedRow> CommittedRows() const;
  // Key parts and value columns of those.
  void ExportCommitted(std::vector<ColumnBuffers>* columns) const;

  // -- snapshots

  // From now on older versions are shown to this before they go; null: to nobody.
  void ShowVersionsTo(TableSnapshot* snapshot) { snapshot_ = snapshot; }
  // Bytes of a row's strings.
  int64_t StringBytes(Slot slot) const;
  // Nothing of an epoch is under way.
  bool between_epochs() const { return log_.empty(); }

  // A row's key as people write it.
  std::string KeyText(Slot slot) const;

  // What the rows take that exist now, to the byte: not what an epoch needs only while it runs (older versions, values
  // that were overwritten, keys that were only named). Looks at all versions of the epoch if there are strings.
  uint64_t bytes_used() const;
  // The same or more, without a look at anything.
  uint64_t bytes_at_most() const;
  // What is held from the system for them.
  uint64_t bytes_reserved() const;
  // Index, headers, counts and chains agree; for tests.
  bool Validate() const;

 private:
  // A row's header: kExistsBit, and the id of its newest entry in the log (kNoVersion: none).
  using Header = uint32_t;
  static constexpr Header kExistsBit = 1u << 31;
  static constexpr VersionId kNoVersion = 0;
  static constexpr VersionId kFreed = kExistsBit - 1;  // of a slot in free_
  static constexpr VersionId kVersionsMax = kFreed - 1;

  struct FlatColumn {
    Kind kind;
    uint32_t width;
    std::vector<uint8_t> bytes;
  };
  // An entry of the log: this head, then the row's columns as they were.
  struct VersionHead {
    Stamp replaced_by;
    Header header;  // of the row, when this was its newest version
    Slot slot;
  };

  // Bytes of rows that lie outside of their fixed part.
  struct Outside {
    int64_t strings = 0;
    int64_t keys = 0;  // the long ones
  };

  bool Owned(Slot slot) const { return (headers_[slot] & ~kExistsBit) >= transaction_begin_; }
  Slot NextSlot();
  template <class Key>
  Slot FindOrAddKey(Key key);
  void Grow(Slot slots);
  // Writes only the bytes that the kind has: a copy of all 16 would wait for the 8 just stored.
  template <Kind kind>
  void ReadStoredAs(Slot slot, ColumnId column, Value* out) const {
    const uint8_t* cell = cells_[column] + uint64_t{slot} * StoredWidth(kind);
    if constexpr (kind == Kind::kBool) {
      out->i = *cell;
    } else if constexpr (kind == Kind::kString) {
      std::memcpy(&out->s, cell, sizeof(Bytes));
    } else if constexpr (kind == Kind::kDecimal) {
      int64_t unscaled;
      std::memcpy(&unscaled, cell, sizeof(unscaled));
      out->d = unscaled;
    } else {
      std::memcpy(&out->i, cell, sizeof(out->i));
    }
  }
  Value ReadStored(Slot slot, ColumnId column) const;
  uint8_t* NextEntry() {
    if (log_next_ > kVersionsMax) [[unlikely]]
      TooManyVersions();
    const uint64_t at = log_.size();
    log_.resize(at + version_bytes_);
    return log_.data() + at;
  }
  void PushVersion(Slot slot) {
    const Header header = headers_[slot];
    const VersionHead head{transaction_, header, slot};
    uint8_t* entry = NextEntry();
    std::memcpy(entry, &head, sizeof(head));
    entry += sizeof(head);
    if (single_word_) {  // the usual row: one load and one store
      std::memcpy(entry, cells_[0] + uint64_t{slot} * 8, 8);
    } else {
      CopyPacked(slot, entry);
    }
    headers_[slot] = (header & kExistsBit) | log_next_++;
  }
  // A row's columns, packed as in an entry of the log.
  void CopyPacked(Slot slot, uint8_t* to) const {
    for (const FlatColumn& column : columns_) {
      std::memcpy(to, column.bytes.data() + uint64_t{slot} * column.width, column.width);
      to += column.width;
    }
  }
  // Calls visit(head, columns) for each changed row's version from before the epoch. Today the log holds no other
  // epoch's.
  template <class Visit>
  void EachBefore(Visit visit) const {
    const VersionId first = log_next_ - static_cast<VersionId>(log_.size() / version_bytes_);
    for (uint64_t at = 0; at < log_.size(); at += version_bytes_) {
      VersionHead head;
      std::memcpy(&head, log_.data() + at, sizeof(head));
      if ((head.header & ~kExistsBit) < first) visit(head, log_.data() + at + sizeof(head));
    }
  }
  void ShowVersions();
  static Slot SlotOfEntry(const uint8_t* packed) {
    VersionHead head;
    std::memcpy(&head, packed - sizeof(head), sizeof(head));
    return head.slot;
  }
  void ApplyRow(Slot slot, std::span<const ColumnView> values, int64_t row);
  void ApplyDelete(Slot slot);
  template <class Keys>
  void ApplyKeys(const Keys& keys, std::span<const ColumnView> values, const ColumnView* deleted,
                 std::span<const ColumnView> versions, std::span<const Slot> slots);
  void ApplyVersion(Slot slot, std::span<const ColumnView> versions, int64_t row);
  [[noreturn]] static void TooManyVersions();
  void PopVersion();
  void CreateFromDefault(Slot slot);
  void SetExists(Slot slot, bool exists);
  void EndEpoch();
  void FreeIfUnused(Slot slot);
  void CompactHeapIfNeeded();
  void CompactHeap();
  template <class Visit>
  void EachString(Visit visit) const;
  int64_t StringBytes(const uint8_t* packed) const;
  Outside OutsideNow() const;

  TableSpec spec_;
  RowImage image_;
  KeyIndex index_;
  std::vector<Header> headers_;
  std::vector<FlatColumn> columns_;
  std::vector<uint8_t*> cells_;  // first cell of each column: what reading and writing need
  bool single_word_;             // one column of 8 bytes
  bool has_strings_ = false;
  uint64_t rows_ = 0;

  Buffer log_;  // VersionHead + row image, version_bytes_ each
  uint32_t version_bytes_;
  VersionId log_next_ = 1;           // id of the next entry of log_
  VersionId transaction_begin_ = 1;  // id of the first entry of the transaction that runs
  Stamp transaction_ = 0;            // which one that is
  std::vector<Slot> deleted_;        // rows that it deleted, whatever came after; of tables that keep versions
  std::unique_ptr<History> history_;

  std::vector<Slot> free_;     // slots that no key has
  std::vector<Slot> touched_;  // slots added or emptied in this epoch: candidates for free_
  Arena heap_;                 // bytes of string values
  Outside outside_;            // of the rows as they were before the log's first entry

  TableSnapshot* snapshot_ = nullptr;
};

}  // namespace morphspark
