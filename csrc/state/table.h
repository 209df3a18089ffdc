// A table: flat columns addressed by slot, and a chain of versions per row.
//
//   columns      the newest version of every row; `header[slot]` says which transaction left it
//   version log  older versions, newest last; each knows the one before it:
//
//        header[slot] ── stamp 7, older ──▶ log[12] stamp 4, older ──▶ log[3] stamp 0, older ──▶ none
//
// A transaction that writes a row for the first time pushes the row's present version to the log and then changes the
// columns in place; so the log is also what undoes an abort, and what undoes an epoch. After the commit the log is cut
// at the oldest version that somebody still needs; today nobody does, so it is emptied in O(1).
//
// Invariants:
//   1. older < the id of the log's first entry means: no older version is kept.
//   2. Rows written by the running transaction are the newest entries of the log (header stamp = its stamp).
//   3. A slot with no row and no version is given back at the end of the epoch.
//
// Thread safety: none of its own; the strategy that runs decides who may touch which row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/column.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "state/key_index.h"

namespace morphspark {

struct TableSpec {
  std::vector<Kind> key;  // kInt64 or kString each
  std::vector<Kind> columns;
  bool has_default = false;
  std::vector<Value> defaults;            // one per column
  std::vector<std::string> default_text;  // what string defaults point to
};

// Bytes of a cell in a flat column.
constexpr uint32_t StoredWidth(Kind kind) {
  if (kind == Kind::kBool) return 1;
  return kind == Kind::kString ? sizeof(Bytes) : 8;
}

// Adds a part of a composite key to its bytes.
void AppendKeyPart(Kind kind, const Value& part, std::string* key);

class Table {
 public:
  explicit Table(TableSpec spec);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const { return spec_; }
  const KeyIndex& index() const { return index_; }
  uint64_t rows() const { return rows_; }

  // -- slots: a key gets one when it is first named, whether or not a row exists

  Slot FindOrAdd(int64_t key);
  Slot FindOrAdd(Bytes key);

  // -- rows, as the newest version has them

  bool Exists(Slot slot) const { return headers_[slot].older_and_exists & kExistsBit; }
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
  [[gnu::always_inline]] void PrefetchRow(Slot slot) const {
    Prefetch(headers_.data() + slot);
    Prefetch(cells_[0] + uint64_t{slot} * columns_[0].width);
  }

  // Makes the row the transaction's own: its present version goes to the log, once. Creates it from the default
  // where it does not exist. The row must be readable.
  void Own(Slot slot, Stamp stamp) {
    if (headers_[slot].stamp != stamp) PushVersion(slot, stamp);
    if (!Exists(slot)) [[unlikely]]
      CreateFromDefault(slot);
  }
  // A cell of 8 bytes as a function of itself: Read, Own and Store in one look at the row. The row must be readable;
  // false, and nothing changed, if the function says so.
  template <Kind kind, class Function>
  bool Update(Slot slot, ColumnId column, Stamp stamp, Function function) {
    static_assert(StoredWidth(kind) == 8);
    Value value;
    Read<Kind::kInt64>(slot, column, &value);
    if (!function(&value)) [[unlikely]]
      return false;
    Own(slot, stamp);
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
  void Insert(Slot slot, Stamp stamp);
  void Delete(Slot slot, Stamp stamp);

  // -- the ends of a transaction and of an epoch

  // Takes back everything that this transaction did; it must be the newest that wrote to this table.
  void Undo(Stamp stamp);
  void CommitEpoch();
  void RollbackEpoch();

  // -- whole columns

  // Adds rows with stamp 0; keys and values are checked. Part of no epoch.
  void Load(std::span<const ColumnView> keys, std::span<const ColumnView> values);
  std::vector<Slot> LiveSlots() const;
  ColumnBuffers ExportKey(size_t part, std::span<const Slot> slots) const;
  ColumnBuffers ExportValues(ColumnId column, std::span<const Slot> slots) const;

  // What the rows take: goes down again when they do. Without the version log, which an epoch needs only while it runs.
  uint64_t bytes_used() const;
  // What is held from the system for them.
  uint64_t bytes_reserved() const;
  // Index, headers, counts and chains agree; for tests.
  bool Validate() const;

 private:
  static constexpr uint64_t kExistsBit = uint64_t{1} << 63;

  struct Header {
    Stamp stamp = 0;
    VersionId older_and_exists = 0;
  };
  struct FlatColumn {
    Kind kind;
    uint32_t width;
    std::vector<uint8_t> bytes;
  };
  // An entry of the log: this head, then the row's columns as they were.
  struct VersionHead {
    Stamp stamp;
    VersionId older_and_exists;
    uint64_t slot;  // as wide as it is copied: a load of 8 bytes would wait for a store of 4
  };

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
  void PushVersion(Slot slot, Stamp stamp) {
    Header& header = headers_[slot];
    const uint64_t at = log_.size();
    log_.resize(at + version_bytes_);
    uint8_t* entry = log_.data() + at;
    const VersionHead head{header.stamp, header.older_and_exists, slot};
    std::memcpy(entry, &head, sizeof(head));
    entry += sizeof(head);
    if (single_word_) {  // the usual row: one load and one store
      std::memcpy(entry, cells_[0] + uint64_t{slot} * 8, 8);
    } else {
      for (const FlatColumn& column : columns_) {
        std::memcpy(entry, column.bytes.data() + uint64_t{slot} * column.width, column.width);
        entry += column.width;
      }
    }
    header.stamp = stamp;
    header.older_and_exists = (header.older_and_exists & kExistsBit) | log_next_++;
  }
  void PopVersion();
  void CreateFromDefault(Slot slot);
  void SetExists(Slot slot, bool exists);
  void EndEpoch();
  void FreeIfUnused(Slot slot);
  void CompactHeapIfNeeded();
  void CompactHeap(uint64_t live);
  template <class Visit>
  void EachString(Visit visit) const;
  uint64_t LiveStringBytes() const;

  TableSpec spec_;
  KeyIndex index_;
  std::vector<Header> headers_;
  std::vector<FlatColumn> columns_;
  std::vector<uint8_t*> cells_;  // first cell of each column: what reading and writing need
  bool single_word_;             // one column of 8 bytes
  bool has_strings_ = false;
  uint64_t rows_ = 0;

  Buffer log_;  // VersionHead + row image, version_bytes_ each
  uint32_t version_bytes_;
  VersionId log_next_ = 1;  // id of the next entry of log_

  std::vector<Slot> free_;     // slots that no key has
  std::vector<Slot> touched_;  // slots added or emptied in this epoch: candidates for free_
  Arena heap_;                 // bytes of string values
  uint64_t heap_compact_at_;   // bytes used at which it is worth to look how many of them live
};

}  // namespace morphspark
