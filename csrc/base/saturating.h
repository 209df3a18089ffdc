// Times that a span is added to, or taken from: beyond the first and the last moment there is none.
#pragma once

#include <cstdint>
#include <limits>

namespace morphspark {

// For spans of 0 or more.
inline int64_t Plus(int64_t time, int64_t span) {
  int64_t result;
  return __builtin_add_overflow(time, span, &result) ? std::numeric_limits<int64_t>::max() : result;
}

inline int64_t Minus(int64_t time, int64_t span) {
  int64_t result;
  return __builtin_sub_overflow(time, span, &result) ? std::numeric_limits<int64_t>::min() : result;
}

}  // namespace morphspark
