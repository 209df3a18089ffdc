#include "state/table.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>

namespace morphspark {
namespace {

constexpr Slot kFirstSlots = 64;
constexpr uint64_t kHeapCompactBytes = 64 * 1024;

// Room for `more` items, without giving up that a vector doubles.
void ReserveMore(std::vector<Slot>* slots, size_t more) {
  const size_t wanted = slots->size() + more;
  if (wanted > slots->capacity()) slots->reserve(std::max(wanted, 2 * slots->capacity()));
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

Table::Table(TableSpec spec) : spec_(std::move(spec)), image_(spec_), index_(IsIntegerKey(spec_)) {
  version_bytes_ = sizeof(VersionHead);
  for (Kind kind : spec_.columns) {
    columns_.push_back({kind, StoredWidth(kind), {}});
    version_bytes_ += StoredWidth(kind);
    has_strings_ |= kind == Kind::kString;
  }
  version_bytes_ = (version_bytes_ + 7) / 8 * 8;
  single_word_ = columns_.size() == 1 && columns_[0].width == 8;
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
  // Everything that may run out of memory comes first, so that nothing is left half added.
  const Slot slot = NextSlot();
  index_.Insert(key, slot);
  if (slot == headers_.size()) {
    headers_.push_back(kNoVersion);
  } else {
    free_.pop_back();
    headers_[slot] = kNoVersion;
  }
  touched_.push_back(slot);
  return slot;
}

Slot Table::FindOrAdd(int64_t key) { return FindOrAddKey(key); }
Slot Table::FindOrAdd(Bytes key) { return FindOrAddKey(key); }

// The slot of the next new key, with room made for it.
Slot Table::NextSlot() {
  ReserveMore(&touched_, 1);
  if (!free_.empty()) return free_.back();
  const uint64_t slots = headers_.size() + 1;
  if (slots > kNullKey) throw std::bad_alloc();
  if (slots * columns_[0].width > columns_[0].bytes.size())
    Grow(static_cast<Slot>(std::min<uint64_t>(2 * slots, kNullKey)));
  return static_cast<Slot>(slots - 1);
}

void Table::Grow(Slot slots) {
  headers_.reserve(slots);
  cells_.resize(columns_.size());
  for (size_t i = columns_.size(); i-- > 0;) {  // the first column last: it tells for how many slots there is room
    columns_[i].bytes.resize(uint64_t{slots} * columns_[i].width);
    cells_[i] = columns_[i].bytes.data();
  }
}

// -------------------------------------------------------------------------------------------------- rows

Value Table::ReadStored(Slot slot, ColumnId column) const {
  Value value;
  switch (columns_[column].kind) {
    case Kind::kBool:
      ReadStoredAs<Kind::kBool>(slot, column, &value);
      break;
    case Kind::kString:
      ReadStoredAs<Kind::kString>(slot, column, &value);
      break;
    case Kind::kDecimal:
      ReadStoredAs<Kind::kDecimal>(slot, column, &value);
      break;
    default:
      ReadStoredAs<Kind::kInt64>(slot, column, &value);
  }
  return value;
}

void Table::Store(Slot slot, ColumnId column, Value value) {
  switch (columns_[column].kind) {
    case Kind::kBool:
      return StoreAs<Kind::kBool>(slot, column, value);
    case Kind::kString:
      return StoreAs<Kind::kString>(slot, column, value);
    case Kind::kDecimal:
      return StoreAs<Kind::kDecimal>(slot, column, value);
    case Kind::kFloat64:
      return StoreAs<Kind::kFloat64>(slot, column, value);
    default:
      return StoreAs<Kind::kInt64>(slot, column, value);
  }
}

void Table::CreateFromDefault(Slot slot) {
  assert(spec_.has_default);
  SetExists(slot, true);
  for (ColumnId column = 0; column < columns_.size(); ++column) Store(slot, column, spec_.defaults[column]);
}

void Table::Insert(Slot slot) {
  assert(!Exists(slot));
  if (!Owned(slot)) PushVersion(slot);
  SetExists(slot, true);
}

void Table::Delete(Slot slot) {
  if (!Exists(slot)) return;
  if (!Owned(slot)) PushVersion(slot);
  SetExists(slot, false);
  touched_.push_back(slot);
}

void Table::Install(Slot slot, const uint64_t* image) {
  if (image == nullptr) return Delete(slot);
  if (!Owned(slot)) PushVersion(slot);
  if (!Exists(slot)) SetExists(slot, true);
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    const uint64_t* cell = image + image_.offset(column);
    if (columns_[column].kind == Kind::kString) {
      Value value;
      image_.Read<Kind::kString>(image, column, &value);
      StoreAs<Kind::kString>(slot, column, value);
    } else {  // in the form of the flat column; the first byte of a word is a bool's
      std::memcpy(cells_[column] + uint64_t{slot} * columns_[column].width, cell, columns_[column].width);
    }
  }
}

void Table::SetExists(Slot slot, bool exists) {
  rows_ += exists ? 1 : -1;
  headers_[slot] = exists ? headers_[slot] | kExistsBit : headers_[slot] & ~kExistsBit;
}

// ---------------------------------------------------------------------------------------------- versions

void Table::PopVersion() {
  const uint64_t at = log_.size() - version_bytes_;
  const uint8_t* entry = log_.data() + at;
  VersionHead head;
  std::memcpy(&head, entry, sizeof(head));
  entry += sizeof(head);
  Header& header = headers_[head.slot];
  rows_ += static_cast<int>((head.header & kExistsBit) != 0) - static_cast<int>((header & kExistsBit) != 0);
  header = head.header;
  for (FlatColumn& column : columns_) {
    std::memcpy(column.bytes.data() + uint64_t{head.slot} * column.width, entry, column.width);
    entry += column.width;
  }
  log_.resize(at);
  --log_next_;
}

void Table::TooManyVersions() { throw std::length_error("an epoch leaves more than 2^30 versions of a table's rows"); }

void Table::Undo() {
  while (log_next_ != transaction_begin_) PopVersion();
}

void Table::CommitEpoch() {
  outside_ = OutsideNow();
  log_.resize(0);
  EndEpoch();
  if (log_next_ <= kVersionsMax / 2) return;
  // Ids start again, so that an epoch always has half of them.
  for (Header& header : headers_) {
    if (header != kFreed) header &= kExistsBit;
  }
  log_next_ = transaction_begin_ = 1;
}

void Table::RollbackEpoch() {
  if (log_.empty() && touched_.empty()) return;
  while (!log_.empty()) PopVersion();
  EndEpoch();
  if (has_strings_) CompactHeap();  // an epoch that failed must not count against the next one
}

// Gives back what the epoch left unused. It can't fail: without memory for that, it is left for the next epoch.
void Table::EndEpoch() {
  try {
    ReserveMore(&free_, touched_.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Slot slot : touched_) FreeIfUnused(slot);
  touched_.clear();
  CompactHeapIfNeeded();
}

void Table::FreeIfUnused(Slot slot) {
  // A slot may be listed twice (added, then emptied): the marker keeps it from being freed twice.
  if (Exists(slot) || headers_[slot] == kFreed) return;
  index_.Erase(slot);
  headers_[slot] = kFreed;
  free_.push_back(slot);
}

template <class Visit>
void Table::EachString(Visit visit) const {
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (columns_[column].kind != Kind::kString) continue;
    for (Slot slot = 0; slot < headers_.size(); ++slot) {
      if (Exists(slot)) visit(slot, column);
    }
  }
}

int64_t Table::StringBytes(Slot slot) const {
  int64_t bytes = 0;
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (columns_[column].kind == Kind::kString) bytes += static_cast<int64_t>(ReadStored(slot, column).s.size);
  }
  return bytes;
}

int64_t Table::StringBytes(const uint8_t* image) const {
  int64_t bytes = 0;
  for (const FlatColumn& column : columns_) {
    if (column.kind == Kind::kString) {
      Bytes text;
      std::memcpy(&text, image, sizeof(text));
      bytes += static_cast<int64_t>(text.size);
    }
    image += column.width;
  }
  return bytes;
}

// A row that changed in this epoch has its oldest version in the log: that one out, the present one in.
Table::Outside Table::OutsideNow() const {
  Outside now = outside_;
  if (!has_strings_ && index_.long_key_bytes() == 0) return {};  // most tables: nothing to look at
  const VersionId first = log_next_ - static_cast<VersionId>(log_.size() / version_bytes_);
  for (uint64_t at = 0; at < log_.size(); at += version_bytes_) {
    VersionHead head;
    std::memcpy(&head, log_.data() + at, sizeof(head));
    if ((head.header & ~kExistsBit) >= first) continue;  // not the oldest
    const auto key = static_cast<int64_t>(index_.LongKeyBytes(head.slot));
    if (head.header & kExistsBit) {
      now.strings -= StringBytes(log_.data() + at + sizeof(head));
      now.keys -= key;
    }
    if (Exists(head.slot)) {
      now.strings += StringBytes(head.slot);
      now.keys += key;
    }
  }
  return now;
}

void Table::CompactHeapIfNeeded() {
  if (has_strings_ && heap_.used() >= 2 * static_cast<uint64_t>(outside_.strings) + kHeapCompactBytes) CompactHeap();
}

void Table::CompactHeap() {
  assert(log_.empty());
  Arena fresh;
  try {
    fresh.Reserve(static_cast<uint64_t>(outside_.strings));
  } catch (const std::bad_alloc&) {
    return;  // another time
  }
  EachString([&](Slot slot, ColumnId column) {
    const Bytes copy = fresh.Copy(ReadStored(slot, column).s);
    std::memcpy(cells_[column] + uint64_t{slot} * sizeof(copy), &copy, sizeof(copy));
  });
  heap_ = std::move(fresh);
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
    int64_t strings_before = Exists(slot) ? StringBytes(slot) : 0;
    for (ColumnId column = 0; column < columns_.size(); ++column) {
      Value value;
      values[column].Load(row, &value);
      Store(slot, column, value);
      if (!Exists(slot)) continue;
      outside_.strings += StringBytes(slot) - strings_before;
      strings_before = StringBytes(slot);
    }
    if (Exists(slot)) continue;
    SetExists(slot, true);  // last: there may be no memory for a string
    outside_.strings += StringBytes(slot);
    outside_.keys += static_cast<int64_t>(index_.LongKeyBytes(slot));
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

// Strings one after the other; `text(row)` is called twice, first for the sizes.
template <class Text>
ColumnBuffers StringColumn(size_t rows, Text text) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(rows);
  column.offsets.resize((rows + 1) * sizeof(int32_t));
  auto* offsets = reinterpret_cast<int32_t*>(column.offsets.data());
  offsets[0] = 0;
  uint64_t bytes = 0;
  for (size_t row = 0; row < rows; ++row) {
    bytes += text(row).size;
    if (bytes > INT32_MAX) throw std::length_error("a string column of the state holds more than 2 GiB");
    offsets[row + 1] = static_cast<int32_t>(bytes);
  }
  column.values.resize(bytes);
  for (size_t row = 0; row < rows; ++row) {
    const Bytes one = text(row);
    if (one.size) std::memcpy(column.values.data() + offsets[row], one.data, one.size);
  }
  return column;
}

ColumnBuffers FixedColumn(size_t rows, size_t width) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(rows);
  column.values.resize(rows * width);
  return column;
}

}  // namespace

std::string Table::KeyText(Slot slot) const {
  if (index_.integer_keys()) return std::to_string(index_.IntegerKey(slot));
  const Bytes key = index_.BytesKey(slot);
  if (spec_.key.size() == 1) return std::string(key.view());
  std::string text;
  for (size_t part = 0; part < spec_.key.size(); ++part) {
    const char* at = SkipParts(key.data, {spec_.key.data(), part});
    if (part) text += ", ";
    if (spec_.key[part] == Kind::kInt64) {
      int64_t number;
      std::memcpy(&number, at, sizeof(number));
      text += std::to_string(number);
    } else {
      uint32_t size;
      std::memcpy(&size, at, sizeof(size));
      text.append(at + sizeof(size), size);
    }
  }
  return text;
}

ColumnBuffers Table::ExportKey(size_t part, std::span<const Slot> slots) const {
  const std::span<const Kind> before(spec_.key.data(), part);
  const bool single = spec_.key.size() == 1;
  if (spec_.key[part] == Kind::kInt64) {
    ColumnBuffers column = FixedColumn(slots.size(), sizeof(int64_t));
    for (size_t row = 0; row < slots.size(); ++row) {
      const int64_t whole = single ? index_.IntegerKey(slots[row]) : 0;
      const char* from =
          single ? reinterpret_cast<const char*>(&whole) : SkipParts(index_.BytesKey(slots[row]).data, before);
      std::memcpy(column.values.data() + row * sizeof(int64_t), from, sizeof(int64_t));
    }
    return column;
  }
  return StringColumn(slots.size(), [&](size_t row) -> Bytes {
    const Bytes key = index_.BytesKey(slots[row]);
    if (single) return key;
    const char* at = SkipParts(key.data, before);
    uint32_t size;
    std::memcpy(&size, at, sizeof(size));
    return {at + sizeof(size), size};
  });
}

ColumnBuffers Table::ExportValues(ColumnId column, std::span<const Slot> slots) const {
  const Kind kind = columns_[column].kind;
  if (kind == Kind::kString) {
    return StringColumn(slots.size(), [&](size_t row) { return ReadStored(slots[row], column).s; });
  }
  if (kind == Kind::kBool) {
    ColumnBuffers bits;
    bits.length = static_cast<int64_t>(slots.size());
    bits.values.assign((slots.size() + 7) / 8, 0);
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

uint64_t Table::bytes_used() const {
  uint64_t row = sizeof(Header) + index_.bytes_per_key();
  for (const FlatColumn& column : columns_) row += column.width;
  const Outside outside = OutsideNow();
  return rows_ * row + static_cast<uint64_t>(outside.strings + outside.keys);
}

uint64_t Table::bytes_at_most() const {
  uint64_t row = sizeof(Header) + index_.bytes_per_key();
  for (const FlatColumn& column : columns_) row += column.width;
  return rows_ * row + heap_.used() + index_.long_key_bytes();
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
  if (log_.empty() && touched_.empty() && index_.size() != rows_) return false;  // no key without a row stays
  Outside found;
  for (Slot slot = 0; slot < headers_.size(); ++slot) {
    if (!Exists(slot)) continue;
    found.strings += StringBytes(slot);
    found.keys += static_cast<int64_t>(index_.LongKeyBytes(slot));
  }
  const Outside counted = OutsideNow();
  if (found.strings != counted.strings || found.keys != counted.keys) return false;
  VersionId id = log_next_ - static_cast<VersionId>(log_.size() / version_bytes_);
  for (uint64_t at = 0; at < log_.size(); at += version_bytes_, ++id) {
    VersionHead head;
    std::memcpy(&head, log_.data() + at, sizeof(head));
    // Every chain goes back in time, and starts with the row's newest entry.
    if ((head.header & ~kExistsBit) >= id || (headers_[head.slot] & ~kExistsBit) < id) return false;
  }
  return true;
}

}  // namespace morphspark
