// An aggregate over the versions of rows: one row, or several as one window.
//
// By time a window is [now - size, now), by count the last `size` versions. Versions of several rows stand in the order
// of their transactions, those of one transaction in the order in which the rows were named. Each row gives a range of
// its list, so that nothing is copied or sorted: order matters only between the rows' first and last ones. For long
// lists the history has partial aggregates (partials.h), which are exact, so it makes no difference.
//
// Thread safety: one reader per thread; the histories must not change meanwhile.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/exact_sum.h"
#include "program/arithmetic.h"
#include "program/code.h"
#include "state/cells.h"
#include "state/history.h"

namespace morphspark {

// The rows of a window: a set that costs what the window has, not what its table has.
class MetRows {
 public:
  // A window of so many rows; of none, each is met for the first time.
  void Begin(size_t rows) {
    any_ = rows > 0;
    if (2 * rows > places_.size()) places_.assign(std::bit_ceil(2 * rows), Place());
    if (++window_ == 0) {  // they have all been counted
      std::ranges::fill(places_, Place());
      window_ = 1;
    }
  }
  bool Meet(RowHandle row) {
    if (!any_) return true;
    const size_t mask = places_.size() - 1;
    size_t at = row * 0x9E3779B1u & mask;
    while (places_[at].window == window_) {
      if (places_[at].row == row) return false;
      at = (at + 1) & mask;
    }
    places_[at] = {row, window_};
    return true;
  }

 private:
  struct Place {
    RowHandle row = 0;
    uint32_t window = 0;  // that put it here
  };
  std::vector<Place> places_;  // open addressing; at most half are taken
  uint32_t window_ = 0;        // how many there were
  bool any_ = false;
};

class WindowReader {
 public:
  explicit WindowReader(int worker) : worker_(worker) {}

  // A window over so many rows begins: of the column at `offset` of every version. `since` counts for kSince only.
  void Begin(const WindowCode& window, History* history, uint32_t offset, int64_t now, int64_t since, size_t rows);
  // A row is in a window once, however often it is named: is this the first time?
  bool Meet(RowHandle row) { return met_.Meet(row); }
  // Null: this window needs none.
  const StandingSums* sums() const { return sums_; }
  [[gnu::always_inline]] void PrefetchSum(Slot slot) const {
    if (const StandingSum* const sum = sums_ == nullptr ? nullptr : sums_->Find(slot)) Prefetch(sum);
  }
  // The row's sum, if it stands where this window is; else null.
  [[gnu::always_inline]] const StandingSum* Standing(Slot slot) const {
    const StandingSum* const sum = adds_up_ ? sums_->Find(slot) : nullptr;
    return sum != nullptr && sum->Stands(start_, now_) ? sum : nullptr;
  }
  [[gnu::always_inline]] void Add(const StandingSum& sum) {
    sum.AddTo(window_code_->kind == Kind::kFloat64, &total_);
    count_ += sum.count();
  }
  // What the history has of a row.
  void Add(History* history, Slot slot);
  // The same, with what a batch has left since; only if it adds up.
  void Add(History* history, Slot slot, const VersionList& newer) {
    count_ += history->AddSum(sums_, slot, newer, start_, now_, &total_);
  }
  // Rows are added to a total as they come, and nothing else of them is needed.
  bool adds_up() const { return adds_up_; }
  // Versions that were put together for this window: the column lies at `offset`.
  void Add(const VersionList& versions, uint32_t offset);
  // Versions older than this are not in the window; of one row at most so many are.
  int64_t start() const { return start_; }
  int64_t rows_most() const { return window_code_->by == WindowBy::kRows ? window_code_->size : INT64_MAX; }
  // The aggregate. Values of a window for a user function are put into the arena.
  Failure Read(Arena* values, Value* out, uint8_t* null);

  // For benchmarks: compute everything anew.
  void Recompute(bool always) { recompute_ = always; }

 private:
  // Shorter lists are gone through faster than a partial aggregate is found.
  static constexpr uint32_t kExtremeMin = 96, kDistinctMin = 64;

  struct Range {
    VersionList list;
    uint32_t begin, end;
    uint32_t offset;   // of the column
    History* history;  // that has the list under this slot; null: nobody has
    Slot slot;

    uint32_t size() const { return end - begin; }
    const uint8_t* first() const { return list.at(begin); }
    const uint8_t* last() const { return list.at(end - 1); }
    History::Range range() const { return {begin, end}; }
  };

  void NarrowByCount(int64_t count);
  int64_t Count() const;
  template <class Visit>
  static void EachOf(const Range& one, Visit visit);
  // Is there a partial aggregate over this range?
  bool HasPartial(const Range& one, uint32_t versions_min) const {
    return one.history != nullptr && one.size() >= versions_min && !recompute_;
  }
  PartialOf Moving(uint32_t offset) const {
    return {offset, window_code_->kind, static_cast<uint32_t>(window_code_->by), window_code_->size};
  }
  bool sums_up() const {
    return window_code_->aggregate == WindowAggregate::kSum || window_code_->aggregate == WindowAggregate::kMean;
  }
  void AddRanges();
  Failure Sum(Value* out) const;
  void Extreme(Value* out) const;
  void Outermost(bool first, Value* out) const;
  int64_t Distinct();
  void Values(int64_t count, Arena* arena, Value* out);

  const int worker_;  // whose sums it uses
  const WindowCode* window_code_ = nullptr;
  uint32_t offset_ = 0;
  int64_t start_ = 0, now_ = 0;
  bool recompute_ = false;
  bool adds_up_ = false;
  StandingSums* sums_ = nullptr;
  Total total_;
  int64_t count_ = 0;  // of versions in the total
  MetRows met_;
  std::vector<Range> ranges_;
  std::vector<std::pair<Stamp, uint32_t>> order_;
  std::vector<std::pair<Stamp, const uint8_t*>> cells_;
  std::vector<uint64_t> words_;
  std::vector<std::string_view> texts_;
};

}  // namespace morphspark
