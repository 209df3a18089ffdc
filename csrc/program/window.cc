#include "program/window.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/decimal.h"

namespace morphspark {
namespace {

// A column of a version, as a register holds it.
Value Load(Kind kind, const uint8_t* cell) {
  Value value;
  if (kind == Kind::kString) {
    std::memcpy(&value.s, cell, sizeof(Bytes));
  } else if (kind == Kind::kBool) {
    value.i = *cell;
  } else {
    int64_t word;
    std::memcpy(&word, cell, sizeof(word));
    if (kind == Kind::kDecimal)
      value.d = word;
    else
      value.i = word;
  }
  return value;
}

// Equal for values that are equal: all NaN are one already, and -0 is 0.
uint64_t DistinctWord(Kind kind, const uint8_t* cell) {
  const Value value = Load(kind, cell);
  if (kind == Kind::kFloat64) return std::bit_cast<uint64_t>(value.f == 0 ? 0.0 : value.f);
  return kind == Kind::kDecimal ? static_cast<uint64_t>(value.d) : static_cast<uint64_t>(value.i);
}

template <class T>
int64_t CountDistinct(std::vector<T>* values) {
  std::ranges::sort(*values);
  return std::unique(values->begin(), values->end()) - values->begin();
}

}  // namespace

Failure WindowReader::Read(const WindowCode& window, uint32_t offset, int64_t now, int64_t since, Value* out,
                           uint8_t* null) {
  if (window.by == WindowBy::kRows) {
    NarrowByCount(window.size);
  } else {
    const int64_t start = window.by == WindowBy::kSince ? since
                          : now < std::numeric_limits<int64_t>::min() + window.size
                              ? std::numeric_limits<int64_t>::min()
                              : now - window.size;
    NarrowByTime(start, now);
  }
  std::erase_if(ranges_, [](const Range& one) { return one.begin == one.end; });
  const int64_t count = Count();
  *null = 0;
  switch (window.aggregate) {
    case WindowAggregate::kCount:
      out->i = count;
      return kFine;
    case WindowAggregate::kNunique:
      out->i = Distinct(window.kind, offset);
      return kFine;
    case WindowAggregate::kSum:
      return Sum(window, offset, count, out);
    default:
      break;
  }
  *null = count == 0;
  if (count == 0) return kFine;
  if (window.aggregate == WindowAggregate::kMean) return Sum(window, offset, count, out);
  if (window.aggregate == WindowAggregate::kMin || window.aggregate == WindowAggregate::kMax) {
    Extreme(window, offset, out);
    return kFine;
  }
  // Of equal sequences the row that was named first has the first version, and the one named last the last.
  const uint8_t* chosen = nullptr;
  const bool first = window.aggregate == WindowAggregate::kFirst;
  for (const Range& one : ranges_) {
    const uint8_t* version = first ? one.first() : one.last();
    const bool better = chosen == nullptr || (first ? VersionList::Sequence(version) < VersionList::Sequence(chosen)
                                                    : VersionList::Sequence(version) >= VersionList::Sequence(chosen));
    if (better) chosen = version;
  }
  *out = Load(window.kind, chosen + offset);
  return kFine;
}

void WindowReader::NarrowByTime(int64_t start, int64_t now) {
  for (Range& one : ranges_) {
    one.end = one.list.Before(now);
    one.begin = std::min(one.end, one.list.Before(start));
  }
}

void WindowReader::NarrowByCount(int64_t count) {
  for (Range& one : ranges_) one.begin = one.end - static_cast<uint32_t>(std::min<int64_t>(count, one.end));
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
  for (const Range& one : ranges_) count += one.end - one.begin;
  return count;
}

template <class Visit>
void WindowReader::EachOf(const Range& one, Visit visit) {
  const uint8_t* const end = one.list.at(one.end);
  for (const uint8_t* version = one.first(); version != end; version += one.list.stride) visit(version);
}

template <class Visit>
void WindowReader::Each(Visit visit) const {
  for (const Range& one : ranges_) EachOf(one, visit);
}

bool WindowReader::Keeps(const Range& one, uint32_t versions_min) const {
  return one.history != nullptr && one.end - one.begin >= versions_min && !recompute_;
}

void WindowReader::SumFloats(const WindowCode& window, uint32_t offset, ExactSum* sum) const {
  for (const Range& one : ranges_) {
    if (Keeps(one, kFloatsKeptMin)) {
      const RunningSum wanted{.offset = offset, .size = window.size, .floats = true};
      sum->Merge(one.history->Sum(one.slot, wanted, one.begin, one.end).exact);
    } else {
      EachOf(one, [&](const uint8_t* version) { sum->Add(Load(Kind::kFloat64, version + offset).f); });
    }
  }
}

Int128 WindowReader::SumWhole(const WindowCode& window, uint32_t offset) const {
  Int128 sum = 0;  // of at most 2^32 × rows numbers of 64 bits: it can't overflow
  for (const Range& one : ranges_) {
    if (Keeps(one, kWholeKeptMin)) {
      const RunningSum wanted{.offset = offset, .size = window.size, .floats = false};
      sum += one.history->Sum(one.slot, wanted, one.begin, one.end).whole;
    } else {
      EachOf(one, [&](const uint8_t* version) { sum += Load(Kind::kInt64, version + offset).i; });
    }
  }
  return sum;
}

// The sum, or the mean.
Failure WindowReader::Sum(const WindowCode& window, uint32_t offset, int64_t count, Value* out) const {
  const bool mean = window.aggregate == WindowAggregate::kMean;
  if (window.kind == Kind::kFloat64) {
    ExactSum sum;
    SumFloats(window, offset, &sum);
    const double rounded = sum.Round();
    out->f = mean ? rounded / static_cast<double>(count) : rounded;
    return kFine;
  }
  Int128 sum = SumWhole(window, offset);
  if (window.kind == Kind::kDecimal) {
    if (mean) {
      if (!decimal::ScaleUp(sum, window.scale, &sum)) return kOverflow;
      sum = decimal::DivideHalfUp(sum, count);
    }
    out->d = sum;
    return decimal::Fits(sum) ? kFine : kOverflow;
  }
  if (mean) {
    out->f = static_cast<double>(sum) / static_cast<double>(count);
    return kFine;
  }
  out->i = static_cast<int64_t>(sum);
  return out->i == sum ? kFine : kOverflow;
}

// Of equal values the first, whichever row it is of.
void WindowReader::Extreme(const WindowCode& window, uint32_t offset, Value* out) const {
  const int wanted = window.aggregate == WindowAggregate::kMin ? -1 : 1;
  const uint8_t* chosen = nullptr;
  Each([&](const uint8_t* version) {
    const Value value = Load(window.kind, version + offset);
    int order = wanted;
    if (chosen != nullptr) {
      order = CompareValues(window.kind, value, *out);
      if (order == 0 && VersionList::Sequence(version) < VersionList::Sequence(chosen)) order = wanted;
    }
    if (order != 0 && (order < 0) == (wanted < 0)) {
      chosen = version;
      *out = value;
    }
  });
}

int64_t WindowReader::Distinct(Kind kind, uint32_t offset) {
  words_.clear();
  texts_.clear();
  Each([&](const uint8_t* version) {
    if (kind == Kind::kString)
      texts_.push_back(Load(kind, version + offset).s.view());
    else
      words_.push_back(DistinctWord(kind, version + offset));
  });
  return kind == Kind::kString ? CountDistinct(&texts_) : CountDistinct(&words_);
}

}  // namespace morphspark
