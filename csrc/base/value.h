// A value in a register: 16 bytes, whose meaning the instruction knows.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/ids.h"

namespace morphspark {

using Int128 = __int128;

// How a value is held. Timestamps are integers, and table columns hold decimals as unscaled integers of 8 bytes.
enum class Kind : uint8_t {
  kNull = 0,
  kBool = 1,
  kInt64 = 2,
  kFloat64 = 3,
  kString = 4,
  kTimestamp = 5,
  kDecimal = 6,
  kList = 7,
};

// Bytes owned by somebody else: an input buffer, a constant, a table's heap or a scratch arena.
struct Bytes {
  const char* data;
  uint64_t size;

  std::string_view view() const { return {data, size}; }
};

struct ListRange {
  int64_t start;  // index of the first element in the list column's child
  int64_t size;
};

union Value {
  int64_t i;  // int64, timestamp, bool (0 or 1)
  double f;
  Int128 d;  // decimal: the unscaled integer
  Bytes s;
  ListRange list;
  RowHandle row;
};
static_assert(sizeof(Value) == 16);

// Results must be equal to the bit, and which NaN an operation gives depends on the order of its operands. So every
// NaN that is stored or returned is this one.
inline double CanonicalNan(double value) {
  return value != value ? std::bit_cast<double>(uint64_t{0x7FF8000000000000}) : value;
}

// NaN is largest and equals NaN; -0 equals 0.
inline int CompareFloat(double a, double b) {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a == b) return 0;
  return (a != a) - (b != b);
}

// memcmp() == 0 for the short strings that keys and kinds are: a call costs more than the comparison.
inline bool EqualBytes(const char* a, const char* b, uint64_t size) {
  const auto same = [&]<class Word>(Word, uint64_t at) {
    Word left, right;
    std::memcpy(&left, a + at, sizeof(Word));
    std::memcpy(&right, b + at, sizeof(Word));
    return left == right;
  };
  if (size - 8 <= 8) return same(uint64_t{}, 0) && same(uint64_t{}, size - 8);  // 8 to 16: two words that overlap
  if (size - 4 <= 4) return same(uint32_t{}, 0) && same(uint32_t{}, size - 4);  // 4 to 8
  return std::memcmp(a, b, size) == 0;
}

inline int CompareBytes(Bytes a, Bytes b) { return a.view().compare(b.view()); }

// Two values of one kind, neither of them null: less than, equal to or greater than 0. Decimals have the same scale.
inline int CompareValues(Kind kind, const Value& a, const Value& b) {
  switch (kind) {
    case Kind::kString:
      return CompareBytes(a.s, b.s);
    case Kind::kDecimal:
      return (a.d > b.d) - (a.d < b.d);
    case Kind::kFloat64:
      return CompareFloat(a.f, b.f);
    default:
      return (a.i > b.i) - (a.i < b.i);
  }
}

}  // namespace morphspark
