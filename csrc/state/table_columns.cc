// Rows of a table by the thousand: out as columns of Arrow, and in.
#include <algorithm>
#include <bit>

#include "state/key_blocks.h"
#include "state/row_columns.h"
#include "state/snapshot.h"
#include "state/table.h"

namespace morphspark {
namespace {

constexpr int64_t kApplyAhead = 16, kExportAhead = 16;  // rows

// Distinct slots in ascending order, so that columns are read from front to back: jumping costs several times more than
// this. Few slots of many are left as they are.
void SortSlots(std::vector<Slot>* slots, uint64_t slots_end) {
  if (slots->size() * 64 < slots_end) return;
  std::vector<uint64_t> bits((slots_end + 63) / 64);
  for (Slot slot : *slots) bits[slot / 64] |= uint64_t{1} << slot % 64;
  auto next = slots->begin();
  for (uint64_t word = 0; word < bits.size(); ++word) {
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      *next++ = static_cast<Slot>(word * 64 + static_cast<uint64_t>(std::countr_zero(left)));
    }
  }
}

bool HasNull(const ColumnView& column) {
  if (column.kind == Kind::kNull) return column.length > 0;
  if (column.validity == nullptr) return false;
  for (int64_t row = 0; row < column.length; ++row) {
    if (column.IsNull(row)) return true;
  }
  return false;
}

// A table holds decimals in 8 bytes.
bool Fits(const ColumnView& column) {
  if (column.kind != Kind::kDecimal) return true;
  for (int64_t row = 0; row < column.length; ++row) {
    const Int128 value = column.Decimal(row);
    if (value != static_cast<int64_t>(value)) return false;
  }
  return true;
}

Status CheckColumns(std::span<const ColumnView> columns, std::span<const Kind> kinds, int64_t rows) {
  if (columns.size() != kinds.size()) return Status::Invalid("apply: the rows have not the columns of their table");
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].kind != kinds[i] || columns[i].length != rows) {
      return Status::Invalid("apply: column " + std::to_string(i) + " has not the type or length of its table's");
    }
    if (HasNull(columns[i])) return Status::Invalid("apply: column " + std::to_string(i) + " has nulls");
    if (!Fits(columns[i])) return Status::Invalid("apply: a decimal has more than 18 digits");
  }
  return Status::Ok();
}

// The slots of all keys that are there, on all threads.
template <class MakeKeys>
std::vector<Slot> FindAll(const KeyIndex& index, int64_t rows, MakeKeys make_keys, ThreadPool* pool) {
  std::vector<Slot> slots(static_cast<size_t>(rows));
  EachRows(pool, rows, [&](int64_t begin, int64_t end) {
    const auto keys = make_keys();
    BlockFinder finder(index, keys, slots.data());
    for (int64_t row = begin; row < end; ++row) finder.Add(row);
    finder.Finish();
  });
  return slots;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------ out

std::vector<Slot> Table::LiveSlots() const {
  std::vector<Slot> slots;
  slots.reserve(rows_);
  for (Slot slot = 0; slot < headers_.size(); ++slot) {
    if (Exists(slot)) slots.push_back(slot);
  }
  return slots;
}

std::vector<Table::CommittedRow> Table::CommittedRows() const {
  std::vector<CommittedRow> rows;
  rows.reserve(rows_);
  std::vector<uint64_t> changed(log_.empty() ? 0 : (headers_.size() + 63) / 64);  // a bit by slot
  EachBefore([&](const VersionHead& head, const uint8_t* columns) {
    changed[head.slot / 64] |= uint64_t{1} << head.slot % 64;
    if (head.header & kExistsBit) rows.push_back({head.slot, columns});
  });
  for (Slot slot = 0; slot < headers_.size(); ++slot) {
    if (!Exists(slot)) continue;
    if (changed.empty() || !(changed[slot / 64] >> slot % 64 & 1)) rows.push_back({slot, nullptr});
  }
  return rows;
}

void Table::ExportCommitted(std::vector<ColumnBuffers>* columns) const {
  const std::vector<CommittedRow> rows = CommittedRows();
  std::vector<Slot> slots;
  slots.reserve(rows.size());
  for (const CommittedRow& row : rows) slots.push_back(row.slot);
  for (size_t part = 0; part < spec_.key.size(); ++part) columns->push_back(ExportKey(part, slots));
  if (log_.empty()) {
    for (ColumnId column = 0; column < columns_.size(); ++column) columns->push_back(ExportValues(column, slots));
    return;
  }
  uint32_t offset = 0;  // in a packed row
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    const auto cell = [&, cells = cells_[column], width = uint64_t{columns_[column].width}](int64_t row) {
      const CommittedRow& one = rows[row];
      return one.before ? one.before + offset : cells + one.slot * width;
    };
    columns->push_back(ValueColumn(columns_[column].kind, static_cast<int64_t>(rows.size()), cell, nullptr));
    offset += columns_[column].width;
  }
}

std::vector<Slot> Table::ChangedSlots() const {
  std::vector<Slot> slots;
  slots.reserve(std::min<uint64_t>(log_.size() / version_bytes_, headers_.size()));
  EachBefore([&](const VersionHead& head, const uint8_t*) {
    // A row that was created and deleted again never was.
    if ((head.header & kExistsBit) || Exists(head.slot)) slots.push_back(head.slot);
  });
  SortSlots(&slots, headers_.size());
  return slots;
}

ColumnBuffers Table::ExportKey(size_t part, std::span<const Slot> slots, ThreadPool* pool) const {
  const auto rows = static_cast<int64_t>(slots.size());
  if (index_.integer_keys()) {
    const auto fill = [&](int64_t row, uint8_t* to) {
      const int64_t key = index_.IntegerKey(slots[row]);
      std::memcpy(to, &key, sizeof(key));
    };
    return FixedColumn<sizeof(int64_t)>(rows, fill, pool);
  }
  const auto key = [&](int64_t row) {
    if (row + 2 * kExportAhead < rows) {
      index_.PrefetchKey(slots[row + 2 * kExportAhead]);
      index_.PrefetchLongKey(slots[row + kExportAhead]);
    }
    return index_.BytesKey(slots[row]);
  };
  return KeyColumn(spec_.key, part, rows, key, pool);
}

ColumnBuffers Table::ExportValues(ColumnId column, std::span<const Slot> slots, ThreadPool* pool) const {
  const auto rows = static_cast<int64_t>(slots.size());
  const bool strings = columns_[column].kind == Kind::kString;
  const auto cell = [&, cells = cells_[column], width = uint64_t{columns_[column].width}](int64_t row) {
    if (strings && row + 2 * kExportAhead < rows) {
      Prefetch(cells + slots[row + 2 * kExportAhead] * width);
      const Slot next = slots[row + kExportAhead];
      if (Exists(next)) Prefetch(ReadStored(next, column).s.data);
    }
    return Exists(slots[row]) ? cells + slots[row] * width : nullptr;
  };
  return ValueColumn(columns_[column].kind, rows, cell, pool);
}

ColumnBuffers Table::ExportDeleted(std::span<const Slot> slots, ThreadPool* pool) const {
  return BitColumn(static_cast<int64_t>(slots.size()), [&](int64_t row) { return !Exists(slots[row]); }, pool);
}

// ------------------------------------------------------------------------------------------------------- in

Status Table::Apply(std::span<const ColumnView> keys, std::span<const ColumnView> values, const ColumnView* deleted,
                    ThreadPool* pool, std::span<const ColumnView> versions) {
  const int64_t rows = keys.empty() ? 0 : keys[0].length;
  MORPHSPARK_RETURN_IF_ERROR(CheckColumns(keys, spec_.key, rows));
  MORPHSPARK_RETURN_IF_ERROR(CheckColumns(values, spec_.columns, rows));
  if (deleted != nullptr) {
    static constexpr Kind kBits[] = {Kind::kBool};
    MORPHSPARK_RETURN_IF_ERROR(CheckColumns({deleted, 1}, kBits, rows));
  }
  if (!versions.empty()) {
    if (!history_) return Status::Invalid("apply: the table keeps no versions");
    const std::vector<Kind> words(2 + history_->sessions(), Kind::kInt64);
    MORPHSPARK_RETURN_IF_ERROR(CheckColumns(versions, words, rows));
  }
  const auto apply = [&](auto make_keys) {
    const std::vector<Slot> slots = FindAll(index_, rows, make_keys, pool);
    ApplyKeys(make_keys(), values, deleted, versions, slots);
  };
  if (keys.size() > 1) {
    apply([&] {
      const auto part = [&](size_t number, int64_t row, Value* out) { return keys[number].Load(row, out); };
      return CompositeKeys(std::span<const Kind>(spec_.key), part);
    });
  } else if (index_.integer_keys()) {
    apply([&] { return IntegerKeys{keys[0]}; });
  } else {
    apply([&] { return StringKeys{keys[0]}; });
  }
  return Status::Ok();
}

// In the order of the rows, as keys may come twice. A slot is given back only at the end, so that those found stay
// good.
template <class Keys>
void Table::ApplyKeys(const Keys& keys, std::span<const ColumnView> values, const ColumnView* deleted,
                      std::span<const ColumnView> versions, std::span<const Slot> slots) {
  const auto rows = static_cast<int64_t>(slots.size());
  std::vector<uint8_t> before(version_bytes_);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t ahead = row + kApplyAhead;
    if (ahead < rows && slots[ahead] != kNoSlot) {
      PrefetchToWrite(headers_.data() + slots[ahead]);
      PrefetchToWrite(cells_[0] + uint64_t{slots[ahead]} * columns_[0].width);
    }
    const bool gone = deleted != nullptr && deleted->Bool(row);
    Slot slot = slots[row];
    if (slot == kNoSlot) {  // unless an earlier row added it
      typename Keys::Key key{};
      keys.Load(row, 0, &key);
      slot = gone ? index_.Find(key) : FindOrAdd(key);
      if (slot == kNoSlot) continue;
    }
    if (snapshot_ != nullptr) {
      CopyPacked(slot, before.data());
      snapshot_->Show(slot, Exists(slot) ? before.data() : nullptr,
                      history_ ? history_->Versions(slot) : VersionList());
    }
    if (gone) {
      ApplyDelete(slot);
    } else {
      ApplyRow(slot, values, row);
      if (!versions.empty() && versions[1].Int64(row) != 0) ApplyVersion(slot, versions, row);
    }
  }
  std::erase_if(touched_, [&](Slot slot) { return Exists(slot); });  // nearly all: no room is made for them in free_
  EndEpoch();
}

// Counts agree after every line: there may be no memory for the next string.
void Table::ApplyRow(Slot slot, std::span<const ColumnView> values, int64_t row) {
  const bool existed = Exists(slot);
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    Value value;
    values[column].Load(row, &value);
    const bool counted = existed && columns_[column].kind == Kind::kString;
    const uint64_t before = counted ? ReadStored(slot, column).s.size : 0;
    Store(slot, column, value);
    if (counted) outside_.strings += static_cast<int64_t>(value.s.size - before);
  }
  if (existed) return;
  SetExists(slot, true);
  outside_.strings += StringBytes(slot);
  outside_.keys += static_cast<int64_t>(index_.LongKeyBytes(slot));
}

void Table::ApplyVersion(Slot slot, std::span<const ColumnView> versions, int64_t row) {
  std::vector<int64_t> head;
  for (const ColumnView& word : versions) head.push_back(word.Int64(row));
  uint8_t* const columns = history_->Restore(slot, head);
  CopyPacked(slot, columns);
  history_->KeepStrings(columns);
}

void Table::ApplyDelete(Slot slot) {
  if (!Exists(slot)) return;
  if (history_) history_->Forget(slot);
  touched_.push_back(slot);
  SetExists(slot, false);
  outside_.strings -= StringBytes(slot);
  outside_.keys -= static_cast<int64_t>(index_.LongKeyBytes(slot));
}

}  // namespace morphspark
