#include "program/window.h"

#include <algorithm>
#include <limits>

#include "base/decimal.h"
#include "base/saturating.h"

namespace morphspark {
namespace {

template <class T>
int64_t CountDistinct(std::vector<T>* values) {
  std::ranges::sort(*values);
  return std::unique(values->begin(), values->end()) - values->begin();
}

}  // namespace

void WindowReader::Begin(const WindowCode& window, History* history, uint32_t offset, int64_t now, int64_t since,
                         size_t rows) {
  window_code_ = &window;
  offset_ = offset;
  now_ = now;
  if (window.by == WindowBy::kRows)
    start_ = std::numeric_limits<int64_t>::min();
  else if (window.by == WindowBy::kSince)
    start_ = since;
  else
    start_ = Minus(now, window.size);
  ranges_.clear();
  met_.Begin(rows > 1 ? rows : 0);
  sums_ = sums_up() && !recompute_ ? history->SumsOf(Moving(offset), worker_) : nullptr;
  adds_up_ = sums_ != nullptr && window.by != WindowBy::kRows;
  total_.Reset();
  count_ = 0;
}

void WindowReader::Add(History* history, Slot slot) {
  if (adds_up_) return Add(history, slot, VersionList{});
  const VersionList list = history->Versions(slot);
  if (list.count == 0) return;
  const History::Range range =
      window_code_->by == WindowBy::kRows ? History::Range{0, list.count} : history->Between(slot, start_, now_);
  if (range.begin < range.end) ranges_.push_back({list, range.begin, range.end, offset_, history, slot});
}

void WindowReader::Add(const VersionList& versions, uint32_t offset) {
  if (adds_up_) {
    count_ += AddUp(versions, sums_->of(), start_, now_, &total_);
    return;
  }
  const bool by_rows = window_code_->by == WindowBy::kRows;
  const uint32_t begin = by_rows ? 0 : versions.Before(start_), end = by_rows ? versions.count : versions.Before(now_);
  if (begin < end) ranges_.push_back({versions, begin, end, offset, nullptr, kNoSlot});
}

Failure WindowReader::Read(Arena* values, Value* out, uint8_t* null) {
  if (window_code_->by == WindowBy::kRows) {
    NarrowByCount(window_code_->size);
    std::erase_if(ranges_, [](const Range& one) { return one.begin == one.end; });
  }
  if (sums_up()) {
    if (!adds_up_) AddRanges();
    *null = count_ == 0 && window_code_->aggregate == WindowAggregate::kMean;
    return *null ? kFine : Sum(out);
  }
  const int64_t count = Count();
  *null = 0;
  switch (window_code_->aggregate) {
    case WindowAggregate::kCount:
      out->i = count;
      return kFine;
    case WindowAggregate::kNunique:
      out->i = Distinct();
      return kFine;
    case WindowAggregate::kValues:
      Values(count, values, out);
      return kFine;
    default:
      break;
  }
  *null = count == 0;
  if (count == 0) return kFine;
  switch (window_code_->aggregate) {
    case WindowAggregate::kMin:
    case WindowAggregate::kMax:
      Extreme(out);
      return kFine;
    default:
      Outermost(window_code_->aggregate == WindowAggregate::kFirst, out);
      return kFine;
  }
}

// The first or the last value. Of equal sequences the row that was named first has the first version, and the one
// named last the last.
void WindowReader::Outermost(bool first, Value* out) const {
  const uint8_t* chosen = nullptr;
  for (const Range& one : ranges_) {
    const uint8_t* version = first ? one.first() : one.last();
    const bool better = chosen == nullptr || (first ? VersionList::Sequence(version) < VersionList::Sequence(chosen)
                                                    : VersionList::Sequence(version) >= VersionList::Sequence(chosen));
    if (!better) continue;
    chosen = version;
    *out = LoadCell(window_code_->kind, version + one.offset);
  }
}

void WindowReader::NarrowByCount(int64_t count) {
  for (Range& one : ranges_) one.begin = one.end - static_cast<uint32_t>(std::min<int64_t>(count, one.size()));
  if (ranges_.size() < 2 || Count() <= count) return;
  // The last `count` of all: those from the count-th newest (transaction, row) on.
  order_.clear();
  for (uint32_t rank = 0; rank < ranges_.size(); ++rank) {
    const Range& one = ranges_[rank];
    for (uint32_t i = one.begin; i < one.end; ++i) order_.emplace_back(VersionList::Sequence(one.list.at(i)), rank);
  }
  const auto oldest = order_.end() - count;
  std::nth_element(order_.begin(), oldest, order_.end());
  const auto [sequence, last_rank] = *oldest;
  for (uint32_t rank = 0; rank < ranges_.size(); ++rank) {
    Range& one = ranges_[rank];
    const Stamp from = rank >= last_rank ? sequence : sequence + 1;
    one.begin = one.list.Partition([&](const uint8_t* version) { return VersionList::Sequence(version) < from; });
    one.begin = std::min(one.begin, one.end);
  }
}

int64_t WindowReader::Count() const {
  int64_t count = 0;
  for (const Range& one : ranges_) count += one.size();
  return count;
}

// Calls visit with the column of each version.
template <class Visit>
void WindowReader::EachOf(const Range& one, Visit visit) {
  const uint8_t* cell = one.first() + one.offset;
  for (uint32_t left = one.size(); left > 0; --left, cell += one.list.stride) visit(cell);
}

void WindowReader::AddRanges() {
  count_ = Count();
  for (const Range& one : ranges_) {
    if (one.history != nullptr && sums_ != nullptr && one.size() >= History::kSumMin)
      one.history->AddSum(sums_, one.slot, one.range(), &total_);
    else if (window_code_->kind == Kind::kFloat64)
      EachOf(one, [&](const uint8_t* cell) { total_.exact.Add(LoadCell(Kind::kFloat64, cell).f); });
    else
      EachOf(one, [&](const uint8_t* cell) { total_.whole += LoadCell(Kind::kInt64, cell).i; });
  }
}

// The sum, or the mean.
Failure WindowReader::Sum(Value* out) const {
  const Kind kind = window_code_->kind;
  const bool mean = window_code_->aggregate == WindowAggregate::kMean;
  Int128 whole = total_.whole;
  if (kind == Kind::kFloat64) {
    const double rounded = total_.exact.Round();
    out->f = mean ? rounded / static_cast<double>(count_) : rounded;
    return kFine;
  }
  if (kind == Kind::kDecimal) {
    if (mean) {
      if (!decimal::ScaleUp(whole, window_code_->scale, &whole)) return kOverflow;
      whole = decimal::DivideHalfUp(whole, count_);
    }
    out->d = whole;
    return decimal::Fits(whole) ? kFine : kOverflow;
  }
  if (mean) {
    out->f = static_cast<double>(whole) / static_cast<double>(count_);
    return kFine;
  }
  out->i = static_cast<int64_t>(whole);
  return out->i == whole ? kFine : kOverflow;
}

// Of equal values the first, whichever row it is of.
void WindowReader::Extreme(Value* out) const {
  const Kind kind = window_code_->kind;
  const bool largest = window_code_->aggregate == WindowAggregate::kMax;
  bool found = false;
  Stamp sequence = 0;
  const auto consider = [&](const uint8_t* cell, uint32_t offset) {
    const Value value = LoadCell(kind, cell);
    const int order = found ? CompareValues(kind, value, *out) : 0;
    if (found && (order != 0 ? (order > 0) != largest : VersionList::Sequence(cell - offset) >= sequence)) return;
    found = true;
    *out = value;
    sequence = VersionList::Sequence(cell - offset);
  };
  for (const Range& one : ranges_) {
    if (HasPartial(one, kExtremeMin)) {
      const PartialOf of{one.offset, kind};
      consider(one.history->Extreme(one.slot, of, largest, one.range()) + one.offset, one.offset);
    } else {
      EachOf(one, [&](const uint8_t* cell) { consider(cell, one.offset); });
    }
  }
}

// All values, packed: in the order of transactions, those of one transaction in the order of rows.
void WindowReader::Values(int64_t count, Arena* arena, Value* out) {
  const uint32_t width = StoredWidth(window_code_->kind);
  const uint64_t bytes = static_cast<uint64_t>(count) * width;
  auto* to = reinterpret_cast<uint8_t*>(arena->Allocate(bytes + 2 * sizeof(uint64_t)));
  to += -reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t);  // an arena has strings, too, and aligns nothing
  out->s = {reinterpret_cast<const char*>(to), static_cast<uint64_t>(count)};
  const auto put = [&](const uint8_t* cell) {
    std::memcpy(to, cell, width);
    to += width;
  };
  if (ranges_.size() == 1) return EachOf(ranges_[0], put);
  cells_.clear();
  for (const Range& one : ranges_) {
    EachOf(one, [&](const uint8_t* cell) { cells_.emplace_back(VersionList::Sequence(cell - one.offset), cell); });
  }
  std::ranges::stable_sort(cells_, {}, &std::pair<Stamp, const uint8_t*>::first);
  for (const auto& [sequence, cell] : cells_) put(cell);
}

int64_t WindowReader::Distinct() {
  const Kind kind = window_code_->kind;
  words_.clear();
  texts_.clear();
  const Range* base = nullptr;  // the longest with a partial aggregate: its values are never listed
  const auto list = [&](const Range& one) {
    one.history->AddDistinct(one.slot, Moving(one.offset), one.range(), &words_);
  };
  for (const Range& one : ranges_) {
    if (kind == Kind::kString) {
      EachOf(one, [&](const uint8_t* cell) { texts_.push_back(LoadCell(kind, cell).s.view()); });
    } else if (!HasPartial(one, kDistinctMin)) {
      EachOf(one, [&](const uint8_t* cell) { words_.push_back(DistinctWord(kind, cell)); });
    } else if (base == nullptr) {
      base = &one;
    } else {
      list(one.size() > base->size() ? *std::exchange(base, &one) : one);
    }
  }
  if (kind == Kind::kString) return CountDistinct(&texts_);
  const int64_t counted =
      base == nullptr ? 0 : base->history->Distinct(base->slot, Moving(base->offset), base->range(), &words_);
  return counted + CountDistinct(&words_);
}

}  // namespace morphspark
