#include "state/snapshot.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "state/row_columns.h"
#include "state/version_columns.h"

namespace morphspark {

TableSnapshot::TableSnapshot(Table* table)
    : table_(table), end_(table->slots()), rows_(table->rows()), settled_((uint64_t{end_} + 63) / 64) {
  assert(table->between_epochs());
  key_bytes_ = saved_bytes_ = table->index().integer_keys() ? sizeof(int64_t) : sizeof(Bytes);
  for (Kind kind : table->spec().columns) {
    offsets_.push_back(saved_bytes_);
    saved_bytes_ += StoredWidth(kind);
  }
  if (table->history()) head_bytes_ = static_cast<uint32_t>(16 + 8 * table->history()->sessions());
  saved_bytes_ += head_bytes_;
  table->ShowVersionsTo(this);
}

TableSnapshot::~TableSnapshot() { table_->ShowVersionsTo(nullptr); }

// ------------------------------------------------------------------------------------------------- saving

void TableSnapshot::Show(Slot slot, const uint8_t* columns, const VersionList& versions) {
  if (slot < cursor_ || slot >= end_ || Settled(slot) || lost_) return;
  settled_[slot / 64] |= uint64_t{1} << slot % 64;
  if (columns == nullptr) return;
  try {
    for (uint32_t i = 0; i < versions.count; ++i) {
      Save(slot, versions.at(i) + head_bytes_, versions.at(i));
    }
    if (versions.count == 0) Save(slot, columns, nullptr);
    ++saved_count_;
  } catch (const std::bad_alloc&) {
    lost_ = true;
  }
}

void TableSnapshot::Save(Slot slot, const uint8_t* columns, const uint8_t* head) {
  const uint64_t at = saved_rows_.size();
  saved_rows_.resize(at + saved_bytes_);
  uint8_t* row = saved_rows_.data() + at;
  const KeyIndex& index = table_->index();
  if (index.integer_keys()) {
    const int64_t key = index.IntegerKey(slot);
    std::memcpy(row, &key, sizeof(key));
  } else {
    const Bytes key = strings_.Copy(index.BytesKey(slot));
    std::memcpy(row, &key, sizeof(key));
  }
  const uint32_t packed = saved_bytes_ - key_bytes_ - head_bytes_;
  std::memcpy(row + key_bytes_, columns, packed);
  if (head)
    std::memcpy(row + key_bytes_ + packed, head, head_bytes_);
  else
    std::memset(row + key_bytes_ + packed, 0, head_bytes_);
  const TableSpec& spec = table_->spec();
  for (ColumnId column = 0; column < spec.columns.size(); ++column) {
    if (spec.columns[column] != Kind::kString) continue;
    Bytes text;  // it lies in the table's heap, which is compacted now and then
    std::memcpy(&text, row + offsets_[column], sizeof(text));
    text = strings_.Copy(text);
    std::memcpy(row + offsets_[column], &text, sizeof(text));
  }
}

// ------------------------------------------------------------------------------------------------ reading

Bytes TableSnapshot::SavedKey(uint64_t row) const {
  Bytes key;
  std::memcpy(&key, Saved(row), sizeof(key));
  return key;
}

uint64_t TableSnapshot::OutsideBytes(uint64_t saved_row) const {
  uint64_t bytes = table_->index().integer_keys() ? 0 : SavedKey(saved_row).size;
  const TableSpec& spec = table_->spec();
  for (ColumnId column = 0; column < spec.columns.size(); ++column) {
    if (spec.columns[column] != Kind::kString) continue;
    Bytes text;
    std::memcpy(&text, Saved(saved_row) + offsets_[column], sizeof(text));
    bytes += text.size;
  }
  return bytes;
}

int64_t TableSnapshot::ReadSaved(int64_t rows_max, ThreadPool* pool, std::vector<ColumnBuffers>* columns) {
  int64_t rows = 0;
  for (uint64_t bytes = 0; rows < rows_max && saved_next_ + rows < saved() && bytes < kChunkBytesMax; ++rows) {
    bytes += OutsideBytes(saved_next_ + rows);
  }
  if (rows == 0) return 0;
  const TableSpec& spec = table_->spec();
  const uint64_t first = saved_next_;
  if (table_->index().integer_keys()) {
    const auto fill = [&](int64_t row, uint8_t* to) { std::memcpy(to, Saved(first + row), sizeof(int64_t)); };
    columns->push_back(FixedColumn<sizeof(int64_t)>(rows, fill, pool));
  } else {
    for (size_t part = 0; part < spec.key.size(); ++part) {
      const auto key = [&](int64_t row) { return SavedKey(first + row); };
      columns->push_back(KeyColumn(spec.key, part, rows, key, pool));
    }
  }
  for (ColumnId column = 0; column < spec.columns.size(); ++column) {
    const auto cell = [&](int64_t row) { return Saved(first + row) + offsets_[column]; };
    columns->push_back(ValueColumn(spec.columns[column], rows, cell, pool));
  }
  for (uint32_t word = 0; word < head_bytes_ / 8; ++word) {
    const uint32_t offset = saved_bytes_ - head_bytes_ + 8 * word;
    const auto fill = [&](int64_t row, uint8_t* to) { std::memcpy(to, Saved(first + row) + offset, 8); };
    columns->push_back(FixedColumn<sizeof(int64_t)>(rows, fill, pool));
  }
  saved_next_ += rows;
  if (saved_next_ == saved()) {
    saved_rows_ = Buffer();
    strings_ = Arena();
    saved_next_ = 0;
  }
  return rows;
}

int64_t TableSnapshot::ReadStored(int64_t rows_max, ThreadPool* pool, std::vector<ColumnBuffers>* columns) {
  assert(table_->between_epochs());
  std::vector<Slot> slots;
  slots.reserve(std::min(static_cast<uint64_t>(rows_max), rows_ - read_));
  Slot cursor = cursor_;
  const bool integer_keys = table_->index().integer_keys();
  uint64_t bytes = 0;
  for (; cursor < end_ && static_cast<int64_t>(slots.size()) < rows_max && bytes < kChunkBytesMax; ++cursor) {
    if (!table_->Exists(cursor) || Settled(cursor)) continue;
    slots.push_back(cursor);
    bytes += static_cast<uint64_t>(table_->StringBytes(cursor));
    if (!integer_keys) bytes += table_->index().BytesKey(cursor).size;
  }
  auto rows = static_cast<int64_t>(slots.size());
  if (table_->history() != nullptr) {
    rows = ReadVersions(slots, pool, columns);
  } else if (rows > 0) {
    const TableSpec& spec = table_->spec();
    for (size_t part = 0; part < spec.key.size(); ++part) columns->push_back(table_->ExportKey(part, slots, pool));
    for (ColumnId column = 0; column < spec.columns.size(); ++column)
      columns->push_back(table_->ExportValues(column, slots, pool));
  }
  cursor_ = cursor;  // last: there may have been no memory
  read_ += slots.size();
  if (cursor_ == end_) table_->ShowVersionsTo(nullptr);  // it wants no more
  return rows;
}

int64_t TableSnapshot::ReadVersions(std::span<const Slot> slots, ThreadPool* pool,
                                    std::vector<ColumnBuffers>* columns) {
  std::vector<VersionRow> rows;
  for (Slot slot : slots) {
    const VersionList list = table_->history()->Versions(slot);
    for (uint32_t i = 0; i < list.count; ++i) rows.push_back({slot, list.at(i)});
    if (list.count == 0) rows.push_back({slot, nullptr});
  }
  if (!rows.empty()) ExportVersions(*table_, rows, pool, columns);
  return static_cast<int64_t>(rows.size());
}

bool TableSnapshot::Validate() const {
  if (cursor_ > end_ || saved_next_ > saved() || settled_.size() != (uint64_t{end_} + 63) / 64) return false;
  if (lost_ || !table_->between_epochs()) return true;
  uint64_t left = 0;
  for (Slot slot = cursor_; slot < end_; ++slot) left += table_->Exists(slot) && !Settled(slot);
  return read_ + saved_count_ + left == rows_;
}

// -------------------------------------------------------------------------------------------- all tables

Snapshot::Snapshot(std::span<const std::unique_ptr<Table>> tables) {
  for (const auto& table : tables) parts_.push_back(std::make_unique<TableSnapshot>(table.get()));
}

Status Snapshot::Read(int64_t rows_max, ThreadPool* pool, SnapshotChunk* chunk) {
  for (const auto& part : parts_) {
    if (part->lost()) {
      return Status(StatusCode::kOutOfMemory,
                    "there was not enough memory to keep what epochs changed under an open snapshot: it is lost; the "
                    "state itself is whole");
    }
  }
  for (bool saved : {true, false}) {  // saved rows of any table first: they take memory
    for (TableId table = 0; table < parts_.size(); ++table) {
      TableSnapshot& part = *parts_[table];
      chunk->columns.clear();
      chunk->table = table;
      chunk->rows =
          saved ? part.ReadSaved(rows_max, pool, &chunk->columns) : part.ReadStored(rows_max, pool, &chunk->columns);
      if (chunk->rows > 0) return Status::Ok();
    }
  }
  return Status::Ok();
}

bool Snapshot::Validate() const {
  for (const auto& part : parts_) {
    if (!part->Validate()) return false;
  }
  return true;
}

}  // namespace morphspark
