#include "state/history.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <mutex>
#include <new>

#include "base/saturating.h"

namespace morphspark {
namespace {

constexpr uint64_t kStringsCompactBytes = 64 * 1024;

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
  if (slot >= rows_.size()) {  // rows last: if there is no memory for the others, there is no row
    older_.resize(slot + 1, kNoSlot);
    newer_.resize(slot + 1, kNoSlot);
    for (const auto& one : sums_) one->Resize(slot + 1);
    began_.resize(slot + 1);
    rows_.resize(slot + 1);
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
  ++row.count;
  uint8_t* version = row.bytes.data() + at;
  std::memcpy(version, &time, 8);
  std::memcpy(version + 8, &sequence, 8);
  for (size_t session = 0; session < spec_.gaps.size(); ++session) {
    std::memcpy(version + 16 + 8 * session, &firsts[session], 8);
    if (settled_ && firsts[session] == time) deadlines_[session].push({DeadlineOf(session, version), slot});
  }
  entries_.push_back({slot, static_cast<uint32_t>(at / stride_), 0, 0});
  row.newest = time;
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
  EachText(columns, [&](Bytes* text) {  // first: if there is no memory for a copy, a rollback takes all of them off
    string_bytes_ += text->size;
    return false;
  });
  EachText(columns, [&](Bytes* text) {
    *text = strings_.Copy(*text);
    return true;
  });
}

void History::Hide(Slot slot) {
  if (slot >= rows_.size()) {
    entries_.push_back({slot, kHidden, 0, 0});
    return;
  }
  Row& row = rows_[slot];
  const uint32_t count = row.count;
  entries_.push_back({slot, kHidden, row.visible, count});
  if (settled_ && count > row.visible) Unlink(slot);
  row.visible = count;
  EachSum(slot, [](StandingSums*, StandingSum* sum) { sum->Reset(); });
}

std::unordered_map<Slot, VersionList> History::BeforeEpoch() const {
  std::unordered_map<Slot, VersionList> found;
  for (const Entry& one : entries_) {
    if (found.contains(one.slot)) continue;
    // Between epochs nothing is hidden: all that was there before the first entry.
    VersionList& list = found[one.slot];
    if (one.slot >= rows_.size()) continue;
    const Row& row = rows_[one.slot];
    const uint32_t count = one.version == kHidden ? one.count : one.version;
    list = {row.bytes.data() + uint64_t{row.gone} * stride_, count - row.gone, stride_};
  }
  return found;
}

// ---------------------------------------------------------------------------------------------- windows

History::Range History::Between(Slot slot, int64_t start, int64_t end) {
  const VersionList list = Versions(slot);
  if (list.count == 0) return {0, 0};
  Row& row = rows_[slot];
  const uint32_t last = row.newest < end ? list.count : list.Before(end);
  const uint64_t base = NumberOf(row, 0);
  const std::lock_guard lock(locks_[slot % kLocks].value);
  Beginning& began = began_[slot];
  const bool known = began.after < start && start <= began.until && began.number >= base;
  if (!known) began = FindBeginning(row, list, start, began.number);
  return {static_cast<uint32_t>(std::min<uint64_t>(began.number - base, last)), last};
}

History::Beginning History::FindBeginning(const Row& row, const VersionList& list, int64_t start, uint64_t near) const {
  const auto time = [&](uint32_t index) { return VersionList::Time(list.at(index)); };
  const uint64_t base = NumberOf(row, 0);
  const auto at = static_cast<uint32_t>(near <= base ? 0 : std::min<uint64_t>(near - base, list.count));
  uint32_t low = 0, high = list.count;  // those before `low` are older than the start, those from `high` on are not
  if (at < list.count && time(at) < start) {
    low = at + 1;
    for (uint32_t step = 1; high - low > step; step *= 2) {
      if (time(low + step - 1) >= start) {
        high = low + step - 1;
        break;
      }
      low += step;
    }
  } else {
    high = at;
    for (uint32_t step = 1; high > step; step *= 2) {
      if (time(high - step) < start) {
        low = high - step + 1;
        break;
      }
      high -= step;
    }
  }
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (time(middle) < start)
      low = middle + 1;
    else
      high = middle;
  }
  const int64_t after = low ? time(low - 1) : std::numeric_limits<int64_t>::min();
  // Behind the last version nothing is known: the next one may be of any time.
  return {base + low, after, low < list.count ? time(low) : after};
}

RowPartials& History::PartialsOf(Row& row) {
  if (!row.partials) row.partials = std::make_unique<RowPartials>();
  return *row.partials;
}

template <class Moving, class Use>
void History::WithMoving(Slot slot, std::vector<Moving> RowPartials::* which, const PartialOf& of, Range range,
                         Use use) {
  const std::lock_guard lock(locks_[slot % kLocks].value);
  Row& row = rows_[slot];
  std::vector<Moving>& all = PartialsOf(row).*which;
  auto found = std::ranges::find(all, of, &Moving::of);
  if (found == all.end()) {
    all.push_back(Moving{.of = of});
    found = all.end() - 1;
  }
  found->MoveTo(Numbered(row), NumberOf(row, range.begin), NumberOf(row, range.end));
  use(*found);
}

StandingSums* History::SumsOf(const PartialOf& of, int worker) {
  std::atomic<StandingSums*>& first = first_sums_[static_cast<size_t>(worker) % first_sums_.size()];
  size_t others = 0;
  // acquire: sees them as made; partner: the release below.
  for (StandingSums* one = first.load(std::memory_order_acquire); one != nullptr; one = one->next(), ++others) {
    if (one->Serves(of, worker)) return one;
  }
  if (others >= kSumsMost) return nullptr;
  const std::lock_guard lock(new_sums_);  // other workers may add theirs
  StandingSums* const next = first.load(std::memory_order_relaxed);
  sums_.push_back(std::make_unique<StandingSums>(of, worker, next, rows_.size()));
  first.store(sums_.back().get(), std::memory_order_release);  // partner: the acquire above
  return sums_.back().get();
}

// Versions that stay when the batch ends are numbered as they will be then, and sums go on from there. Those of later
// transactions may be among them, but a window ends before the reader's own time.
uint32_t History::AddSum(StandingSums* sums, Slot slot, const VersionList& newer, int64_t start, int64_t end,
                         Total* total) {
  const VersionList list = Versions(slot);
  if (slot >= rows_.size() || list.count + newer.count < kSumMin) {
    const uint32_t added = AddUp(newer, sums->of(), start, end, total);
    return added + AddUp(list, sums->of(), start, end, total);
  }
  const Row& row = rows_[slot];
  const uint64_t base = NumberOf(row, 0), split = base + list.count;
  StandingSum* const sum = sums->FindOrAdd(slot);
  const StandingSum::Place at = sum->at();
  // Not far from where it was: what the sum goes over is gone over here, too.
  auto past = static_cast<uint32_t>(at.end < split ? 0 : std::min<uint64_t>(at.end - split, newer.count));
  while (past > 0 && VersionList::Time(newer.at(past - 1)) >= end) --past;
  while (past < newer.count && VersionList::Time(newer.at(past)) < end) ++past;
  const uint64_t last = past > 0 ? split + past : base + (row.newest < end ? list.count : list.Before(end));
  const bool more = last < split + newer.count;
  const bool begins = at.after < start && start <= at.until && at.begin >= base;
  const bool ends = at.end == last && (end <= at.next || !more);
  if (!begins || !ends) {
    NumberedVersions versions = Numbered(row);
    versions.split = split;
    versions.newer = newer.first;
    const auto time = [&](uint64_t number) { return VersionList::Time(versions.at(number)); };
    Beginning began{at.begin, at.after, at.until};
    const bool known = at.begin >= base && at.begin < at.end && at.after < at.until;
    if (known && start > at.until && at.begin + 1 < last)  // one has left, mostly
      began = {at.begin + 1, at.until, time(at.begin + 1)};
    if (!known || start <= began.after || start > began.until) began = FindBeginning(row, list, newer, start, at.begin);
    if (began.number >= last) return 0;
    StandingSum::Place to{began.number, last, began.after, began.until, at.last, at.next};
    if (!ends) {  // behind the last version nothing is known: the next may be of any time
      to.last = time(last - 1);
      to.next = more ? time(last) : to.last;
    }
    sum->MoveTo(sums->of(), versions, to);
  }
  sum->AddTo(sums->of().kind == Kind::kFloat64, total);
  return sum->count();
}

History::Beginning History::FindBeginning(const Row& row, const VersionList& list, const VersionList& newer,
                                          int64_t start, uint64_t near) const {
  if (list.count > 0 && row.newest >= start) return FindBeginning(row, list, start, near);
  const uint32_t at = newer.Before(start);
  const int64_t older = list.count > 0 ? row.newest : std::numeric_limits<int64_t>::min();
  const int64_t after = at > 0 ? VersionList::Time(newer.at(at - 1)) : older;
  return {NumberOf(row, 0) + list.count + at, after, at < newer.count ? VersionList::Time(newer.at(at)) : after};
}

void History::AddSum(StandingSums* sums, Slot slot, Range range, Total* total) {
  const Row& row = rows_[slot];
  const uint64_t begin = NumberOf(row, range.begin), end = NumberOf(row, range.end);
  StandingSum* const sum = sums->FindOrAdd(slot);
  if (sum->begin() != begin || sum->end() != end) sum->MoveTo(sums->of(), Numbered(row), {.begin = begin, .end = end});
  sum->AddTo(sums->of().kind == Kind::kFloat64, total);
}

template <class Visit>
void History::EachSum(Slot slot, Visit visit) {
  for (const auto& one : sums_) {
    if (StandingSum* const sum = one->Find(slot)) visit(one.get(), sum);
  }
}

const uint8_t* History::Extreme(Slot slot, const PartialOf& of, bool largest, Range range) {
  const std::lock_guard lock(locks_[slot % kLocks].value);
  Row& row = rows_[slot];
  std::vector<BlockExtremes>& all = PartialsOf(row).extremes;
  auto found = std::ranges::find_if(all, [&](const BlockExtremes& one) { return one.Serves(of, largest); });
  if (found == all.end()) found = all.insert(all.end(), BlockExtremes(of, largest));
  const NumberedVersions versions = Numbered(row);
  return versions.at(found->Best(versions, NumberOf(row, range.begin), NumberOf(row, range.end)));
}

int64_t History::Distinct(Slot slot, const PartialOf& of, Range range, std::vector<uint64_t>* others) {
  int64_t count = 0;
  WithMoving(slot, &RowPartials::counts, of, range, [&](const MovingCounts& counts) {
    std::erase_if(*others, [&](uint64_t word) { return counts.words.contains(word); });
    count = static_cast<int64_t>(counts.words.size());
  });
  return count;
}

void History::AddDistinct(Slot slot, const PartialOf& of, Range range, std::vector<uint64_t>* words) {
  WithMoving(slot, &RowPartials::counts, of, range, [&](const MovingCounts& counts) {
    for (const auto& [word, times] : counts.words) words->push_back(word);
  });
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
  if (spec_.span && old > 0) {
    const int64_t reach = Minus(now, spec_.span);  // usually nothing is beyond it
    old = VersionList::Time(list.at(0)) >= reach ? 0 : std::min(old, list.Before(reach));
  }
  const uint32_t gone = row.visible + old;
  if (gone == row.gone) return;
  for (uint32_t i = row.gone; i < gone; ++i) CountDropped(row.bytes.data() + uint64_t{i} * stride_);
  DropPartials(slot, gone);
  if (old == list.count && list.count) Unlink(slot);
  row.gone = row.visible = gone;
  if (gone >= row.count - gone) MoveAway(&row);  // not each time: it costs as much as there is
}

// A commit can't fail, and aggregates can be made again.
void History::DropPartials(Slot slot, uint32_t gone) {
  Row& row = rows_[slot];
  const NumberedVersions versions = Numbered(row);
  EachSum(slot, [&](StandingSums* sums, StandingSum* sum) {
    try {
      sum->Drop(sums->of(), versions, row.first + gone);
    } catch (const std::bad_alloc&) {
      sum->Reset();
    }
    if (sum->empty()) sums->Free(slot);
  });
  if (!row.partials) return;
  try {
    row.partials->Drop(versions, row.first + gone);
    if (gone < row.count && !row.partials->empty()) return;
  } catch (const std::bad_alloc&) {
  }
  row.partials.reset();
}

void History::MoveAway(Row* row) {
  row->bytes.erase(row->bytes.begin(), row->bytes.begin() + uint64_t{row->gone} * stride_);
  row->first += row->gone;
  row->count -= row->gone;
  row->gone = row->visible = 0;
  if (row->bytes.capacity() > 4 * row->bytes.size() + 64) row->bytes.shrink_to_fit();
}

void History::Commit(int64_t now, bool collect) {
  Settle();
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < entries_.size(); ++i) {  // a snapshot has seen what these rows had
    if (i + 2 * kAhead < entries_.size()) PrefetchList(entries_[i + 2 * kAhead].slot);
    if (i + kAhead < entries_.size()) PrefetchOldest(entries_[i + kAhead].slot);
    Trim(entries_[i].slot, now);
  }
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
      row.partials.reset();  // they may have what is taken back
      EachSum(one.slot, [](StandingSums*, StandingSum* sum) { sum->Reset(); });
      began_[one.slot] = {};
      row.bytes.resize(uint64_t{one.version} * stride_);
      row.count = one.version;
      if (one.version > 0) row.newest = VersionList::Time(row.bytes.data() + uint64_t{one.version - 1} * stride_);
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
    for (uint64_t at = uint64_t{row.gone} * stride_; at < row.bytes.size(); at += stride_) {
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
  for (uint32_t i = row.gone; i < row.count; ++i) CountDropped(row.bytes.data() + uint64_t{i} * stride_);
  row = Row();
  began_[slot] = {};
  EachSum(slot, [](StandingSums*, StandingSum* sum) { sum->Reset(); });
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
    if (row.bytes.size() != uint64_t{row.count} * stride_) return false;
    if (row.visible < row.gone || (entries_.empty() && row.visible != row.gone)) return false;
    const VersionList list{row.bytes.data() + uint64_t{row.gone} * stride_, row.count - row.gone, stride_};
    versions += list.count;
    visible += row.count > row.visible;
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
