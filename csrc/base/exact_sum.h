// A sum of doubles without rounding: a fixed-point number wide enough for every double, rounded once at the end.
//
// The value is Σ limbs[i] × 2^(32 i - 1074). Limbs are signed and may leave [0, 2^32) between normalisations, so
// adding touches three limbs and carries nothing. Two sums merge limb by limb, and subtract too: what windows need.
// Not thread safe.
#pragma once

#include <array>
#include <cstdint>

namespace morphspark {

class ExactSum {
 public:
  void Reset() { *this = ExactSum(); }
  void Add(double value) { Change(value, 1); }
  // Takes back what was added.
  void Subtract(double value) { Change(value, -1); }
  void Merge(const ExactSum& other);
  double Round() const;

 private:
  static constexpr int kBits = 32;
  static constexpr int kLimbs = (1074 + 1024) / kBits + 4;  // every double, and room for 2^64 of them
  static constexpr int64_t kAddsBetweenNormalise = int64_t{1} << 29;

  using Limbs = std::array<int64_t, kLimbs>;
  static void Normalise(Limbs* limbs);
  void Change(double value, int64_t times);

  Limbs limbs_{};
  int64_t adds_ = 0;
  int64_t nans_ = 0, positive_infinities_ = 0, negative_infinities_ = 0;
};

}  // namespace morphspark
