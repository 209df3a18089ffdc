// The same numbers as in tests/test_draws.py.
#include "program/draws.h"

#include <boost/test/unit_test.hpp>

namespace morphspark {
namespace {

BOOST_AUTO_TEST_SUITE(draws_of_random)

BOOST_AUTO_TEST_CASE(are_those_of_python) {
  constexpr uint64_t run = 0xCA77A06B5710B770u;
  BOOST_TEST(draws::Uniform(draws::Of(run, 0, 0)) == 0x1.66d0b92895a80p-8);
  BOOST_TEST(draws::Uniform(draws::Of(run, 7, 3)) == 0x1.3431fd7eb820ap-1);
  BOOST_TEST(draws::Uniform(draws::With(draws::With(draws::Of(run, 7, 3), 2), 1)) == 0x1.0666e4d626578p-3);
}

BOOST_AUTO_TEST_CASE(are_below_one) {
  BOOST_TEST(draws::Uniform(0) == 0.0);
  BOOST_TEST(draws::Uniform(UINT64_MAX) < 1.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
