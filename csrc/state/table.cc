#include "state/table.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>

#include "state/row_columns.h"
#include "state/snapshot.h"

namespace morphspark {
namespace {

constexpr Slot kFirstSlots = 64;
constexpr uint64_t kHeapCompactBytes = 64 * 1024;
constexpr uint32_t kShowAhead = 16;  // entries of the log

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
  if (spec_.keeps_versions) history_ = std::make_unique<History>(spec_);
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
  if (slots > kHandlesMax) throw std::bad_alloc();
  if (slots * columns_[0].width > columns_[0].bytes.size())
    Grow(static_cast<Slot>(std::min<uint64_t>(2 * slots, kHandlesMax)));
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
  if (history_) deleted_.push_back(slot);
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

void Table::LeaveVersions(int64_t time) {
  std::ranges::sort(deleted_);
  for (uint64_t at = log_.size() - uint64_t{log_next_ - transaction_begin_} * version_bytes_; at < log_.size();
       at += version_bytes_) {
    VersionHead head;
    std::memcpy(&head, log_.data() + at, sizeof(head));
    const bool cut = std::ranges::binary_search(deleted_, head.slot);
    if (cut) history_->Hide(head.slot);
    if (!Exists(head.slot)) continue;
    uint8_t* const columns = history_->Append(head.slot, time, transaction_);
    CopyPacked(head.slot, columns);
    history_->KeepStrings(columns);
  }
}

void Table::LeaveVersion(Slot slot, const uint64_t* image, bool cut, int64_t time, Stamp stamp) {
  if (cut) history_->Hide(slot);
  if (image == nullptr) return;
  uint8_t* const columns = history_->Append(slot, time, stamp);
  uint8_t* to = columns;
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    std::memcpy(to, image + image_.offset(column), columns_[column].width);
    to += columns_[column].width;
  }
  history_->KeepStrings(columns);
}

void Table::CommitEpoch(int64_t now) {
  if (snapshot_ != nullptr) ShowVersions();
  if (history_) history_->Commit(now, /*collect=*/snapshot_ == nullptr);
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

// Before keys are given back: a version without its key would be of no use. Keys are asked for some entries ahead, as
// they lie anywhere.
void Table::ShowVersions() {
  const auto before = history_ ? history_->BeforeEpoch() : std::unordered_map<Slot, VersionList>();
  const uint8_t* const end = log_.data() + log_.size();
  const uint64_t ahead = uint64_t{kShowAhead} * version_bytes_;
  EachBefore([&](const VersionHead& head, const uint8_t* columns) {
    if (static_cast<uint64_t>(end - columns) > 2 * ahead) {
      index_.PrefetchKey(SlotOfEntry(columns + 2 * ahead));
      index_.PrefetchLongKey(SlotOfEntry(columns + ahead));
    }
    const auto versions = before.find(head.slot);
    snapshot_->Show(head.slot, head.header & kExistsBit ? columns : nullptr,
                    versions == before.end() ? VersionList() : versions->second);
  });
}

void Table::RollbackEpoch() {
  if (log_.empty() && touched_.empty()) return;
  while (!log_.empty()) PopVersion();
  if (history_) history_->Rollback();
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

int64_t Table::StringBytes(const uint8_t* packed) const {
  int64_t bytes = 0;
  for (const FlatColumn& column : columns_) {
    if (column.kind == Kind::kString) {
      Bytes text;
      std::memcpy(&text, packed, sizeof(text));
      bytes += static_cast<int64_t>(text.size);
    }
    packed += column.width;
  }
  return bytes;
}

// A row that changed in this epoch has its oldest version in the log: that one out, the present one in.
Table::Outside Table::OutsideNow() const {
  Outside now = outside_;
  if (!has_strings_ && index_.long_key_bytes() == 0) return {};  // most tables: nothing to look at
  EachBefore([&](const VersionHead& head, const uint8_t* columns) {
    const auto key = static_cast<int64_t>(index_.LongKeyBytes(head.slot));
    if (head.header & kExistsBit) {
      now.strings -= StringBytes(columns);
      now.keys -= key;
    }
    if (Exists(head.slot)) {
      now.strings += StringBytes(head.slot);
      now.keys += key;
    }
  });
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

// -------------------------------------------------------------------------------------------- keys and sizes

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
      text += StringPart(at).view();
    }
  }
  return text;
}

uint64_t Table::bytes_used() const {
  uint64_t row = sizeof(Header) + index_.bytes_per_key();
  for (const FlatColumn& column : columns_) row += column.width;
  const Outside outside = OutsideNow();
  return rows_ * row + static_cast<uint64_t>(outside.strings + outside.keys) + (history_ ? history_->bytes() : 0);
}

uint64_t Table::bytes_at_most() const {
  uint64_t row = sizeof(Header) + index_.bytes_per_key();
  for (const FlatColumn& column : columns_) row += column.width;
  return rows_ * row + heap_.used() + index_.long_key_bytes() + (history_ ? history_->bytes() : 0);
}

uint64_t Table::bytes_reserved() const {
  uint64_t bytes = index_.bytes_reserved() + headers_.capacity() * sizeof(Header) + log_.capacity() + heap_.reserved();
  for (const FlatColumn& column : columns_) bytes += column.bytes.capacity();
  return bytes;
}

bool Table::Validate() const {
  uint64_t live = 0;
  for (Slot slot = 0; slot < headers_.size(); ++slot) live += Exists(slot);
  if (live != rows_ || !index_.Validate() || (history_ && !history_->Validate())) return false;
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
