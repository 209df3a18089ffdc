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
  // Over which versions, by number. Windows that start after `after` and not after `until` begin there.
  struct Place {
    uint64_t begin = 0, end = 0;
    int64_t after = 0, until = 0;
  };
  const Place& at() const { return at_; }

  [[gnu::always_inline]] void AddTo(bool floats, Total* total) const {
    if (!floats)
      total->whole += number_;
    else if (!elsewhere_) [[likely]]
      total->exact.MergeNear(number_, base_);
    else
      total->exact.Merge(*elsewhere_);
  }
  // If it throws, it stays where it was.
  void MoveTo(const PartialOf& of, const NumberedVersions& versions, const Place& to);
  // Versions before this number are about to be dropped.
  void Drop(const PartialOf& of, const NumberedVersions& versions, uint64_t before);
  void Reset() { *this = StandingSum(); }
  bool empty() const { return at_.end == 0; }

 private:
  Place at_;
  Int128 number_ = 0;  // the sum of whole numbers, or of floats: number × 2^(base - 1074)
  int base_ = 0;
  std::unique_ptr<ExactSum> elsewhere_;  // of floats that don't fit
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
  StandingSum* Find(Slot slot) const {
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
