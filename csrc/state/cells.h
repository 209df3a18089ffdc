// Values of versions, where they lie packed.
#pragma once

#include "base/value.h"

namespace morphspark {

// A column of a version, as a register holds it.
inline Value LoadCell(Kind kind, const uint8_t* cell) {
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

// Equal for values that are equal: all NaN are one already, and -0 is 0. Not of strings.
inline uint64_t DistinctWord(Kind kind, const uint8_t* cell) {
  const Value value = LoadCell(kind, cell);
  if (kind == Kind::kFloat64) return std::bit_cast<uint64_t>(value.f == 0 ? 0.0 : value.f);
  return kind == Kind::kDecimal ? static_cast<uint64_t>(value.d) : static_cast<uint64_t>(value.i);
}

}  // namespace morphspark
