#include "base/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace morphspark {
namespace {

using UInt128 = unsigned __int128;

UInt128 Magnitude(Int128 number) { return number < 0 ? -static_cast<UInt128>(number) : static_cast<UInt128>(number); }

int Width(UInt128 number) {
  const auto high = static_cast<uint64_t>(number >> 64);
  return high ? 64 + static_cast<int>(std::bit_width(high))
              : static_cast<int>(std::bit_width(static_cast<uint64_t>(number)));
}

// The double nearest to ±number × 2^exponent; `sticky`: there is something below the number's last bit.
double Nearest(UInt128 number, bool sticky, int exponent, bool negative) {
  const int drop = std::max(0, Width(number) - 64);
  auto high = static_cast<uint64_t>(number >> drop);
  if (sticky || (number & ((UInt128{1} << drop) - 1)) != 0) high |= 1;
  const double size = std::ldexp(static_cast<double>(high), exponent + drop);
  return negative ? -size : size;
}

}  // namespace

ExactSum::ExactSum(const ExactSum& other)
    : near_(other.near_),
      base_(other.base_),
      far_(other.far_ ? std::make_unique<Limbs>(*other.far_) : nullptr),
      adds_(other.adds_),
      nans_(other.nans_),
      positive_infinities_(other.positive_infinities_),
      negative_infinities_(other.negative_infinities_) {}

void ExactSum::AddScaled(Int128 number, int position) {
  if (number == 0) return;
  if (near_ == 0) base_ = std::max(0, position - kBelowFirst) / kBaseStep * kBaseStep;
  if (position < base_) {  // a lower base, if there is room above
    const int lower = position / kBaseStep * kBaseStep;
    if (Width(Magnitude(near_)) + base_ - lower > kNearBits) return AddFar(number, position);
    near_ = near_ * (Int128{1} << (base_ - lower));
    base_ = lower;
  }
  const int shift = position - base_;
  Int128 sum;
  if (Width(Magnitude(number)) + shift > kNearBits || __builtin_add_overflow(near_, number << shift, &sum)) {
    return AddFar(number, position);
  }
  near_ = sum;
}

void ExactSum::AddFar(Int128 number, int position) {
  if (!far_) far_ = std::make_unique<Limbs>();
  AddTo(far_.get(), number, position);
  if (++adds_ < kAddsBetweenNormalise) return;
  Normalise(far_.get());
  adds_ = 0;
}

void ExactSum::AddTo(Limbs* limbs, Int128 number, int position) {
  const int64_t sign = number < 0 ? -1 : 1;
  UInt128 rest = Magnitude(number);
  const int skip = position % kBits;
  // The lowest limb takes what is left of it; the others take whole ones.
  int limb = position / kBits;
  (*limbs)[limb] += sign * static_cast<int64_t>(static_cast<uint32_t>(rest << skip));
  for (rest >>= kBits - skip; rest; rest >>= kBits)
    (*limbs)[++limb] += sign * static_cast<int64_t>(static_cast<uint32_t>(rest));
}

void ExactSum::Merge(const ExactSum& other) {
  MergeNear(other.near_, other.base_);
  nans_ += other.nans_;
  positive_infinities_ += other.positive_infinities_;
  negative_infinities_ += other.negative_infinities_;
  if (!other.far_) return;
  if (!far_) far_ = std::make_unique<Limbs>();
  for (int i = 0; i < kLimbs; ++i) (*far_)[i] += (*other.far_)[i];
  adds_ += other.adds_ + 1;  // a limb that is normalised counts as one more
  if (adds_ < kAddsBetweenNormalise) return;
  Normalise(far_.get());
  adds_ = 0;
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
  if (!far_) return near_ == 0 ? 0.0 : Nearest(Magnitude(near_), false, base_ - 1074, near_ < 0);
  Limbs limbs = *far_;
  if (near_ != 0) AddTo(&limbs, near_, base_);
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
  UInt128 highest = 0;
  for (int i = top; i > top - 3; --i) highest = highest << kBits | static_cast<uint32_t>(i >= 0 ? limbs[i] : 0);
  bool sticky = false;
  for (int i = top - 3; i >= 0 && !sticky; --i) sticky = limbs[i] != 0;
  return Nearest(highest, sticky, kBits * (top - 2) - 1074, negative);
}

}  // namespace morphspark
