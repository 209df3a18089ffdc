// Values for tests of the register machine, written short: I(5), F(0.5), D(12), S("a"), B(true), and N(kind) for null.
#pragma once

#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "assembler.h"
#include "base/decimal.h"

namespace morphspark::testing {

inline constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr Int128 kLargest = decimal::kPowersOfTen[38] - 1;

// A null of a kind, or a value.
struct Operand {
  Kind kind;
  bool null;
  Literal value;
};
inline Operand I(int64_t value) { return {Kind::kInt64, false, OfInt(value)}; }
inline Operand F(double value) { return {Kind::kFloat64, false, OfFloat(value)}; }
inline Operand D(Int128 value) { return {Kind::kDecimal, false, OfDecimal(value)}; }
inline Operand S(std::string text) { return {Kind::kString, false, OfString(std::move(text))}; }
inline Operand B(bool value) { return {Kind::kBool, false, OfBool(value)}; }
inline Operand N(Kind kind) { return {kind, true, {}}; }

inline Column ColumnOf(const Operand& one) {
  const Int128 bits = one.value.bits;
  const auto number = static_cast<int64_t>(bits);
  switch (one.kind) {
    case Kind::kBool:
      return Bools({one.null ? std::nullopt : std::optional(number != 0)});
    case Kind::kFloat64:
      return Float64s({one.null ? std::nullopt : std::optional(std::bit_cast<double>(number))});
    case Kind::kDecimal:
      return Decimals({one.null ? std::nullopt : std::optional(bits)});
    case Kind::kString:
      return Strings({one.null ? std::nullopt : std::optional(one.value.text)});
    case Kind::kNull:
      return Nulls(1);
    default:
      return Int64s({one.null ? std::nullopt : std::optional(number)});
  }
}

inline std::string Show(const Operand& one) {
  if (one.null) return "null";
  switch (one.kind) {
    case Kind::kString:
      return '"' + one.value.text + '"';
    case Kind::kFloat64:
      return std::to_string(std::bit_cast<double>(static_cast<int64_t>(one.value.bits)));
    default:
      return std::to_string(static_cast<int64_t>(one.value.bits >> 64)) + ":" +
             std::to_string(static_cast<uint64_t>(one.value.bits));
  }
}

// A result, or the failure that is expected.
struct Expected {
  Expected(Operand result) : result(std::move(result)) {}        // NOLINT: written as a plain value in the tables
  Expected(Failure failure) : reason(kFailureNames[failure]) {}  // NOLINT
  Operand result = {Kind::kNull, true, {}};
  std::string reason;
};

inline Operand ReadResult(const ColumnView& column) {
  Value value;
  if (!column.Load(0, &value)) return N(column.kind);
  switch (column.kind) {
    case Kind::kBool:
      return B(value.i != 0);
    case Kind::kFloat64:
      return F(value.f);
    case Kind::kDecimal:
      return D(value.d);
    case Kind::kString:
      return S(std::string(value.s.view()));
    default:
      return I(value.i);
  }
}

}  // namespace morphspark::testing
