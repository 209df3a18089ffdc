// The adviser is a pure state machine: advice out, reports in. Here the machine that it learns about is a table of
// costs.
#include "execute/adviser.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace morphspark {
namespace {

constexpr int64_t kEpoch = 40'000;

bool IsSerial(const Strategy& strategy) { return strategy.scheme == Scheme::kSerial; }
bool IsColumns(const Strategy& strategy) { return !IsSerial(strategy) && strategy.unit == Unit::kStratum; }
bool IsJoins(const Strategy& strategy) { return !IsSerial(strategy) && strategy.exploration == Exploration::kNs; }

// What a transaction takes: seconds, by kind of strategy.
struct Costs {
  double serial, columns, strata, joins;
  double planning = 50e-9;  // of each access

  double Of(const Strategy& strategy) const {
    if (IsSerial(strategy)) return serial;
    return IsColumns(strategy) ? columns : IsJoins(strategy) ? joins : strata;
  }
};

BatchFeatures Features(int64_t transactions, uint32_t mix = 1) {
  return {.transactions = transactions, .accesses = 2, .same_row = 0.01, .distinct_rows = 0.9, .mix = mix};
}

class Stream {
 public:
  explicit Stream(int workers = 2, int64_t punctuation = 0) : workers_(workers), punctuation_(punctuation) {}

  // Runs an epoch as the engine does; how many transactions each kind of reason was given for.
  std::vector<Adviser::Advice> Epoch(const Costs& costs, uint32_t mix = 1, int64_t transactions = kEpoch) {
    std::vector<Adviser::Advice> given;
    for (int64_t left = transactions; left > 0; left -= given.back().transactions) {
      const auto known = adviser_.WithoutALook(left, punctuation_);
      given.push_back(known ? *known : adviser_.Next(Features(left, mix), workers_, punctuation_));
      const Adviser::Advice& advice = given.back();
      BOOST_REQUIRE(advice.transactions > 0 && advice.transactions <= left);
      BatchReport report;
      report.transactions = advice.transactions;
      report.seconds = costs.Of(advice.strategy) * static_cast<double>(advice.transactions);
      if (!IsSerial(advice.strategy)) {
        report.accesses = 2 * advice.transactions;
        report.plan = costs.planning * static_cast<double>(report.accesses);
      }
      adviser_.Learn(advice, report);
    }
    return given;
  }

  // What it does once it knows the costs.
  Strategy Settled(const Costs& costs, uint32_t mix = 1, int epochs = 20) {
    for (int i = 0; i < epochs; ++i) Epoch(costs, mix);
    return Epoch(costs, mix).back().strategy;
  }

 private:
  Adviser adviser_;
  const int workers_;
  const int64_t punctuation_;
};

constexpr Costs kCheap{.serial = 60e-9, .columns = 260e-9, .strata = 380e-9, .joins = 400e-9};
constexpr Costs kDear{.serial = 20e-6, .columns = 21e-6, .strata = 11e-6, .joins = 10e-6};
constexpr Costs kSmooth{.serial = 3e-6, .columns = 0.4e-6, .strata = 1.7e-6, .joins = 1.7e-6};

BOOST_AUTO_TEST_SUITE(adviser)

BOOST_AUTO_TEST_CASE(it_settles_on_what_takes_least) {
  BOOST_TEST(IsSerial(Stream().Settled(kCheap)));
  BOOST_TEST(IsJoins(Stream().Settled(kDear)));
  BOOST_TEST(IsColumns(Stream().Settled(kSmooth)));
}

BOOST_AUTO_TEST_CASE(it_looks_then_calibrates_then_chooses) {
  Stream stream;
  const auto first = stream.Epoch(kDear);
  BOOST_TEST((first[0].why == Why::kFirstLook && IsSerial(first[0].strategy)));
  BOOST_TEST((first[1].why == Why::kCalibration && !IsSerial(first[1].strategy)));
  BOOST_TEST(first[0].transactions + first[1].transactions < kEpoch / 4);
  for (size_t i = 2; i < first.size(); ++i) BOOST_TEST((first[i].why == Why::kTrial || first[i].why == Why::kBest));
}

BOOST_AUTO_TEST_CASE(where_functions_are_cheap_nothing_but_serial_is_tried) {
  Stream stream;
  stream.Epoch(kCheap);
  for (int epoch = 0; epoch < 200; ++epoch) {
    for (const auto& advice : stream.Epoch(kCheap)) BOOST_REQUIRE(IsSerial(advice.strategy));
  }
}

BOOST_AUTO_TEST_CASE(planning_is_measured_on_the_machine) {
  // The same transactions, and what could win, where planning is dear and where it is not.
  const Costs costs{.serial = 300e-9, .columns = 200e-9, .strata = 400e-9, .joins = 400e-9};
  Costs slow_planning = costs;
  slow_planning.planning = 200e-9;
  slow_planning.columns = 500e-9;
  BOOST_TEST(IsColumns(Stream().Settled(costs)));
  Stream stream;
  stream.Epoch(slow_planning);
  for (const auto& advice : stream.Epoch(slow_planning)) BOOST_TEST(IsSerial(advice.strategy));
}

BOOST_AUTO_TEST_CASE(it_says_what_it_expects) {
  Stream stream;
  stream.Settled(kSmooth);
  for (const auto& advice : stream.Epoch(kSmooth)) {
    if (advice.why != Why::kBest) continue;
    BOOST_TEST(advice.predicted == kSmooth.columns * static_cast<double>(advice.transactions),
               boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(it_follows_a_workload_that_changes) {
  Stream stream;
  BOOST_TEST(IsColumns(stream.Settled(kSmooth)));
  BOOST_TEST(IsJoins(stream.Settled(kDear)));  // the same context, other costs
  BOOST_TEST(IsSerial(stream.Settled(kCheap, /*mix=*/2)));
  // Still known, but where functions were cheap it does not look at every batch.
  BOOST_TEST(IsJoins(stream.Settled(kDear, /*mix=*/1, /*epochs=*/1)));
}

BOOST_AUTO_TEST_CASE(one_thread_has_no_use_for_others) {
  Stream stream(/*workers=*/1);
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const auto& advice : stream.Epoch(kDear))
      BOOST_TEST((IsSerial(advice.strategy) || IsColumns(advice.strategy)));
  }
}

BOOST_AUTO_TEST_CASE(the_users_punctuation_is_kept) {
  Stream stream(2, 1'000);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const auto& advice : stream.Epoch(kDear)) BOOST_TEST(advice.transactions <= 1'000);
  }
}

BOOST_AUTO_TEST_CASE(small_batches_are_not_worth_a_thought) {
  Stream stream;
  const auto given = stream.Epoch(kDear, 1, 100);
  BOOST_TEST(given.size() == 1);
  BOOST_TEST((given[0].why == Why::kSmall && IsSerial(given[0].strategy)));
}

BOOST_AUTO_TEST_CASE(a_batch_is_never_cut_so_that_a_crumb_is_left) {
  Stream stream;
  for (int64_t transactions : {4'100, 4'400, 6'150, 8'200, 12'300}) {
    for (const auto& advice : stream.Epoch(kDear, 1, transactions)) BOOST_TEST(advice.transactions >= 200);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
