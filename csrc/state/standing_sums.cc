#include "state/standing_sums.h"

#include <utility>

namespace morphspark {

uint32_t AddUp(const VersionList& list, const PartialOf& of, int64_t start, int64_t end, Total* total) {
  uint32_t last = list.count;
  while (last > 0 && VersionList::Time(list.at(last - 1)) >= end) --last;
  uint32_t first = last;
  const auto each = [&](auto add) {
    for (; first > 0; --first) {
      const uint8_t* const version = list.at(first - 1);
      if (VersionList::Time(version) < start) return;
      add(version + of.offset);
    }
  };
  if (of.kind == Kind::kFloat64)
    each([&](const uint8_t* cell) { total->exact.Add(LoadCell(Kind::kFloat64, cell).f); });
  else
    each([&](const uint8_t* cell) { total->whole += LoadCell(Kind::kInt64, cell).i; });
  return last - first;
}

void StandingSum::MoveTo(const PartialOf& of, const NumberedVersions& versions, const Place& to) {
  MovingRange range(begin(), end());
  const auto cell = [&](uint64_t number) { return versions.at(number) + of.offset; };
  if (of.kind != Kind::kFloat64) {
    const auto enter = [&](uint64_t number, int times) {
      number_ += times * Int128{LoadCell(Kind::kInt64, cell(number)).i};
    };
    range.MoveTo(to.begin, to.end, enter, [&] { number_ = 0; });
    return Stand(to);
  }
  ExactSum sum;
  if (base_ == kElsewhere)
    sum = ExactSum(*elsewhere());
  else
    sum.MergeNear(number_, base_);
  const auto enter = [&](uint64_t number, int times) {
    const double value = LoadCell(Kind::kFloat64, cell(number)).f;
    times > 0 ? sum.Add(value) : sum.Subtract(value);
  };
  range.MoveTo(to.begin, to.end, enter, [&] { sum.Reset(); });
  if (sum.all_near()) {
    Keep(sum.near(), sum.base());
  } else {
    auto moved = std::make_unique<ExactSum>(std::move(sum));
    Keep(Int128{reinterpret_cast<uintptr_t>(moved.release())}, kElsewhere);
  }
  Stand(to);
}

void StandingSum::Drop(const PartialOf& of, const NumberedVersions& versions, uint64_t before) {
  if (before <= begin()) return;
  if (before >= end()) return Reset();
  const auto time = [&](uint64_t number) { return VersionList::Time(versions.at(number)); };
  Place to = at();
  to.begin = before;
  to.after = time(before - 1);
  to.until = time(before);
  MoveTo(of, versions, to);
}

}  // namespace morphspark
