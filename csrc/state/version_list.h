// The visible versions of one row, the oldest first. Each begins with its time and the number of its transaction.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/ids.h"

namespace morphspark {

struct VersionList {
  const uint8_t* first = nullptr;
  uint32_t count = 0;
  uint32_t stride = 0;

  const uint8_t* at(uint32_t index) const { return first + uint64_t{index} * stride; }
  static int64_t Time(const uint8_t* version) {
    int64_t time;
    std::memcpy(&time, version, sizeof(time));
    return time;
  }
  static Stamp Sequence(const uint8_t* version) {
    Stamp sequence;
    std::memcpy(&sequence, version + 8, sizeof(sequence));
    return sequence;
  }
  static int64_t First(const uint8_t* version, size_t session) {
    int64_t first;
    std::memcpy(&first, version + 16 + 8 * session, sizeof(first));
    return first;
  }
  // How many versions are older than this time.
  uint32_t Before(int64_t time) const {
    return Partition([&](const uint8_t* version) { return Time(version) < time; });
  }
  // How many come first for which the test holds; it holds for none behind them.
  template <class Test>
  uint32_t Partition(Test test) const {
    uint32_t low = 0, high = count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (test(at(middle)))
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace morphspark
