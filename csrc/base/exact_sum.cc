#include "base/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace morphspark {

void ExactSum::Change(double value, int64_t times) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int biased = static_cast<int>(bits >> 52 & 0x7FF);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (biased == 0x7FF) {
    (mantissa ? nans_ : value > 0 ? positive_infinities_ : negative_infinities_) += times;
    return;
  }
  if (biased) mantissa |= uint64_t{1} << 52;
  const int position = biased ? biased - 1 : 0;  // the mantissa's lowest bit stands for 2^(position - 1074)
  unsigned __int128 shifted = static_cast<unsigned __int128>(mantissa) << (position % kBits);
  const int64_t sign = value < 0 ? -times : times;
  for (int limb = position / kBits; shifted; ++limb, shifted >>= kBits) {
    limbs_[limb] += sign * static_cast<int64_t>(static_cast<uint32_t>(shifted));
  }
  if (++adds_ == kAddsBetweenNormalise) {
    Normalise(&limbs_);
    adds_ = 0;
  }
}

void ExactSum::Merge(const ExactSum& other) {
  for (int i = 0; i < kLimbs; ++i) limbs_[i] += other.limbs_[i];
  nans_ += other.nans_;
  positive_infinities_ += other.positive_infinities_;
  negative_infinities_ += other.negative_infinities_;
  adds_ += other.adds_ + 1;  // a limb that is normalised counts as one more
  if (adds_ >= kAddsBetweenNormalise) {
    Normalise(&limbs_);
    adds_ = 0;
  }
}

// Brings every limb but the last into [0, 2^32); the last keeps the sign.
void ExactSum::Normalise(Limbs* limbs) {
  int64_t carry = 0;
  for (int i = 0; i + 1 < kLimbs; ++i) {
    const int64_t limb = (*limbs)[i] + carry;
    carry = limb >> kBits;  // rounds down, also below zero
    (*limbs)[i] = limb - (carry << kBits);
  }
  (*limbs)[kLimbs - 1] += carry;
}

double ExactSum::Round() const {
  if (nans_ || (positive_infinities_ && negative_infinities_)) return std::numeric_limits<double>::quiet_NaN();
  if (positive_infinities_) return std::numeric_limits<double>::infinity();
  if (negative_infinities_) return -std::numeric_limits<double>::infinity();
  Limbs limbs = limbs_;
  Normalise(&limbs);
  const bool negative = limbs[kLimbs - 1] < 0;
  if (negative) {
    for (int64_t& limb : limbs) limb = -limb;
    Normalise(&limbs);
  }
  int top = kLimbs - 1;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0.0;
  // The highest 96 bits hold at least 65 that count; everything below only says whether a tie is one.
  unsigned __int128 window = 0;
  for (int i = top; i > top - 3; --i) window = window << kBits | static_cast<uint32_t>(i >= 0 ? limbs[i] : 0);
  const int shift = static_cast<int>(std::bit_width(static_cast<uint64_t>(window >> 32))) - 32;
  const int drop = shift > 0 ? shift : 0;
  auto high = static_cast<uint64_t>(window >> drop);  // at most 64 bits
  bool sticky = (window & ((static_cast<unsigned __int128>(1) << drop) - 1)) != 0;
  for (int i = top - 3; i >= 0 && !sticky; --i) sticky = limbs[i] != 0;
  if (sticky) high |= 1;
  const int exponent = kBits * (top - 2) + drop - 1074;
  const double size = std::ldexp(static_cast<double>(high), exponent);
  return negative ? -size : size;
}

}  // namespace morphspark
