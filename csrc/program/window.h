// An aggregate over the versions of rows: one row, or several as one window.
//
// By time a window is [now - size, now), by count the last `size` versions. Versions of several rows stand in the order
// of their transactions, those of one transaction in the order in which the rows were named. Each row gives a range of
// its list, so that nothing is copied or sorted: order matters only between the rows' first and last ones. Sums over
// long lists are kept by the history and move on with the window; they are exact, so it makes no difference.
//
// Thread safety: one reader per thread; the histories must not change meanwhile.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/exact_sum.h"
#include "program/arithmetic.h"
#include "program/code.h"
#include "state/history.h"

namespace morphspark {

class WindowReader {
 public:
  // A window over so many rows begins.
  void Begin(size_t rows) {
    ranges_.clear();
    several_ = rows > 1;
    ++window_;
    made_.Reset();
  }
  // A row is in a window once, however often it is named: is this the first time?
  bool Meet(RowHandle row) {
    if (!several_) return true;
    if (row >= met_.size()) met_.resize(std::max<size_t>(row + 1, 2 * met_.size()), 0);
    return std::exchange(met_[row], window_) != window_;
  }
  // `history`, where given, has the list under this slot, and may keep sums of it up to date.
  void Add(const VersionList& versions, History* history = nullptr, Slot slot = kNoSlot) {
    if (versions.count) ranges_.push_back({versions, 0, versions.count, history, slot});
  }
  // Room for versions that are put together for this window only, and for numbers on the way there.
  uint8_t* Allocate(uint64_t bytes) { return reinterpret_cast<uint8_t*>(made_.Allocate((bytes + 7) / 8 * 8)); }
  std::vector<uint32_t>& Numbers() {
    numbers_.clear();
    return numbers_;
  }
  // The aggregate of the column at `offset` of every version. `since` counts for WindowBy::kSince only.
  Failure Read(const WindowCode& window, uint32_t offset, int64_t now, int64_t since, Value* out, uint8_t* null);

  // For benchmarks: compute every sum anew.
  void Recompute(bool always) { recompute_ = always; }

 private:
  // Shorter lists are added up faster than a kept sum is found.
  static constexpr uint32_t kFloatsKeptMin = 24, kWholeKeptMin = 192;

  struct Range {
    VersionList list;
    uint32_t begin, end;
    History* history;
    Slot slot;

    const uint8_t* first() const { return list.at(begin); }
    const uint8_t* last() const { return list.at(end - 1); }
  };

  void NarrowByTime(int64_t start, int64_t now);
  void NarrowByCount(int64_t count);
  int64_t Count() const;
  template <class Visit>
  static void EachOf(const Range& one, Visit visit);
  template <class Visit>
  void Each(Visit visit) const;
  // Is the sum over this range kept, and not computed anew?
  bool Keeps(const Range& one, uint32_t versions_min) const;
  void SumFloats(const WindowCode& window, uint32_t offset, ExactSum* sum) const;
  Int128 SumWhole(const WindowCode& window, uint32_t offset) const;
  Failure Sum(const WindowCode& window, uint32_t offset, int64_t count, Value* out) const;
  void Extreme(const WindowCode& window, uint32_t offset, Value* out) const;
  int64_t Distinct(Kind kind, uint32_t offset);

  bool several_ = false;
  bool recompute_ = false;
  uint64_t window_ = 0;        // how many there were
  std::vector<uint64_t> met_;  // by row: the last window that it was in
  Arena made_;
  std::vector<uint32_t> numbers_;
  std::vector<Range> ranges_;
  std::vector<std::pair<Stamp, uint32_t>> order_;
  std::vector<uint64_t> words_;
  std::vector<std::string_view> texts_;
};

}  // namespace morphspark
