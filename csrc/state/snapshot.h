// A snapshot: all tables as they were at one instant between two epochs, read in chunks while later epochs run.
//
// Nothing is copied when it begins. For each table a cursor walks the slots and reads rows from the columns. What an
// epoch changes ahead of the cursor is saved when the epoch commits: the table shows each changed row's version from
// before the epoch, and the first one shown of a row is the row as it was when the snapshot began:
//
//        slots     0 ────────── cursor ──────────────────────────── end ──────────▶
//                  read         to be read, or settled: saved,      not there when
//                               or no row when it began             the snapshot began
//
// So an epoch pays for a snapshot by what it changes ahead of the cursor, once per row, and a rollback costs nothing:
// versions are shown at commit only. Saved rows are read first; what they took is free then.
//
// Invariants, between epochs:
//   1. A slot from the cursor to the end that is not settled holds the row, or the lack of one, of the beginning; its
//      key, too, as a slot gets another key only after an epoch has deleted its row.
//   2. Rows at the beginning = rows read by the cursor + rows saved + rows from the cursor to the end, not settled.
//
// Thread safety: none of its own; used between epochs, and by their commit.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/column.h"
#include "base/status.h"
#include "state/table.h"

namespace morphspark {

// One table's part.
class TableSnapshot {
 public:
  explicit TableSnapshot(Table* table);
  ~TableSnapshot();
  TableSnapshot(const TableSnapshot&) = delete;
  TableSnapshot& operator=(const TableSnapshot&) = delete;

  // A row has changed, or is about to: the version before, its columns packed as in the version log (null: there was
  // no row), and the versions that the table's history had of it. Its key still has the slot. It can't fail: without
  // memory the snapshot is lost.
  void Show(Slot slot, const uint8_t* columns, const VersionList& versions = {});

  // The next rows, key parts and then value columns: how many.
  int64_t ReadSaved(int64_t rows_max, ThreadPool* pool, std::vector<ColumnBuffers>* columns);
  int64_t ReadStored(int64_t rows_max, ThreadPool* pool, std::vector<ColumnBuffers>* columns);

  bool lost() const { return lost_; }
  bool Validate() const;

 private:
  // Ends a chunk early, so that no column comes near the 2 GiB that Arrow's offsets reach.
  static constexpr uint64_t kChunkBytesMax = 32 << 20;

  bool Settled(Slot slot) const { return settled_[slot / 64] >> slot % 64 & 1; }
  // `head`: of a version; null: it is only the row.
  void Save(Slot slot, const uint8_t* columns, const uint8_t* head);
  int64_t ReadVersions(std::span<const Slot> slots, ThreadPool* pool, std::vector<ColumnBuffers>* columns);
  uint64_t saved() const { return saved_rows_.size() / saved_bytes_; }
  const uint8_t* Saved(uint64_t row) const { return saved_rows_.data() + row * saved_bytes_; }
  uint64_t OutsideBytes(uint64_t saved_row) const;
  Bytes SavedKey(uint64_t row) const;

  Table* const table_;
  const Slot end_;
  const uint64_t rows_;  // when it began
  Slot cursor_ = 0;
  std::vector<uint64_t> settled_;  // a bit by slot
  uint64_t read_ = 0;              // rows, by the cursor
  uint64_t saved_count_ = 0;       // rows that were saved, read or not
  bool lost_ = false;

  // Saved rows: the key (8 bytes of an integer, or Bytes), then the columns, packed; of a table that keeps versions
  // a row for each, with its head behind. Strings and keys are copies.
  Buffer saved_rows_;
  uint32_t key_bytes_, saved_bytes_, head_bytes_ = 0;
  std::vector<uint32_t> offsets_;  // of each column in a saved row
  uint64_t saved_next_ = 0;        // the first one not read
  Arena strings_;
};

struct SnapshotChunk {
  TableId table = 0;
  int64_t rows = 0;  // none: all were read
  std::vector<ColumnBuffers> columns;
};

class Snapshot {
 public:
  // Between epochs; of tables that have no other.
  explicit Snapshot(std::span<const std::unique_ptr<Table>> tables);

  Status Read(int64_t rows_max, ThreadPool* pool, SnapshotChunk* chunk);
  bool Validate() const;

 private:
  std::vector<std::unique_ptr<TableSnapshot>> parts_;  // by table
};

}  // namespace morphspark
