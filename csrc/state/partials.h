// Partial aggregates over the versions of one row: a window that is read again and again costs what has changed since,
// not what it holds.
//
//   MovingCounts    over a range that moves with a window: what enters is added, what leaves is taken back, so that a
//                   version costs two steps, however often the window is read (for sums: standing_sums.h)
//   BlockExtremes   which of every 16, 256 and 4,096 versions has the smallest or largest value: nothing can be taken
//                   back from a minimum, but a range is made of few blocks
//
// Versions are numbered from the row's first one ever, so that numbers stay when old ones are dropped.
//
// Thread safety: none; `History` has a lock for those of a row.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "state/cells.h"

namespace morphspark {

// Which windows a partial aggregate serves: of one column, and, where it moves, of one size.
struct PartialOf {
  uint32_t offset;  // of the column in a version
  Kind kind;
  uint32_t by = 0;  // see WindowBy
  int64_t size = 0;
  bool operator==(const PartialOf&) const = default;
};

// A row's versions by number; the newest may lie elsewhere.
struct NumberedVersions {
  const uint8_t* bytes;
  uint64_t first;   // number of what lies at `bytes`
  uint64_t oldest;  // number of the first that is not dropped
  uint32_t stride;
  uint64_t split = UINT64_MAX;  // number of what lies at `newer`
  const uint8_t* newer = nullptr;

  const uint8_t* at(uint64_t number) const {
    return number < split ? bytes + (number - first) * stride : newer + (number - split) * stride;
  }
};

class MovingRange {
 public:
  MovingRange() = default;
  MovingRange(uint64_t begin, uint64_t end) : begin_(begin), end_(end) {}

  // Calls enter(number, ±1) for what enters and leaves. If it throws, the range is where it got to.
  template <class Enter, class Clear>
  void MoveTo(uint64_t begin, uint64_t end, Enter enter, Clear clear) {
    const uint64_t way = Distance(begin, begin_) + Distance(end, end_);
    if (begin >= end_ || end <= begin_ || way > end - begin) {  // nothing, or less than it would cost, stays
      clear();
      begin_ = end_ = begin;
    }
    for (; begin_ > begin; --begin_) enter(begin_ - 1, 1);
    for (; end_ < end; ++end_) enter(end_, 1);
    for (; begin_ < begin; ++begin_) enter(begin_, -1);
    for (; end_ > end; --end_) enter(end_ - 1, -1);
  }
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

 private:
  static uint64_t Distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

  uint64_t begin_ = 0, end_ = 0;
};

// How often each value is there; not of strings.
struct MovingCounts {
  PartialOf of;
  MovingRange range = {};
  std::unordered_map<uint64_t, uint32_t> words = {};

  void MoveTo(const NumberedVersions& versions, uint64_t begin, uint64_t end);
};

class BlockExtremes {
 public:
  BlockExtremes(const PartialOf& of, bool largest) : of_(of), largest_(largest) {}

  bool Serves(const PartialOf& of, bool largest) const { return of_ == of && largest_ == largest; }
  // The first of the best in [begin, end), which is not empty.
  uint64_t Best(const NumberedVersions& versions, uint64_t begin, uint64_t end);

 private:
  static constexpr int kFanBits = 4, kLevels = 3;

  // Blocks of one size, side by side. A winner is numbered from its block's first version.
  struct Level {
    uint64_t first = 0;  // number of the first block
    std::vector<uint16_t> winners;
  };

  static uint64_t Start(int level, uint64_t block) { return block << (kFanBits * (level + 1)); }
  bool Has(int level, uint64_t block) const {
    const Level& one = levels_[level];
    return block >= one.first && block - one.first < one.winners.size();
  }
  // Makes the blocks up to here that are not there yet.
  void Extend(const NumberedVersions& versions, uint64_t end);
  // Goes through [begin, end) by blocks below a level.
  uint64_t Look(const NumberedVersions& versions, uint64_t begin, uint64_t end, int levels) const;

  PartialOf of_;
  bool largest_;
  std::array<Level, kLevels> levels_;
};

struct RowPartials {
  std::vector<MovingCounts> counts;
  std::vector<BlockExtremes> extremes;

  // Versions before this number are about to be dropped.
  void Drop(const NumberedVersions& versions, uint64_t before);
  bool empty() const { return counts.empty() && extremes.empty(); }
};

}  // namespace morphspark
