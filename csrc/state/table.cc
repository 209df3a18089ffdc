#include "state/table.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>

namespace morphspark {
namespace {

constexpr Slot kFirstSlots = 64;
constexpr uint64_t kHeapCompactBytes = 1 << 20;

uint32_t StoredWidth(Kind kind) {
  if (kind == Kind::kBool) return 1;
  return kind == Kind::kString ? sizeof(Bytes) : 8;
}

bool IsIntegerKey(const TableSpec& spec) { return spec.key.size() == 1 && spec.key[0] == Kind::kInt64; }

}  // namespace

void AppendKeyPart(Kind kind, const Value& part, std::string* key) {
  if (kind == Kind::kInt64) {
    key->append(reinterpret_cast<const char*>(&part.i), sizeof(part.i));
    return;
  }
  const auto size = static_cast<uint32_t>(part.s.size);
  key->append(reinterpret_cast<const char*>(&size), sizeof(size));
  key->append(part.s.data, part.s.size);
}

Table::Table(TableSpec spec) : spec_(std::move(spec)), index_(IsIntegerKey(spec_)) {
  version_bytes_ = sizeof(VersionHead);
  for (Kind kind : spec_.columns) {
    columns_.push_back({kind, StoredWidth(kind), {}, nullptr});
    version_bytes_ += StoredWidth(kind);
    has_strings_ |= kind == Kind::kString;
  }
  version_bytes_ = (version_bytes_ + 7) / 8 * 8;
  for (ColumnId column = 0; column < spec_.defaults.size(); ++column) {
    const std::string& text = spec_.default_text[column];
    if (spec_.columns[column] == Kind::kString) spec_.defaults[column].s = {text.data(), text.size()};
  }
  Grow(kFirstSlots);
}

// ------------------------------------------------------------------------------------------------- slots

template <class Key>
Slot Table::FindOrAddKey(Key key) {
  const Slot found = index_.Find(key);
  if (found != kNoSlot) return found;
  const Slot slot = AddSlot();
  index_.Insert(key, slot);
  return slot;
}

Slot Table::FindOrAdd(int64_t key) { return FindOrAddKey(key); }
Slot Table::FindOrAdd(Bytes key) { return FindOrAddKey(key); }

Slot Table::AddSlot() {
  Slot slot;
  if (free_.empty()) {
    slot = static_cast<Slot>(headers_.size());
    if (slot >= kNullKey) throw std::bad_alloc();
    headers_.emplace_back();
    if (headers_.size() * columns_[0].width > columns_[0].bytes.size()) Grow(static_cast<Slot>(2 * headers_.size()));
  } else {
    slot = free_.back();
    free_.pop_back();
    headers_[slot] = Header();
  }
  touched_.push_back(slot);
  return slot;
}

void Table::Grow(Slot slots) {
  headers_.reserve(slots);
  for (FlatColumn& column : columns_) {
    column.bytes.resize(uint64_t{slots} * column.width);
    column.data = column.bytes.data();
  }
}

// -------------------------------------------------------------------------------------------------- rows

Value Table::ReadStored(Slot slot, ColumnId column) const {
  Value value;
  const uint8_t* cell = Cell(slot, column);
  switch (columns_[column].kind) {
    case Kind::kBool: value.i = *cell; break;
    case Kind::kString: std::memcpy(&value.s, cell, sizeof(Bytes)); break;
    case Kind::kDecimal: {
      int64_t unscaled;
      std::memcpy(&unscaled, cell, sizeof(unscaled));
      value.d = unscaled;
      break;
    }
    default: std::memcpy(&value.i, cell, sizeof(int64_t));
  }
  return value;
}

void Table::Store(Slot slot, ColumnId column, Value value) {
  uint8_t* cell = Cell(slot, column);
  switch (columns_[column].kind) {
    case Kind::kBool: *cell = static_cast<uint8_t>(value.i); break;
    case Kind::kString: {
      const Bytes copy = heap_.Copy(value.s);
      std::memcpy(cell, &copy, sizeof(copy));
      break;
    }
    case Kind::kDecimal: {
      const auto unscaled = static_cast<int64_t>(value.d);
      std::memcpy(cell, &unscaled, sizeof(unscaled));
      break;
    }
    case Kind::kFloat64: value.f = CanonicalNan(value.f); [[fallthrough]];
    default: std::memcpy(cell, &value.i, sizeof(int64_t));
  }
}

void Table::CreateFromDefault(Slot slot) {
  assert(spec_.has_default);
  SetExists(slot, true);
  for (ColumnId column = 0; column < columns_.size(); ++column) Store(slot, column, spec_.defaults[column]);
}

void Table::Insert(Slot slot, Stamp stamp) {
  assert(!Exists(slot));
  if (headers_[slot].stamp != stamp) PushVersion(slot, stamp);
  SetExists(slot, true);
}

void Table::Delete(Slot slot, Stamp stamp) {
  if (!Exists(slot)) return;
  if (headers_[slot].stamp != stamp) PushVersion(slot, stamp);
  SetExists(slot, false);
  touched_.push_back(slot);
}

void Table::SetExists(Slot slot, bool exists) {
  Header& header = headers_[slot];
  rows_ += exists ? 1 : -1;
  header.older_and_exists = exists ? header.older_and_exists | kExistsBit : header.older_and_exists & ~kExistsBit;
}

// ---------------------------------------------------------------------------------------------- versions

void Table::PushVersion(Slot slot, Stamp stamp) {
  Header& header = headers_[slot];
  const uint64_t at = log_.size();
  log_.resize(at + version_bytes_);
  uint8_t* entry = log_.data() + at;
  const VersionHead head{header.stamp, header.older_and_exists, slot};
  std::memcpy(entry, &head, sizeof(head));
  entry += sizeof(head);
  for (const FlatColumn& column : columns_) {
    std::memcpy(entry, column.data + uint64_t{slot} * column.width, column.width);
    entry += column.width;
  }
  header.stamp = stamp;
  header.older_and_exists = (header.older_and_exists & kExistsBit) | (log_first_ + at / version_bytes_);
}

void Table::PopVersion() {
  const uint64_t at = log_.size() - version_bytes_;
  const uint8_t* entry = log_.data() + at;
  VersionHead head;
  std::memcpy(&head, entry, sizeof(head));
  entry += sizeof(head);
  Header& header = headers_[head.slot];
  rows_ += static_cast<int>((head.older_and_exists & kExistsBit) != 0) -
           static_cast<int>((header.older_and_exists & kExistsBit) != 0);
  header = {head.stamp, head.older_and_exists};
  for (const FlatColumn& column : columns_) {
    std::memcpy(column.data + uint64_t{head.slot} * column.width, entry, column.width);
    entry += column.width;
  }
  log_.resize(at);
}

void Table::Undo(Stamp stamp) {
  while (!log_.empty()) {
    VersionHead head;
    std::memcpy(&head, log_.data() + log_.size() - version_bytes_, sizeof(head));
    if (headers_[head.slot].stamp != stamp) return;
    PopVersion();
  }
}

void Table::CommitEpoch() {
  log_first_ += log_.size() / version_bytes_;
  log_.clear();
  for (Slot slot : touched_) FreeIfUnused(slot);
  touched_.clear();
  CompactHeapIfNeeded();
}

void Table::RollbackEpoch() {
  if (log_.empty() && touched_.empty()) return;
  while (!log_.empty()) PopVersion();
  for (Slot slot : touched_) FreeIfUnused(slot);
  touched_.clear();
  CompactHeapIfNeeded();
}

void Table::FreeIfUnused(Slot slot) {
  // A slot may be listed twice (added, then emptied): the marker keeps it from being freed twice.
  constexpr Stamp kFreed = ~Stamp{0};
  if (Exists(slot) || headers_[slot].stamp == kFreed) return;
  index_.Erase(slot);
  headers_[slot] = {kFreed, 0};
  free_.push_back(slot);
}

void Table::CompactHeapIfNeeded() {
  if (!has_strings_ || heap_.used() < kHeapCompactBytes) return;
  uint64_t live = 0;
  const std::vector<Slot> slots = LiveSlots();
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (columns_[column].kind != Kind::kString) continue;
    for (Slot slot : slots) live += ReadStored(slot, column).s.size;
  }
  if (heap_.used() < 2 * live + kHeapCompactBytes) return;
  Arena old = std::move(heap_);
  heap_ = Arena();
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (columns_[column].kind != Kind::kString) continue;
    for (Slot slot : slots) Store(slot, column, ReadStored(slot, column));
  }
}

// ----------------------------------------------------------------------------------------- whole columns

void Table::Load(std::span<const ColumnView> keys, std::span<const ColumnView> values) {
  const int64_t count = keys[0].length;
  std::string composite;
  for (int64_t row = 0; row < count; ++row) {
    Slot slot;
    if (index_.integer_keys()) {
      slot = FindOrAdd(keys[0].Int64(row));
    } else if (keys.size() == 1) {
      slot = FindOrAdd(keys[0].String(row));
    } else {
      composite.clear();
      for (size_t part = 0; part < keys.size(); ++part) {
        Value value;
        keys[part].Load(row, &value);
        AppendKeyPart(spec_.key[part], value, &composite);
      }
      slot = FindOrAdd(Bytes{composite.data(), composite.size()});
    }
    if (!Exists(slot)) SetExists(slot, true);
    for (ColumnId column = 0; column < columns_.size(); ++column) {
      Value value;
      values[column].Load(row, &value);
      Store(slot, column, value);
    }
  }
  touched_.clear();
}

std::vector<Slot> Table::LiveSlots() const {
  std::vector<Slot> slots;
  slots.reserve(rows_);
  for (Slot slot = 0; slot < headers_.size(); ++slot) {
    if (Exists(slot)) slots.push_back(slot);
  }
  return slots;
}

namespace {

// Where a part of a composite key begins.
const char* SkipParts(const char* at, std::span<const Kind> parts) {
  for (Kind kind : parts) {
    if (kind == Kind::kInt64) {
      at += sizeof(int64_t);
    } else {
      uint32_t size;
      std::memcpy(&size, at, sizeof(size));
      at += sizeof(size) + size;
    }
  }
  return at;
}

class StringColumn {
 public:
  explicit StringColumn(size_t rows) {
    column_.length = static_cast<int64_t>(rows);
    column_.offsets.resize((rows + 1) * sizeof(int32_t));
  }
  void Append(Bytes bytes) {
    column_.values.insert(column_.values.end(), bytes.data, bytes.data + bytes.size);
    if (column_.values.size() > INT32_MAX) throw std::length_error("a string column holds more than 2 GiB");
    reinterpret_cast<int32_t*>(column_.offsets.data())[++row_] = static_cast<int32_t>(column_.values.size());
  }
  ColumnBuffers Take() { return std::move(column_); }

 private:
  ColumnBuffers column_;
  size_t row_ = 0;
};

ColumnBuffers FixedColumn(size_t rows, size_t width) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(rows);
  column.values.resize(rows * width);
  return column;
}

}  // namespace

ColumnBuffers Table::ExportKey(size_t part, std::span<const Slot> slots) const {
  const std::span<const Kind> before(spec_.key.data(), part);
  const bool single = spec_.key.size() == 1;
  if (spec_.key[part] == Kind::kInt64) {
    ColumnBuffers column = FixedColumn(slots.size(), sizeof(int64_t));
    for (size_t row = 0; row < slots.size(); ++row) {
      const int64_t whole = single ? index_.IntegerKey(slots[row]) : 0;
      const char* from = single ? reinterpret_cast<const char*>(&whole)
                                : SkipParts(index_.BytesKey(slots[row]).data, before);
      std::memcpy(column.values.data() + row * sizeof(int64_t), from, sizeof(int64_t));
    }
    return column;
  }
  StringColumn column(slots.size());
  for (Slot slot : slots) {
    Bytes key = index_.BytesKey(slot);
    if (!single) {
      const char* at = SkipParts(key.data, before);
      uint32_t size;
      std::memcpy(&size, at, sizeof(size));
      key = {at + sizeof(size), size};
    }
    column.Append(key);
  }
  return column.Take();
}

ColumnBuffers Table::ExportValues(ColumnId column, std::span<const Slot> slots) const {
  const Kind kind = columns_[column].kind;
  if (kind == Kind::kString) {
    StringColumn strings(slots.size());
    for (Slot slot : slots) strings.Append(ReadStored(slot, column).s);
    return strings.Take();
  }
  if (kind == Kind::kBool) {
    ColumnBuffers bits;
    bits.length = static_cast<int64_t>(slots.size());
    bits.values.resize((slots.size() + 7) / 8);
    for (size_t row = 0; row < slots.size(); ++row) {
      if (ReadStored(slots[row], column).i) SetBit(bits.values.data(), static_cast<int64_t>(row));
    }
    return bits;
  }
  const size_t width = kind == Kind::kDecimal ? sizeof(Int128) : sizeof(int64_t);
  ColumnBuffers fixed = FixedColumn(slots.size(), width);
  for (size_t row = 0; row < slots.size(); ++row) {
    const Value value = ReadStored(slots[row], column);
    std::memcpy(fixed.values.data() + row * width, &value, width);
  }
  return fixed;
}

uint64_t Table::bytes_reserved() const {
  uint64_t bytes = index_.bytes_reserved() + headers_.capacity() * sizeof(Header) + log_.capacity() + heap_.reserved();
  for (const FlatColumn& column : columns_) bytes += column.bytes.capacity();
  return bytes;
}

bool Table::Validate() const {
  uint64_t live = 0;
  for (Slot slot = 0; slot < headers_.size(); ++slot) live += Exists(slot);
  if (live != rows_ || !index_.Validate()) return false;
  if (index_.size() + free_.size() != headers_.size()) return false;
  for (uint64_t at = 0; at < log_.size(); at += version_bytes_) {
    VersionHead head;
    std::memcpy(&head, log_.data() + at, sizeof(head));
    // Every chain goes back in time.
    if (head.stamp >= headers_[head.slot].stamp && headers_[head.slot].stamp != 0) return false;
  }
  return true;
}

}  // namespace morphspark
