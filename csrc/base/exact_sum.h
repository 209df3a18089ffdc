// A sum of doubles without rounding, rounded once at the end.
//
// Most sums are of numbers that are alike. They fit one fixed-point number of 128 bits, near × 2^(base - 1074), whose
// base is found from the first of them: a shift and an addition each. What does not fit, very large or very small
// beside the rest, goes to `far`, a fixed-point number wide enough for every double: Σ far[i] × 2^(32 i - 1074). Its
// limbs are signed and may leave [0, 2^32) between normalisations, so adding touches three of them and carries nothing.
//
// Sums merge, and subtract: what windows need. Not thread safe.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "base/value.h"

namespace morphspark {

class ExactSum {
 public:
  ExactSum() = default;
  ExactSum(const ExactSum& other);
  ExactSum(ExactSum&&) = default;
  ExactSum& operator=(ExactSum&&) = default;

  void Reset() { *this = ExactSum(); }
  void Add(double value) { Change(value, 1); }
  // Takes back what was added.
  void Subtract(double value) { Change(value, -1); }
  void Merge(const ExactSum& other);
  double Round() const;

  // A sum of numbers that are alike, near × 2^(base - 1074), is two numbers.
  bool all_near() const { return !far_ && !nans_ && !positive_infinities_ && !negative_infinities_; }
  Int128 near() const { return near_; }
  int base() const { return base_; }
  void MergeNear(Int128 near, int base) {
    if (near_ == 0) base_ = base;
    if (base != base_ || !AddNear(near)) [[unlikely]]
      AddScaled(near, base);
  }

 private:
  static constexpr int kBits = 32;
  static constexpr int kLimbs = (1074 + 1024) / kBits + 4;  // every double, and room for 2^64 of them
  static constexpr int64_t kAddsBetweenNormalise = int64_t{1} << 29;
  static constexpr int kNearBits = 127;  // of a signed number
  static constexpr int kMantissaBits = 53;
  static constexpr int kBelowFirst = 20;  // bits that are left for numbers smaller than the first, at least
  static constexpr int kBaseStep = 16;    // bases are multiples of it, so that sums of like numbers have the same one
  static constexpr int kNoBase = 1 << 16;

  using Limbs = std::array<int64_t, kLimbs>;
  static void Normalise(Limbs* limbs);
  static void AddTo(Limbs* limbs, Int128 number, int position);

  [[gnu::always_inline]] void Change(double value, int times) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const int biased = static_cast<int>(bits >> 52 & 0x7FF);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (biased == 0x7FF) [[unlikely]] {
      (fraction ? nans_ : value > 0 ? positive_infinities_ : negative_infinities_) += times;
      return;
    }
    const auto mantissa = static_cast<int64_t>(biased ? fraction | uint64_t{1} << 52 : fraction);
    const int position = biased ? biased - 1 : 0;  // the mantissa's lowest bit stands for 2^(position - 1074)
    const Int128 number = (value < 0) == (times > 0) ? -mantissa : mantissa;
    const int shift = position - base_;
    if (shift < 0 || shift > kNearBits - kMantissaBits || !AddNear(number << shift)) [[unlikely]]
      AddScaled(number, position);
  }
  // False: it does not fit. In halves, because a number that is stored in halves and loaded whole has to wait for them.
  [[gnu::always_inline]] bool AddNear(Int128 number) {
    const auto high = [](Int128 of) { return static_cast<int64_t>(of >> 64); };
    uint64_t low_sum;
    int64_t high_sum;
    const bool carry = __builtin_add_overflow(static_cast<uint64_t>(near_), static_cast<uint64_t>(number), &low_sum);
    const bool beyond = __builtin_add_overflow(high(near_), high(number), &high_sum);
    if (beyond || __builtin_add_overflow(high_sum, int64_t{carry}, &high_sum)) [[unlikely]]
      return false;
    near_ = static_cast<Int128>(static_cast<unsigned __int128>(static_cast<uint64_t>(high_sum)) << 64 | low_sum);
    return true;
  }
  // Adds number × 2^(position - 1074).
  void AddScaled(Int128 number, int position);
  void AddFar(Int128 number, int position);

  Int128 near_ = 0;
  int base_ = kNoBase;
  std::unique_ptr<Limbs> far_;
  int64_t adds_ = 0;  // to `far`
  int64_t nans_ = 0, positive_infinities_ = 0, negative_infinities_ = 0;
};

}  // namespace morphspark
