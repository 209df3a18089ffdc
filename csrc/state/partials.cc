#include "state/partials.h"

#include <algorithm>

namespace morphspark {

void MovingCounts::MoveTo(const NumberedVersions& versions, uint64_t begin, uint64_t end) {
  const auto enter = [&](uint64_t number, int times) {
    const uint64_t word = DistinctWord(of.kind, versions.at(number) + of.offset);
    if (times > 0) {
      ++words[word];
    } else if (const auto found = words.find(word); --found->second == 0) {
      words.erase(found);
    }
  };
  range.MoveTo(begin, end, enter, [&] { words.clear(); });
}

// ---------------------------------------------------------------------------------------------- extremes

uint64_t BlockExtremes::Look(const NumberedVersions& versions, uint64_t begin, uint64_t end, int levels) const {
  uint64_t best = begin;
  Value value = LoadCell(of_.kind, versions.at(begin) + of_.offset);
  const auto consider = [&](uint64_t number) {
    const Value other = LoadCell(of_.kind, versions.at(number) + of_.offset);
    const int order = CompareValues(of_.kind, other, value);
    if (largest_ ? order <= 0 : order >= 0) return;
    best = number;
    value = other;
  };
  for (uint64_t at = begin; at < end;) {
    uint64_t step = 1, candidate = at;
    for (int level = 0; level < levels; ++level) {
      const uint64_t size = uint64_t{1} << (kFanBits * (level + 1)), block = at / size;
      if (at % size != 0 || at + size > end || !Has(level, block)) break;
      step = size;
      candidate = at + levels_[level].winners[block - levels_[level].first];
    }
    consider(candidate);
    at += step;
  }
  return best;
}

void BlockExtremes::Extend(const NumberedVersions& versions, uint64_t end) {
  for (int level = 0; level < kLevels; ++level) {
    Level& one = levels_[level];
    const uint64_t size = uint64_t{1} << (kFanBits * (level + 1));
    const uint64_t wanted = (versions.oldest + size - 1) / size;  // the first whole block
    uint64_t next = one.first + one.winners.size();
    if (wanted > next) {
      one.first = next = wanted;
      one.winners.clear();
    } else if (wanted - one.first > one.winners.size() / 2 + 64) {
      one.winners.erase(one.winners.begin(), one.winners.begin() + static_cast<int64_t>(wanted - one.first));
      one.first = wanted;
    }
    for (; (next + 1) * size <= end; ++next) {
      const uint64_t start = Start(level, next);
      one.winners.push_back(static_cast<uint16_t>(Look(versions, start, start + size, level) - start));
    }
  }
}

uint64_t BlockExtremes::Best(const NumberedVersions& versions, uint64_t begin, uint64_t end) {
  Extend(versions, end);
  return Look(versions, begin, end, kLevels);
}

void RowPartials::Drop(const NumberedVersions& versions, uint64_t before) {
  // Blocks need no word: nobody asks for what is not there.
  for (MovingCounts& one : counts) {
    if (before > one.range.begin() && before < one.range.end()) one.MoveTo(versions, before, one.range.end());
  }
  std::erase_if(counts, [&](const MovingCounts& one) { return one.range.end() <= before; });
}

}  // namespace morphspark
