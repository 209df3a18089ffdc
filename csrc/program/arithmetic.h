// What operations on values mean, for both machines: one that runs a transaction (machine.cc) and one that runs many
// (lane_machine.cc). No operand is null.
//
// An operation that can fail says how, or kFine; its result is good only then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/decimal.h"
#include "base/value.h"
#include "program/code.h"

namespace morphspark {

inline constexpr Failure kFine = kFailures;

// -- comparison

// By comparison, a bit each for less, equal, greater.
inline constexpr uint8_t kOrdersHeld[] = {0b010, 0b101, 0b001, 0b011, 0b100, 0b110};
static_assert(static_cast<int>(Comparison::kEq) == 0 && static_cast<int>(Comparison::kGe) == 5);

// Does the comparison hold of operands in this order (below, at or above 0)? Without a branch: nobody could predict it.
inline bool Holds(Comparison comparison, int order) {
  return kOrdersHeld[static_cast<size_t>(comparison)] >> (1 + (order > 0) - (order < 0)) & 1;
}

inline int CompareInt(int64_t a, int64_t b) { return (a > b) - (a < b); }

// `shift`: digits that a (positive) or b (negative) lacks.
inline int CompareDecimal(Int128 a, Int128 b, int32_t shift) {
  return decimal::Compare(a, std::max(shift, 0), b, std::max(-shift, 0));
}

// -- integers

inline Failure Add(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out) ? kOverflow : kFine; }
inline Failure Sub(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out) ? kOverflow : kFine; }
inline Failure Mul(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out) ? kOverflow : kFine; }

// Add and Sub as arithmetic on words that never fails, so that a loop of them vectorises; `…Overflow` is negative where
// Add and Sub fail.
inline int64_t WrappedAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrappedSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t AddOverflow(int64_t a, int64_t b) { return (a ^ WrappedAdd(a, b)) & (b ^ WrappedAdd(a, b)); }
inline int64_t SubOverflow(int64_t a, int64_t b) { return (a ^ b) & (a ^ WrappedSub(a, b)); }

inline Failure FloorDivide(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return kDivision;
  if (a == INT64_MIN && b == -1) return kOverflow;
  *out = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  return kFine;
}

inline Failure FloorModulo(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return kDivision;
  const int64_t remainder = b == -1 ? 0 : a % b;  // INT64_MIN % -1 traps
  *out = remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
  return kFine;
}

inline Failure Negate(int64_t a, int64_t* out) { return Sub(0, a, out); }
inline Failure Absolute(int64_t a, int64_t* out) {
  *out = a;
  return a < 0 ? Negate(a, out) : kFine;
}

// -- floats: division and modulo have the sign rules of Python, including signed zeros

inline Failure Divide(double a, double b, double* out) {
  if (b == 0) return kDivision;
  *out = a / b;
  return kFine;
}

inline Failure FloorModulo(double a, double b, double* out) {
  if (b == 0) return kDivision;
  const double remainder = std::fmod(a, b);
  if (remainder == 0) {
    *out = std::copysign(0.0, b);
  } else {
    *out = (b < 0) != (remainder < 0) ? remainder + b : remainder;
  }
  return kFine;
}

inline Failure FloorDivide(double a, double b, double* out) {
  if (b == 0) return kDivision;
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1.0;
  if (quotient == 0) {
    *out = std::copysign(0.0, a / b);
  } else {
    const double floor = std::floor(quotient);
    *out = quotient - floor > 0.5 ? floor + 1.0 : floor;
  }
  return kFine;
}

// -- decimals: the operands have one scale, except of a product and a quotient

inline Failure Add(Int128 a, Int128 b, Int128* out) { return decimal::Add(a, b, out) ? kFine : kOverflow; }
inline Failure Sub(Int128 a, Int128 b, Int128* out) { return decimal::Sub(a, b, out) ? kFine : kOverflow; }
inline Failure Mul(Int128 a, Int128 b, Int128* out) { return decimal::Mul(a, b, out) ? kFine : kOverflow; }

// `digits`: how many the numerator gains.
inline Failure Divide(Int128 a, Int128 b, uint32_t digits, Int128* out) {
  if (b == 0) return kDivision;
  Int128 numerator;
  if (!decimal::ScaleUp(a, static_cast<int>(digits), &numerator)) return kOverflow;
  *out = decimal::DivideHalfUp(numerator, b);
  return kFine;
}

inline Failure FloorDivide(Int128 a, Int128 b, Int128* out) {
  if (b == 0) return kDivision;
  *out = decimal::FloorDivide(a, b);
  return kFine;
}

inline Failure FloorModulo(Int128 a, Int128 b, Int128* out) {
  if (b == 0) return kDivision;
  *out = decimal::FloorModulo(a, b);
  return kFine;
}

inline Failure ScaleUp(Int128 a, int digits, Int128* out) {
  return decimal::ScaleUp(a, digits, out) ? kFine : kOverflow;
}

// As a column stores it. `digits`: to gain (positive) or to round away; `fit`: digits that fit.
inline Failure Assign(Int128 a, int32_t digits, uint16_t fit, Int128* out) {
  Int128 stored = a;
  if (digits < 0) {
    stored = decimal::DivideHalfUp(a, decimal::kPowersOfTen[-digits]);
  } else if (!decimal::ScaleUp(a, digits, &stored)) {
    return kOverflow;
  }
  *out = stored;
  return decimal::Abs(stored) >= decimal::kPowersOfTen[fit] ? kOverflow : kFine;
}

// -- of equal values the first

template <class T>
T Smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T Larger(T a, T b) {
  return b > a ? b : a;
}
inline double Smaller(double a, double b) { return CompareFloat(b, a) < 0 ? b : a; }
inline double Larger(double a, double b) { return CompareFloat(b, a) > 0 ? b : a; }
inline Bytes Smaller(Bytes a, Bytes b) { return CompareBytes(b, a) < 0 ? b : a; }
inline Bytes Larger(Bytes a, Bytes b) { return CompareBytes(b, a) > 0 ? b : a; }

}  // namespace morphspark
