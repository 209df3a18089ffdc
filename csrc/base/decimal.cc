#include "base/decimal.h"

#include <cmath>

namespace morphspark::decimal {
namespace {

using Uint128 = unsigned __int128;

constexpr int kExactPowers = 22;  // 10^22 is the largest power of ten that a double holds exactly
constexpr int64_t kExactIntegers = int64_t{1} << 53;

int BitWidth(Uint128 value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high ? 128 - __builtin_clzll(high) : 64 - (value ? __builtin_clzll(static_cast<uint64_t>(value)) : 64);
}

// Long division, bit by bit: 64 bits of the quotient, and a last bit that says whether anything was left.
double DivideExactly(Uint128 numerator, Uint128 denominator) {
  // Shift the denominator so that the quotient's first bit is its highest.
  int exponent = BitWidth(numerator) - BitWidth(denominator);
  Uint128 remainder = numerator;
  uint64_t quotient = 0;
  if (exponent > 0) {
    denominator <<= exponent;
  } else {
    remainder <<= -exponent;
  }
  // Both have the same width now, at most 127 bits, so doubling the remainder can't overflow 128.
  for (int bit = 63; bit >= 0; --bit) {
    if (remainder >= denominator) {
      remainder -= denominator;
      quotient |= uint64_t{1} << bit;
    }
    remainder <<= 1;
  }
  if (remainder != 0) quotient |= 1;  // sticky: below the rounding position, so it only breaks ties
  return std::ldexp(static_cast<double>(quotient), exponent - 63);
}

}  // namespace

double ToDouble(Int128 value, int scale) {
  if (value >= -kExactIntegers && value <= kExactIntegers && scale <= kExactPowers) {
    return static_cast<double>(static_cast<int64_t>(value)) / static_cast<double>(kPowersOfTen[scale]);
  }
  if (scale == 0) return static_cast<double>(value);
  const double size = DivideExactly(static_cast<Uint128>(Abs(value)), static_cast<Uint128>(kPowersOfTen[scale]));
  return value < 0 ? -size : size;
}

}  // namespace morphspark::decimal
