// Decimals: checked 128-bit arithmetic, and its one way out to doubles.
#include "base/decimal.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using decimal::kPowersOfTen;
using testing::Random;

constexpr Int128 kLargest = kPowersOfTen[38] - 1;

std::string Text(Int128 value) {
  std::string digits;
  for (Int128 rest = decimal::Abs(value); rest || digits.empty(); rest /= 10) {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
  }
  if (value < 0) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// A number whose count of digits is as likely to be small as large.
Int128 RandomDecimal(Random* random) {
  const auto bits = static_cast<Int128>((*random)() >> 1) << 64 | (*random)();
  const Int128 size = bits % kPowersOfTen[(*random)() % 39];
  return (*random)() % 2 ? size : -size;
}

BOOST_AUTO_TEST_SUITE(decimals)

BOOST_AUTO_TEST_CASE(to_double_rounds_once_as_strtod_does) {
  std::vector<Int128> hard = {0, 1, -1, 5, kLargest, -kLargest, kPowersOfTen[37], kPowersOfTen[22]};
  for (int bit = 53; bit < 126; ++bit) {  // integers around a tie between two doubles
    for (Int128 off : {-2, -1, 0, 1, 2}) hard.push_back((Int128{1} << bit) + off);
    for (Int128 off : {-1, 0, 1}) hard.push_back((Int128{1} << bit) + (Int128{1} << (bit - 53)) + off);
    for (Int128 off : {-1, 0, 1}) hard.push_back((Int128{3} << (bit - 1)) + (Int128{1} << (bit - 53)) + off);
  }
  Random random(3);
  for (int i = 0; i < 2'000; ++i) hard.push_back(RandomDecimal(&random));
  for (Int128 value : hard) {
    if (!decimal::Fits(value)) continue;
    for (int scale : {0, 1, 2, 6, 18, 21, 22, 23, 30, 37, 38}) {
      const std::string text = Text(value) + "e-" + std::to_string(scale);
      const double expected = std::strtod(text.c_str(), nullptr);
      BOOST_REQUIRE_MESSAGE(decimal::ToDouble(value, scale) == expected, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(zero_is_never_negative) {
  for (int scale : {0, 2, 22, 23, 38}) BOOST_TEST(!std::signbit(decimal::ToDouble(0, scale)));
}

BOOST_AUTO_TEST_CASE(division_rounds_half_away_from_zero) {
  struct {
    Int128 numerator, denominator, expected;
  } const kCases[] = {
      {0, 7, 0},
      {1, 2, 1},
      {-1, 2, -1},
      {1, -2, -1},
      {-1, -2, 1},
      {1, 3, 0},
      {2, 3, 1},
      {-2, 3, -1},
      {5, 2, 3},
      {-5, 2, -3},
      {7, 2, 4},
      {10, 4, 3},
      {-10, 4, -3},
      {49, 100, 0},
      {50, 100, 1},
      {149, 100, 1},
      {150, 100, 2},
      {kLargest, 1, kLargest},
      {kLargest, -1, -kLargest},
      {kLargest, kLargest, 1},
      {kLargest / 2, kLargest, 0},  // kLargest is odd: just below a half
      {kLargest / 2 + 1, kLargest, 1},
      {-kLargest / 2 - 1, kLargest, -1},
      {1, kLargest, 0},
  };
  for (const auto& one : kCases) {
    BOOST_TEST((decimal::DivideHalfUp(one.numerator, one.denominator) == one.expected),
               Text(one.numerator) << " / " << Text(one.denominator));
  }
}

BOOST_AUTO_TEST_CASE(floor_division_and_modulo_have_the_signs_of_python) {
  struct {
    Int128 a, b, quotient, remainder;
  } const kCases[] = {
      {7, 3, 2, 1},
      {-7, 3, -3, 2},
      {7, -3, -3, -2},
      {-7, -3, 2, -1},
      {6, 3, 2, 0},
      {-6, 3, -2, 0},
      {6, -3, -2, 0},
      {0, 5, 0, 0},
      {0, -5, 0, 0},
      {1, 5, 0, 1},
      {-1, 5, -1, 4},
      {1, -5, -1, -4},
      {kLargest, 1, kLargest, 0},
      {kLargest, -1, -kLargest, 0},
      {-kLargest, kLargest, -1, 0},
      {-1, kLargest, -1, kLargest - 1},
      {1, -kLargest, -1, -kLargest + 1},
  };
  for (const auto& one : kCases) {
    const std::string what = Text(one.a) + " and " + Text(one.b);
    BOOST_TEST((decimal::FloorDivide(one.a, one.b) == one.quotient), what);
    BOOST_TEST((decimal::FloorModulo(one.a, one.b) == one.remainder), what);
  }
  Random random(4);
  for (int i = 0; i < 20'000; ++i) {
    const Int128 a = RandomDecimal(&random), b = RandomDecimal(&random);
    if (b == 0) continue;
    const Int128 quotient = decimal::FloorDivide(a, b), remainder = decimal::FloorModulo(a, b);
    BOOST_REQUIRE((quotient * b + remainder == a));
    BOOST_REQUIRE((remainder == 0 || (remainder < 0) == (b < 0)));
    BOOST_REQUIRE((decimal::Abs(remainder) < decimal::Abs(b)));
  }
}

BOOST_AUTO_TEST_CASE(results_beyond_38_digits_are_refused) {
  Int128 out;
  BOOST_TEST(decimal::Add(kLargest, 0, &out));
  BOOST_TEST(!decimal::Add(kLargest, 1, &out));
  BOOST_TEST(!decimal::Add(kLargest, kLargest, &out));  // beyond 128 bits, too
  BOOST_TEST(!decimal::Sub(-kLargest, 1, &out));
  BOOST_TEST(!decimal::Sub(-kLargest, kLargest, &out));
  BOOST_TEST(decimal::Sub(kLargest, kLargest, &out));
  BOOST_TEST((out == 0));
  BOOST_TEST(decimal::Mul(kPowersOfTen[19], kPowersOfTen[18], &out));
  BOOST_TEST(!decimal::Mul(kPowersOfTen[19], kPowersOfTen[19], &out));
  BOOST_TEST(!decimal::Mul(kLargest, -kLargest, &out));
  BOOST_TEST(decimal::Mul(kLargest, -1, &out));
  BOOST_TEST((out == -kLargest));
}

BOOST_AUTO_TEST_CASE(scaling_up_refuses_what_does_not_fit) {
  struct {
    Int128 value;
    int digits;
    bool fits;
  } const kCases[] = {
      {1, 0, true},
      {1, 37, true},
      {1, 38, false},
      {9, 37, true},
      {10, 37, false},
      {-1, 37, true},
      {-1, 38, false},
      {kLargest, 0, true},
      {kLargest, 1, false},
      {0, 38, true},
      {0, 39, true},
      {0, 1 << 30, true},
      {1, 39, false},
      {-1, 1 << 30, false},
      {kPowersOfTen[19], 18, true},
      {kPowersOfTen[19], 19, false},
  };
  for (const auto& one : kCases) {
    Int128 out = 77;
    BOOST_TEST(decimal::ScaleUp(one.value, one.digits, &out) == one.fits, Text(one.value) << " by " << one.digits);
    if (one.fits) {
      BOOST_TEST((one.value == 0 ? out == 0 : out / one.value == kPowersOfTen[one.digits]));
    }
  }
}

BOOST_AUTO_TEST_CASE(comparing_never_overflows) {
  struct {
    Int128 a;
    int up_a;
    Int128 b;
    int up_b, expected;
  } const kCases[] = {
      {1, 0, 1, 0, 0},
      {1, 2, 100, 0, 0},
      {100, 0, 1, 2, 0},
      {1, 2, 99, 0, 1},
      {1, 2, 101, 0, -1},
      {-1, 2, -99, 0, -1},
      {kLargest, 38, kLargest, 0, 1},
      {-kLargest, 38, -kLargest, 0, -1},
      {kLargest, 0, kLargest, 38, -1},
      {-kLargest, 0, -kLargest, 38, 1},
      {0, 38, 0, 0, 0},
      {0, 38, 1, 0, -1},
      {0, 38, -1, 0, 1},
      {1, 38, kLargest, 0, 1},
      {-1, 38, -kLargest, 0, -1},
      {1, 0, kLargest, 1, -1},
      {1, 1000, kLargest, 0, 1},
      {0, 1000, 0, 0, 0},
  };
  for (const auto& one : kCases) {
    BOOST_TEST(decimal::Compare(one.a, one.up_a, one.b, one.up_b) == one.expected,
               Text(one.a) << "e" << one.up_a << " ? " << Text(one.b) << "e" << one.up_b);
    BOOST_TEST(decimal::Compare(one.b, one.up_b, one.a, one.up_a) == -one.expected);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
