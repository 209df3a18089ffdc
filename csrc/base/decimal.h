// Checked 128-bit arithmetic on unscaled decimals. A result has at most 38 digits; every function returns false
// where the exact result would not fit.
#pragma once

#include <array>

#include "base/value.h"

namespace morphspark::decimal {

inline constexpr int kDigitsMax = 38;

constexpr std::array<Int128, kDigitsMax + 1> MakePowers() {
  std::array<Int128, kDigitsMax + 1> powers{};
  powers[0] = 1;
  for (int i = 1; i <= kDigitsMax; ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}
inline constexpr std::array<Int128, kDigitsMax + 1> kPowersOfTen = MakePowers();

inline bool Fits(Int128 value) { return value < kPowersOfTen[kDigitsMax] && value > -kPowersOfTen[kDigitsMax]; }

inline Int128 Abs(Int128 value) { return value < 0 ? -value : value; }

// value × 10^digits. `digits` may exceed 38: then only zero fits.
inline bool ScaleUp(Int128 value, int digits, Int128* out) {
  if (digits > kDigitsMax) {
    *out = 0;
    return value == 0;
  }
  return !__builtin_mul_overflow(value, kPowersOfTen[digits], out) && Fits(*out);
}

inline bool Add(Int128 a, Int128 b, Int128* out) { return !__builtin_add_overflow(a, b, out) && Fits(*out); }
inline bool Sub(Int128 a, Int128 b, Int128* out) { return !__builtin_sub_overflow(a, b, out) && Fits(*out); }
inline bool Mul(Int128 a, Int128 b, Int128* out) { return !__builtin_mul_overflow(a, b, out) && Fits(*out); }

// The nearest integer to a quotient; ties go away from zero. The denominator is not zero.
inline Int128 DivideHalfUp(Int128 numerator, Int128 denominator) {
  Int128 quotient = numerator / denominator;
  const Int128 remainder = Abs(numerator % denominator);
  const Int128 size = Abs(denominator);
  if (remainder >= size - remainder) quotient += (numerator < 0) == (denominator < 0) ? 1 : -1;
  return quotient;
}

inline Int128 FloorDivide(Int128 a, Int128 b) {
  const Int128 quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

inline Int128 FloorModulo(Int128 a, Int128 b) {
  const Int128 remainder = a % b;
  return remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

// Compares a × 10^up_a with b × 10^up_b; at most one of the two shifts is not zero. Never overflows: a side that
// outgrows 38 digits is farther from zero than any decimal.
inline int Compare(Int128 a, int up_a, Int128 b, int up_b) {
  Int128 scaled_a, scaled_b;
  if (!ScaleUp(a, up_a, &scaled_a)) return a < 0 ? -1 : 1;
  if (!ScaleUp(b, up_b, &scaled_b)) return b < 0 ? 1 : -1;
  return (scaled_a > scaled_b) - (scaled_a < scaled_b);
}

// value / 10^scale, rounded once to the nearest double.
double ToDouble(Int128 value, int scale);

}  // namespace morphspark::decimal
