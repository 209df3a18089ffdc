// Sums of windows over rows. Each stands where its window was read last: what enters is added, what leaves is taken
// back, so a version costs two steps, however often its window is read. Sums are exact: nobody can tell where they have
// been.
//
//   StandingSum    of one row, in one cache line
//   StandingSums   of the rows of a table, for windows over one column that have one size, and for one worker: several
//                  would move each other's sums to and fro. There are some only where windows are long
//
// Thread safety: none. Each worker has its own, and while none runs they follow what happens to the versions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/exact_sum.h"
#include "base/prefetch.h"
#include "state/partials.h"
#include "state/version_list.h"

namespace morphspark {

// A sum over many versions: of floats, or of whole numbers, of at most 2^32 × rows, so that it can't overflow.
struct Total {
  Int128 whole = 0;
  ExactSum exact = {};

  void Reset() {
    whole = 0;
    exact.Reset();
  }
};

// Adds up the versions with a time in [start, end) one by one, the newest first; returns how many there are.
uint32_t AddUp(const VersionList& list, const PartialOf& of, int64_t start, int64_t end, Total* total);

class alignas(64) StandingSum {
 public:
  // Over which versions, by number. Windows that start after `after` and not after `until` begin there, and those that
  // end after `last` and not after `next` end there: the times of the versions at its ends, and next to them.
  struct Place {
    uint64_t begin = 0, end = 0;
    int64_t after = 0, until = 0;
    int64_t last = 0, next = 0;
  };
  StandingSum() = default;
  ~StandingSum() { Reset(); }
  StandingSum(const StandingSum&) = delete;
  StandingSum& operator=(const StandingSum&) = delete;

  Place at() const { return {begin_, end(), after_, until_, last_, next_}; }
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + count_; }
  uint32_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // Is it the sum of this window, without a look at the versions? Later ones can't change that, but a deletion does.
  [[gnu::always_inline]] bool Stands(int64_t start, int64_t end) const {
    return after_ < start && start <= until_ && last_ < end && end <= next_;
  }
  [[gnu::always_inline]] void AddTo(bool floats, Total* total) const {
    if (!floats)
      total->whole += number_;
    else if (base_ != kElsewhere) [[likely]]
      total->exact.MergeNear(number_, base_);
    else
      total->exact.Merge(*elsewhere());
  }
  // If it throws, it stays where it was.
  void MoveTo(const PartialOf& of, const NumberedVersions& versions, const Place& to);
  // Versions before this number are about to be dropped.
  void Drop(const PartialOf& of, const NumberedVersions& versions, uint64_t before);
  void Reset() {
    Keep(0, 0);
    begin_ = count_ = 0;
    after_ = until_ = last_ = next_ = 0;  // there is no such window
  }

 private:
  static constexpr int kElsewhere = -1;

  ExactSum* elsewhere() const { return reinterpret_cast<ExactSum*>(static_cast<uintptr_t>(number_)); }
  void Keep(Int128 number, int base) {
    if (base_ == kElsewhere) delete elsewhere();
    number_ = number;
    base_ = base;
  }
  void Stand(const Place& at) {
    begin_ = at.begin;
    count_ = static_cast<uint32_t>(at.end - at.begin);
    after_ = at.after;
    until_ = at.until;
    last_ = at.last;
    next_ = at.next;
  }

  uint64_t begin_ = 0;
  uint32_t count_ = 0;
  int base_ = 0;
  int64_t after_ = 0, until_ = 0, last_ = 0, next_ = 0;
  // The sum of whole numbers, or of floats: number × 2^(base - 1074). If they don't fit, it is where their sum is.
  Int128 number_ = 0;
};
static_assert(sizeof(StandingSum) == 64);

class StandingSums {
 public:
  StandingSums(const PartialOf& of, int worker, StandingSums* next, size_t rows)
      : of_(of), worker_(worker), next_(next) {
    Resize(rows);
  }

  bool Serves(const PartialOf& of, int worker) const { return of_ == of && worker_ == worker; }
  const PartialOf& of() const { return of_; }
  StandingSums* next() const { return next_; }  // for other windows, or workers
  void Forget() {
    for (auto& one : blocks_) one.reset();
  }
  // A row has none any more: its block goes with the last one.
  void Free(Slot slot) {
    auto& block = blocks_[slot / kBlock];
    if (std::all_of(block.get(), block.get() + kBlock, [](const StandingSum& one) { return one.empty(); }))
      block.reset();
  }
  void Resize(size_t rows) { blocks_.resize((rows + kBlock - 1) / kBlock); }

  // Null: there is none.
  [[gnu::always_inline]] StandingSum* Find(Slot slot) const {
    if (slot / kBlock >= blocks_.size()) return nullptr;  // the row is new, or there is no such row
    StandingSum* const block = blocks_[slot / kBlock].get();
    return block == nullptr ? nullptr : block + slot % kBlock;
  }
  StandingSum* FindOrAdd(Slot slot) {
    auto& block = blocks_[slot / kBlock];
    if (!block) block = std::make_unique<StandingSum[]>(kBlock);
    return &block[slot % kBlock];
  }

 private:
  // One row with a long window makes room for so many.
  static constexpr size_t kBlock = 16;

  const PartialOf of_;
  const int worker_;
  StandingSums* const next_;
  std::vector<std::unique_ptr<StandingSum[]>> blocks_;
};

}  // namespace morphspark
