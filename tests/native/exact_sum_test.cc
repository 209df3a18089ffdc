// Sums of doubles without rounding, against integers that are wide enough to be exact.
#include "base/exact_sum.h"

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kMinNormal = std::numeric_limits<double>::min();

double Sum(const std::vector<double>& values) {
  ExactSum sum;
  for (double value : values) sum.Add(value);
  return sum.Round();
}

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// A sum of doubles that are all multiples of 2^exponent, as an integer of that unit. The compiler's
// own conversion of a 128-bit integer rounds once, to even.
class Model {
 public:
  explicit Model(int exponent) : exponent_(exponent) {}
  void Add(double value) { units_ += static_cast<Int128>(std::ldexp(value, -exponent_)); }
  double Round() const { return std::ldexp(static_cast<double>(units_), exponent_); }

 private:
  int exponent_;
  Int128 units_ = 0;
};

BOOST_AUTO_TEST_SUITE(exact_sum)

BOOST_AUTO_TEST_CASE(known_sums) {
  struct {
    std::vector<double> values;
    double expected;
  } const kCases[] = {
      {{}, 0.0},
      {{-0.0}, 0.0},
      {{-0.0, -0.0}, 0.0},
      {{1.5}, 1.5},
      {{0.1, 0.2, 0.3}, 0.6},               // one by one: 0.6000000000000001
      {std::vector<double>(10, 0.1), 1.0},  // one by one: 0.9999999999999999
      {{1e308, 1e308, -1e308}, 1e308},      // passes through what no double holds
      {{1e308, 1e308, -1e308, -1e308}, 0.0},
      {{kMax, kMax}, kInfinity},
      {{-kMax, -kMax}, -kInfinity},
      {{kMax, 0x1p970}, kInfinity},  // a tie at the top goes up
      {{kMax, 0x1.fffffffffffffp969}, kMax},
      {{kMax, -kMax, kTiny}, kTiny},
      {{1e16, 1.0, -1e16}, 1.0},
      {{1.0, 1e100, 1.0, -1e100}, 2.0},
      {{1e100, kTiny, -1e100}, kTiny},
      // ties to even, and what breaks them
      {{0x1p53, 1.0}, 0x1p53},
      {{0x1p53, 1.0, kTiny}, 0x1p53 + 2},
      {{0x1p53, 1.0, -kTiny}, 0x1p53},
      {{0x1p53, 2.0, 1.0}, 0x1p53 + 4},
      {{0x1p53, 2.0, 1.0, -kTiny}, 0x1p53 + 2},
      {{-0x1p53, -1.0}, -0x1p53},
      {{-0x1p53, -1.0, -kTiny}, -0x1p53 - 2},
      {{1.0, 0x1p-53}, 1.0},
      {{1.0, 0x1p-53, 0x1p-1074}, 1.0 + 0x1p-52},
      {{1.0, -0x1p-54}, 1.0},
      {{1.0, -0x1p-54, -kTiny}, 1.0 - 0x1p-53},
      // below the normal numbers
      {{kTiny, kTiny}, 2 * kTiny},
      {{kTiny, -kTiny}, 0.0},
      {{kMinNormal, -kTiny}, kMinNormal - kTiny},
      {{kMinNormal / 2, kMinNormal / 2}, kMinNormal},
      {{-kMinNormal, kTiny}, -kMinNormal + kTiny},
      {{kInfinity}, kInfinity},
      {{-kInfinity, 1.0}, -kInfinity},
      {{kInfinity, kInfinity}, kInfinity},
      {{kMax, kMax, -kInfinity}, -kInfinity},
  };
  for (const auto& one : kCases) {
    std::vector<double> values = one.values;
    BOOST_TEST(Bits(Sum(values)) == Bits(one.expected), "expected " << one.expected);
    std::reverse(values.begin(), values.end());
    BOOST_TEST(Bits(Sum(values)) == Bits(one.expected), "backwards, expected " << one.expected);
  }
}

BOOST_AUTO_TEST_CASE(nan_comes_from_nan_and_from_both_infinities) {
  BOOST_TEST(std::isnan(Sum({kNan})));
  BOOST_TEST(std::isnan(Sum({1.0, kNan, kInfinity})));
  BOOST_TEST(std::isnan(Sum({kInfinity, -kInfinity})));
  BOOST_TEST(std::isnan(Sum({-kInfinity, 5.0, kInfinity})));
}

BOOST_AUTO_TEST_CASE(reset_forgets_everything) {
  ExactSum sum;
  for (double value : {kNan, kInfinity, -kInfinity, 1e308}) sum.Add(value);
  sum.Reset();
  BOOST_TEST(sum.Round() == 0.0);
  sum.Add(2.5);
  BOOST_TEST(sum.Round() == 2.5);
}

BOOST_AUTO_TEST_CASE(rounding_in_between_changes_nothing) {
  ExactSum once, often;
  Random random(5);
  for (int i = 0; i < 1'000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 200) - 100);
    once.Add(value);
    often.Add(value);
    often.Round();
  }
  BOOST_TEST(Bits(once.Round()) == Bits(often.Round()));
}

// Mantissas of 53 bits over some 60 binary orders fit the model's 127 bits, with room for the count.
void AgreesWithTheModel(int unit_exponent, int orders, int count, Random* random) {
  ExactSum sum;
  Model model(unit_exponent);
  for (int i = 0; i < count; ++i) {
    const auto mantissa = static_cast<double>((*random)() >> 11);
    const double size = std::ldexp(mantissa, unit_exponent + static_cast<int>((*random)() % (orders + 1)));
    const double value = (*random)() % 2 ? size : -size;
    sum.Add(value);
    model.Add(value);
    if (i % 16 == 0) BOOST_REQUIRE_EQUAL(Bits(sum.Round()), Bits(model.Round()));
  }
  BOOST_REQUIRE_EQUAL(Bits(sum.Round()), Bits(model.Round()));
}

BOOST_AUTO_TEST_CASE(random_sums_agree_with_wide_integers) {
  Random random(6);
  for (int round = 0; round < 200; ++round) {
    // From the least subnormal up to where the largest still is finite.
    const int unit = -1074 + static_cast<int>(random() % 1'900);
    AgreesWithTheModel(unit, static_cast<int>(random() % 61), 100, &random);
  }
}

BOOST_AUTO_TEST_CASE(random_cancellation_agrees_with_wide_integers) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const int unit = -1074 + static_cast<int>(random() % 1'900);
    ExactSum sum;
    Model model(unit);
    std::vector<double> values;
    for (int i = 0; i < 50; ++i) {
      const auto mantissa = static_cast<double>(random() >> 11);
      const double value = std::ldexp(mantissa, unit + static_cast<int>(random() % 61));
      const double left = std::ldexp(static_cast<double>(random() % 8), unit);
      for (double one : {value, -value, left}) values.push_back(one);
    }
    std::shuffle(values.begin(), values.end(), random);
    for (double value : values) {
      sum.Add(value);
      model.Add(value);
    }
    BOOST_REQUIRE_EQUAL(Bits(sum.Round()), Bits(model.Round()));
  }
}

BOOST_AUTO_TEST_CASE(many_adds_stay_exact) {
  ExactSum sum;
  constexpr int64_t kAdds = 2'000'000;
  for (int64_t i = 0; i < kAdds; ++i) sum.Add(0x1.fffffffffffffp0);
  // 2 - 2^-52, two million times, computed as an integer of 2^-52.
  const Int128 units = Int128{kAdds} * ((Int128{1} << 53) - 1);
  BOOST_TEST(sum.Round() == std::ldexp(static_cast<double>(units), -52));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
