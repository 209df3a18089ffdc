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
//   1. older < the log's first id means: no older version is kept.
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
#include "base/column.h"
#include "base/ids.h"
#include "base/status.h"
#include "state/key_index.h"

namespace morphspark {

struct TableSpec {
  std::vector<Kind> key;  // kInt64 or kString each
  std::vector<Kind> columns;
  bool has_default = false;
  std::vector<Value> defaults;           // one per column
  std::vector<std::string> default_text;  // what string defaults point to
};

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

  // A column of a readable row, as a register holds it.
  Value Read(Slot slot, ColumnId column) const {
    if (!Exists(slot)) [[unlikely]] return spec_.defaults[column];
    return ReadStored(slot, column);
  }
  void Prefetch(Slot slot) const {
    __builtin_prefetch(&headers_[slot]);
    __builtin_prefetch(columns_[0].data + uint64_t{slot} * columns_[0].width);
  }

  // Makes the row the transaction's own: its present version goes to the log, once. Creates it from the default
  // where it does not exist. The row must be readable.
  void Own(Slot slot, Stamp stamp) {
    if (headers_[slot].stamp != stamp) PushVersion(slot, stamp);
    if (!Exists(slot)) [[unlikely]] CreateFromDefault(slot);
  }
  // Stores a value in a row that the transaction owns.
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

  uint64_t bytes_reserved() const;
  // Index, headers, counts and chains agree; for tests.
  bool Validate() const;

 private:
  static constexpr uint64_t kExistsBit = uint64_t{1} << 63;

  struct Header {
    Stamp stamp = 0;
    VersionId older_and_exists = 0;
  };
  // A flat column; `data` mirrors `bytes` so that reading is one load.
  struct FlatColumn {
    Kind kind;
    uint32_t width;
    std::vector<uint8_t> bytes;
    uint8_t* data = nullptr;
  };
  // An entry of the log: this head, then the row's columns as they were.
  struct VersionHead {
    Stamp stamp;
    VersionId older_and_exists;
    Slot slot;
  };

  Slot AddSlot();
  template <class Key>
  Slot FindOrAddKey(Key key);
  void Grow(Slot slots);
  Value ReadStored(Slot slot, ColumnId column) const;
  void PushVersion(Slot slot, Stamp stamp);
  void PopVersion();
  void CreateFromDefault(Slot slot);
  void SetExists(Slot slot, bool exists);
  void FreeIfUnused(Slot slot);
  void CompactHeapIfNeeded();
  uint8_t* Cell(Slot slot, ColumnId column) const {
    const FlatColumn& flat = columns_[column];
    return flat.data + uint64_t{slot} * flat.width;
  }

  TableSpec spec_;
  KeyIndex index_;
  std::vector<Header> headers_;
  std::vector<FlatColumn> columns_;
  bool has_strings_ = false;
  uint64_t rows_ = 0;

  std::vector<uint8_t> log_;  // VersionHead + row image, version_bytes_ each
  uint32_t version_bytes_;
  VersionId log_first_ = 1;  // id of the first entry in log_

  std::vector<Slot> free_;     // slots that no key has
  std::vector<Slot> touched_;  // slots added or emptied in this epoch: candidates for free_
  Arena heap_;                 // bytes of string values
};

}  // namespace morphspark
