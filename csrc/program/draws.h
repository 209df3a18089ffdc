// What `ms.random()` gives: a function of where it is called. morphspark/draws.py tells what the numbers are, and says
// the same in Python; it also makes `run`, which all draws of one execution begin with.
#pragma once

#include <cstdint>

namespace morphspark::draws {

// The finaliser of SplitMix64.
constexpr uint64_t Mix(uint64_t word) {
  word += 0x9E3779B97F4A7C15u;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

constexpr uint64_t With(uint64_t drawn, uint64_t number) { return Mix(drawn ^ Mix(number)); }

// Of a call outside of loops; inside of some, each adds its iteration, the innermost first.
constexpr uint64_t Of(uint64_t run, int64_t position, uint32_t step) {
  return With(With(run, static_cast<uint64_t>(position)), step);
}

// One of the 2^53 multiples of 2^-53 in [0, 1).
constexpr double Uniform(uint64_t drawn) { return static_cast<double>(drawn >> 11) * 0x1p-53; }

}  // namespace morphspark::draws
