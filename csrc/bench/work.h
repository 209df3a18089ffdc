// What a user function costs, for benchmarks: a fixed amount of arithmetic that gives back its argument.
//
//   smooth    a recurrence of floating-point operations: one value waits for itself, many values vectorise
//   branchy   branches that depend on the data: neither vectorises nor is predicted
#pragma once

#include <cstdint>

namespace morphspark {

enum class WorkKind : uint16_t { kSmooth, kBranchy };

// The compiler must not know what the work was for.
inline void Keep(double value) { asm volatile("" : : "x"(value)); }
inline void Keep(uint64_t value) { asm volatile("" : : "r"(value)); }

inline double SmoothRound(double x) { return x * 0.999999 + 0.5; }

inline uint64_t BranchyRound(uint64_t x) {
  if (x & 0x20) return x * 0x9E3779B97F4A7C15u + 1;
  return (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
}

inline int64_t Work(WorkKind kind, int64_t value, uint32_t rounds) {
  if (kind == WorkKind::kSmooth) {
    auto x = static_cast<double>(value);
    for (uint32_t i = 0; i < rounds; ++i) x = SmoothRound(x);
    Keep(x);
  } else {
    auto x = static_cast<uint64_t>(value);
    for (uint32_t i = 0; i < rounds; ++i) {
      x = BranchyRound(x);
      asm volatile("" : "+r"(x));  // or the branch would become arithmetic
    }
    Keep(x);
  }
  return value;
}

}  // namespace morphspark
