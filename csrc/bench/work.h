// What a user function costs, for benchmarks: a fixed amount of arithmetic that gives back its argument.
//
//   smooth    a recurrence of floating-point operations: one value waits for itself, many values vectorise
//   branchy   branches that depend on the data: neither vectorises nor is predicted
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/lanes.h"

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

// Smooth work on 4 × kPacks values at once, which stay in vector registers over all rounds: while one waits for itself
// there are others to compute.
template <int kPacks>
[[gnu::always_inline]] inline void SmoothWork(const int64_t* values, uint32_t rounds) {
  typedef double Pack __attribute__((vector_size(32)));  // where there is no AVX, the compiler makes two of it
  Pack x[kPacks];
#pragma GCC unroll 16
  for (int i = 0; i < kPacks; ++i) {
    for (int j = 0; j < 4; ++j) x[i][j] = static_cast<double>(values[4 * i + j]);
  }
#pragma GCC unroll 1
  for (uint32_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kPacks; ++i) x[i] = x[i] * 0.999999 + 0.5;  // SmoothRound
  }
  asm volatile("" : : "r"(x) : "memory");
}

inline constexpr uint32_t kSmoothLanes = 32;

MORPHSPARK_AVX2 inline void SmoothWorkAvx2(const int64_t* values, uint32_t rounds) { SmoothWork<8>(values, rounds); }

// The same work on many values, which it gives back, too.
inline void WorkOnLanes(WorkKind kind, const int64_t* values, uint32_t lanes, uint32_t rounds) {
  if (kind == WorkKind::kBranchy) {
    for (uint32_t lane = 0; lane < lanes; ++lane) Work(kind, values[lane], rounds);
    return;
  }
  for (uint32_t lane = 0; lane < lanes; lane += kSmoothLanes) {
    int64_t block[kSmoothLanes] = {};
    std::copy_n(values + lane, std::min(kSmoothLanes, lanes - lane), block);
    if (HasAvx2()) {
      SmoothWorkAvx2(block, rounds);
    } else {  // with half the registers
      SmoothWork<4>(block, rounds);
      SmoothWork<4>(block + kSmoothLanes / 2, rounds);
    }
  }
}

}  // namespace morphspark
