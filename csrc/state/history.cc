#include "state/history.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace morphspark {
namespace {

constexpr uint64_t kStringsCompactBytes = 64 * 1024;

int64_t Minus(int64_t time, int64_t span) {
  int64_t result;
  return __builtin_sub_overflow(time, span, &result) ? std::numeric_limits<int64_t>::min() : result;
}

int64_t Plus(int64_t time, int64_t span) {
  int64_t result;
  return __builtin_add_overflow(time, span, &result) ? std::numeric_limits<int64_t>::max() : result;
}

}  // namespace

History::History(const TableSpec& spec) : spec_(spec.history), deadlines_(spec.history.gaps.size()) {
  head_bytes_ = stride_ = static_cast<uint32_t>(16 + 8 * spec_.gaps.size());
  for (Kind kind : spec.columns) {
    offsets_.push_back(stride_);
    if (kind == Kind::kString) texts_.push_back(stride_ - head_bytes_);
    stride_ += StoredWidth(kind);
  }
  stride_ = (stride_ + 7) / 8 * 8;
}

// ---------------------------------------------------------------------------------------------- versions

uint8_t* History::Append(Slot slot, int64_t time, Stamp sequence) {
  if (slot >= rows_.size()) {
    rows_.resize(slot + 1);
    older_.resize(slot + 1, kNoSlot);
    newer_.resize(slot + 1, kNoSlot);
  }
  entries_.reserve(entries_.size() + 1 > entries_.capacity() ? 2 * entries_.size() + 16 : 0);
  Row& row = rows_[slot];
  const VersionList before = Versions(slot);
  int64_t firsts[16];
  assert(spec_.gaps.size() <= std::size(firsts));
  for (size_t session = 0; session < spec_.gaps.size(); ++session) {
    const uint8_t* last = before.count ? before.at(before.count - 1) : nullptr;
    const bool goes_on = last != nullptr && time < DeadlineOf(session, last);
    firsts[session] = goes_on ? VersionList::First(last, session) : time;
  }
  const uint64_t at = row.bytes.size();
  row.bytes.resize(at + stride_);
  uint8_t* version = row.bytes.data() + at;
  std::memcpy(version, &time, 8);
  std::memcpy(version + 8, &sequence, 8);
  for (size_t session = 0; session < spec_.gaps.size(); ++session) {
    std::memcpy(version + 16 + 8 * session, &firsts[session], 8);
    if (settled_ && firsts[session] == time) deadlines_[session].push({DeadlineOf(session, version), slot});
  }
  entries_.push_back({slot, static_cast<uint32_t>(at / stride_), 0, 0});
  ++versions_;
  last_sequence_ = std::max(last_sequence_, sequence);
  if (settled_) {
    if (before.count) Unlink(slot);
    Link(slot);
  }
  return version + head_bytes_;
}

template <class Visit>
void History::EachText(uint8_t* columns, Visit visit) const {
  for (uint32_t offset : texts_) {
    Bytes text;
    std::memcpy(&text, columns + offset, sizeof(text));
    if (visit(&text)) std::memcpy(columns + offset, &text, sizeof(text));
  }
}

void History::KeepStrings(uint8_t* columns) {
  EachText(columns, [&](Bytes* text) {
    *text = strings_.Copy(*text);
    string_bytes_ += text->size;
    return true;
  });
}

void History::Hide(Slot slot) {
  if (slot >= rows_.size()) {
    entries_.push_back({slot, kHidden, 0, 0});
    return;
  }
  Row& row = rows_[slot];
  const uint32_t count = Count(row);
  entries_.push_back({slot, kHidden, row.visible, count});
  if (settled_ && count > row.visible) Unlink(slot);
  row.visible = count;
}

std::unordered_map<Slot, VersionList> History::BeforeEpoch() const {
  std::unordered_map<Slot, VersionList> found;
  for (const Entry& one : entries_) {
    if (found.contains(one.slot)) continue;
    const uint8_t* bytes = one.slot < rows_.size() ? rows_[one.slot].bytes.data() : nullptr;
    // Between epochs nothing is hidden: all that was there before the first entry.
    found[one.slot] = {bytes, one.version == kHidden ? one.count : one.version, stride_};
  }
  return found;
}

void RunningSum::Enter(const uint8_t* version, int times) {
  if (floats) {
    double value;
    std::memcpy(&value, version + offset, sizeof(value));
    if (times > 0)
      exact.Add(value);
    else
      exact.Subtract(value);
  } else {
    int64_t value;
    std::memcpy(&value, version + offset, sizeof(value));
    whole += times * Int128{value};
  }
}

const RunningSum& History::Sum(Slot slot, const RunningSum& wanted, uint32_t begin, uint32_t end) {
  Row& row = rows_[slot];
  const auto same = [&](const RunningSum& one) { return one.offset == wanted.offset && one.size == wanted.size; };
  auto found = std::ranges::find_if(row.sums, same);
  if (found == row.sums.end()) found = row.sums.insert(row.sums.end(), wanted);
  RunningSum& sum = *found;
  const uint64_t first = row.dropped + row.visible + begin, last = row.dropped + row.visible + end;
  const auto version = [&](uint64_t number) { return row.bytes.data() + (number - row.dropped) * stride_; };
  if (first < sum.begin || last < sum.end || first >= sum.end || sum.begin < row.dropped) {  // not where it was
    sum = wanted;
    sum.begin = sum.end = first;
  }
  for (; sum.begin < first; ++sum.begin) sum.Enter(version(sum.begin), -1);
  for (; sum.end < last; ++sum.end) sum.Enter(version(sum.end), 1);
  return sum;
}

// -------------------------------------------------------------------------------------- ends of an epoch

void History::CountDropped(const uint8_t* version) {
  --versions_;
  EachText(const_cast<uint8_t*>(version) + head_bytes_, [&](Bytes* text) {
    string_bytes_ -= text->size;
    return false;
  });
}

// Drops what is hidden and what no window can reach.
void History::Trim(Slot slot, int64_t now) {
  if (slot >= rows_.size()) return;
  Row& row = rows_[slot];
  const VersionList list = Versions(slot);
  const int64_t rows_kept = std::min<int64_t>(spec_.rows, list.count);
  uint32_t old = static_cast<uint32_t>(list.count - rows_kept);
  if (spec_.span) old = std::min(old, list.Before(Minus(now, spec_.span)));
  const uint32_t drop = row.visible + old;
  if (drop == 0) return;
  for (uint32_t i = 0; i < drop; ++i) CountDropped(row.bytes.data() + uint64_t{i} * stride_);
  for (RunningSum& sum : row.sums) {
    for (; sum.begin < std::min(row.dropped + drop, sum.end); ++sum.begin)
      sum.Enter(row.bytes.data() + (sum.begin - row.dropped) * stride_, -1);
  }
  row.dropped += drop;
  if (old == list.count && list.count) Unlink(slot);
  row.bytes.erase(row.bytes.begin(), row.bytes.begin() + uint64_t{drop} * stride_);
  row.visible = 0;
  if (row.bytes.capacity() > 4 * row.bytes.size() + 64) row.bytes.shrink_to_fit();
  if (row.bytes.empty()) row.sums = {};
}

void History::Commit(int64_t now, bool collect) {
  Settle();
  for (const Entry& one : entries_) Trim(one.slot, now);  // a snapshot has seen what these rows had
  entries_.clear();
  if (!collect) return;
  // Rows that nobody writes any more: the newest version of the oldest ones is out of reach.
  for (Slot slot = oldest_; slot != kNoSlot && spec_.span;) {
    const VersionList list = Versions(slot);
    if (VersionList::Time(list.at(list.count - 1)) >= Minus(now, spec_.span)) break;
    const Slot next = newer_[slot];
    Trim(slot, now);
    slot = next;
  }
  CompactStringsIfNeeded();
}

void History::Rollback() {
  if (entries_.empty()) return;
  for (size_t i = entries_.size(); i-- > 0;) {
    const Entry& one = entries_[i];
    if (one.slot >= rows_.size()) continue;
    Row& row = rows_[one.slot];
    if (one.version == kHidden) {
      row.visible = one.visible;
    } else {
      CountDropped(row.bytes.data() + uint64_t{one.version} * stride_);
      row.sums.clear();  // they may have what is taken back
      row.bytes.resize(uint64_t{one.version} * stride_);
    }
  }
  entries_.clear();
  settled_ = false;
}

void History::CompactStringsIfNeeded() {
  if (strings_.used() < 2 * string_bytes_ + kStringsCompactBytes) return;
  Arena fresh;
  fresh.Reserve(string_bytes_);
  for (Row& row : rows_) {
    for (uint64_t at = 0; at < row.bytes.size(); at += stride_) {
      EachText(row.bytes.data() + at + head_bytes_, [&](Bytes* text) {
        *text = fresh.Copy(*text);
        return true;
      });
    }
  }
  strings_ = std::move(fresh);
}

// ---------------------------------------------------------------------------------------------- recovery

uint8_t* History::Restore(Slot slot, std::span<const int64_t> head) {
  assert(head.size_bytes() == head_bytes_ && entries_.empty());
  settled_ = false;
  uint8_t* const columns = Append(slot, head[0], static_cast<Stamp>(head[1]));
  std::memcpy(columns - head_bytes_, head.data(), head_bytes_);
  entries_.clear();
  return columns;
}

void History::Forget(Slot slot) {
  if (slot >= rows_.size()) return;
  Row& row = rows_[slot];
  for (uint64_t at = 0; at < row.bytes.size(); at += stride_) CountDropped(row.bytes.data() + at);
  row = Row();
  settled_ = false;
}

// ---------------------------------------------------------------------------------------------- triggers

void History::Link(Slot slot) {
  older_[slot] = newest_;
  newer_[slot] = kNoSlot;
  (newest_ == kNoSlot ? oldest_ : newer_[newest_]) = slot;
  newest_ = slot;
}

void History::Unlink(Slot slot) {
  (older_[slot] == kNoSlot ? oldest_ : newer_[older_[slot]]) = newer_[slot];
  (newer_[slot] == kNoSlot ? newest_ : older_[newer_[slot]]) = older_[slot];
}

// Makes by age and deadlines anew, after what does not happen in order: a rollback, or recovery.
void History::Settle() {
  if (settled_) return;
  std::vector<Slot> linked;
  for (Slot slot = 0; slot < rows_.size(); ++slot) {
    if (Versions(slot).count) linked.push_back(slot);
  }
  const auto newest = [&](Slot slot) {
    const VersionList list = Versions(slot);
    return VersionList::Sequence(list.at(list.count - 1));
  };
  std::ranges::sort(linked, {}, newest);
  oldest_ = newest_ = kNoSlot;
  for (Slot slot : linked) Link(slot);
  for (size_t session = 0; session < deadlines_.size(); ++session) {
    std::vector<Deadline> all;
    for (Slot slot : linked) {
      const VersionList list = Versions(slot);
      for (uint32_t i = 0; i < list.count; ++i) {  // the last version of each session
        const bool last = i + 1 == list.count ||
                          VersionList::First(list.at(i), session) != VersionList::First(list.at(i + 1), session);
        if (last) all.push_back({DeadlineOf(session, list.at(i)), slot});
      }
    }
    deadlines_[session] = Heap(std::greater<>(), std::move(all));
  }
  settled_ = true;
}

int64_t History::DeadlineOf(size_t session, const uint8_t* last) const {
  const int64_t ends = Plus(VersionList::Time(last), spec_.gaps[session]);
  return spec_.limit ? std::min(ends, Plus(VersionList::First(last, session), spec_.limit)) : ends;
}

bool History::Newest(int64_t* time) {
  Settle();
  if (newest_ == kNoSlot) return false;
  const VersionList list = Versions(newest_);
  *time = VersionList::Time(list.at(list.count - 1));
  return true;
}

void History::Candidates(int64_t start, int64_t end, std::vector<Slot>* slots) {
  Settle();
  for (Slot slot = newest_; slot != kNoSlot; slot = older_[slot]) {
    const VersionList list = Versions(slot);
    if (VersionList::Time(list.at(list.count - 1)) < start) break;
    const uint32_t before = list.Before(end);
    if (before && VersionList::Time(list.at(before - 1)) >= start) slots->push_back(slot);
  }
}

bool History::NextDeadline(size_t session, int64_t clock, int64_t* deadline) {
  Settle();
  Heap& heap = deadlines_[session];
  while (!heap.empty()) {
    const Deadline top = heap.top();
    const VersionList list = Versions(top.slot);
    const uint32_t before = list.Before(top.when);
    const int64_t actual = before ? DeadlineOf(session, list.at(before - 1)) : top.when - 1;
    if (actual == top.when && actual > clock) {
      *deadline = actual;
      return true;
    }
    heap.pop();
    if (actual > top.when && actual > clock) heap.push({actual, top.slot});
  }
  return false;
}

void History::Due(size_t session, int64_t deadline, std::vector<Slot>* slots, std::vector<int64_t>* firsts) {
  Settle();
  Heap& heap = deadlines_[session];
  std::vector<Slot> found;
  while (!heap.empty() && heap.top().when <= deadline) {
    const Deadline top = heap.top();
    heap.pop();
    const VersionList list = Versions(top.slot);
    const uint32_t before = list.Before(top.when);
    if (before == 0) continue;
    const int64_t actual = DeadlineOf(session, list.at(before - 1));
    if (actual == deadline) found.push_back(top.slot);
    if (actual > deadline) heap.push({actual, top.slot});
  }
  std::ranges::sort(found);  // a row that was deleted and came again may have two entries
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (Slot slot : found) {
    const VersionList list = Versions(slot);
    slots->push_back(slot);
    firsts->push_back(VersionList::First(list.at(list.Before(deadline) - 1), session));
  }
}

bool History::Validate() const {
  uint64_t versions = 0, strings = 0, linked = 0, visible = 0;
  for (const Row& row : rows_) {
    if (entries_.empty() && row.visible != 0) return false;
    const VersionList list{row.bytes.data(), Count(row), stride_};
    versions += list.count;
    visible += list.count > row.visible;
    for (uint32_t i = 0; i < list.count; ++i) {
      if (i && VersionList::Time(list.at(i)) < VersionList::Time(list.at(i - 1))) return false;
      EachText(const_cast<uint8_t*>(list.at(i)) + head_bytes_, [&](Bytes* text) {
        strings += text->size;
        return false;
      });
    }
  }
  for (Slot slot = newest_; settled_ && slot != kNoSlot; slot = older_[slot]) ++linked;
  return versions == versions_ && strings == string_bytes_ && (!settled_ || linked == visible);
}

}  // namespace morphspark
