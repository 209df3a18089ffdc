// The one translation unit that carries Boost.Test's runner and `main`. Tests are in *_test.cc
// beside it: they include <boost/test/unit_test.hpp> only, so that the runner is compiled once.
#define BOOST_TEST_MODULE morphspark
#include <boost/test/included/unit_test.hpp>
