// The adviser is a pure state machine: advice out, reports in; its choice is a pure function. Here the machine that it
// learns about is a table of costs.
#include "execute/adviser.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

namespace morphspark {
namespace {

constexpr int64_t kEpoch = 100'000;

bool IsSerial(const Strategy& strategy) { return strategy.scheme == Scheme::kSerial; }
bool Is(const Strategy& strategy, Exploration exploration, Unit unit, Abort abort = Abort::kEager) {
  return strategy == Strategy{Scheme::kExplore, exploration, unit, abort};
}
bool IsColumns(const Strategy& strategy) { return !IsSerial(strategy) && strategy.unit == Unit::kStratum; }
bool IsJoins(const Strategy& strategy) { return Is(strategy, Exploration::kNs, Unit::kTransaction); }

int ArmOf(Exploration exploration, Unit unit, Abort abort = Abort::kEager) {
  const auto arms = Arms();
  for (int arm = 0; arm < static_cast<int>(arms.size()); ++arm) {
    if (!arms[arm].resized && Is(arms[arm].strategy, exploration, unit, abort)) return arm;
  }
  return -1;
}

// Transactions of two accesses that meet each other rarely.
BatchStatistics Scattered(int64_t transactions = kEpoch, uint32_t mix = 1) {
  BatchStatistics statistics;
  statistics.transactions = transactions;
  statistics.mix = mix;
  statistics.may_cut = true;
  statistics.lanes = 1;
  statistics.sample = 256;
  statistics.accesses = 512;
  statistics.td = 10;
  statistics.ld = 256;
  statistics.transaction_span = statistics.operation_span = statistics.chain_span = 0.01;
  return statistics;
}

// A row that all transactions meet, and one that only they do.
BatchStatistics HotRow(int64_t transactions = kEpoch) {
  BatchStatistics statistics = Scattered(transactions, /*mix=*/2);
  statistics.td = 255;
  statistics.transaction_span = 1;
  statistics.operation_span = statistics.chain_span = 0.5;
  return statistics;
}

constexpr size_t kF = 0, kC = 1, kT = 2, kV = 3;  // units

// What an access takes on the machine.
LearnedCosts Machine(double serial) {
  LearnedCosts costs;
  costs.serial = serial;
  costs.planning[kT] = costs.planning[kV] = 30e-9;
  costs.dispatch[kT] = 20e-9;
  costs.barrier = 1e-6;
  return costs;
}

// ------------------------------------------------------------------------------- the choice, as a table

struct Measured {
  int arm;
  std::vector<double> seconds;  // per access, the oldest first
};

std::vector<ArmRecord> Records(const std::vector<Measured>& measured, uint64_t last = 0) {
  std::vector<ArmRecord> records(Arms().size());
  for (const auto& [arm, seconds] : measured) {
    for (double one : seconds) records[arm].seconds.Add(one);
    records[arm].last = last;
  }
  return records;
}

// All arms of a size other than the usual one, as far as they matter for a strategy.
std::vector<Measured> SizesOf(int arm, double seconds) {
  return {{arm, {seconds, seconds}}, {arm + 1, {2 * seconds, 2 * seconds}}, {arm + 2, {2 * seconds, 2 * seconds}}};
}

Decision Ask(const BatchStatistics& statistics, const LearnedCosts& costs, const std::vector<ArmRecord>& records,
             Situation situation = {.workers = 2}) {
  return Decide(statistics, costs, records, situation);
}

BOOST_AUTO_TEST_SUITE(adviser)

BOOST_AUTO_TEST_CASE(first_looks_and_calibration) {
  const Decision first = Ask(Scattered(), {}, Records({}));
  BOOST_TEST((first.arm == 0 && first.transactions == 32 && first.why == Why::kFirstLook));
  // Known roughly: as many as take long enough to be measured, and enough for those that are rare.
  const Decision second = Ask(Scattered(), Machine(1e-6), Records({{0, {1e-6}}}));
  BOOST_TEST((second.arm == 0 && second.transactions == 256 && second.why == Why::kFirstLook));
  const Decision third = Ask(Scattered(), {}, Records({{0, {1e-6, 1e-6}}}), {.workers = 2, .calibrated = false});
  BOOST_TEST((third.arm == ArmOf(Exploration::kNs, Unit::kTransaction) && third.why == Why::kCalibration));
}

BOOST_AUTO_TEST_CASE(what_is_tried_first) {
  struct Case {
    const char* what;
    BatchStatistics statistics;
    double serial;
    int workers;
    int arm;  // 0: nothing is worth a trial
  };
  BatchStatistics no_lanes = Scattered(), one_row = HotRow(), uncut = HotRow();
  no_lanes.lanes = 0;
  one_row.operation_span = one_row.chain_span = 1;
  uncut.may_cut = false;
  BatchStatistics cyclic = HotRow();
  cyclic.chain_span = 1;
  const int columns = ArmOf(Exploration::kBfs, Unit::kStratum), joins = ArmOf(Exploration::kNs, Unit::kTransaction);
  const int operations = ArmOf(Exploration::kNs, Unit::kOperation), chains = ArmOf(Exploration::kNs, Unit::kChain);
  const Case cases[] = {
      {"cheap functions: planning alone takes longer", Scattered(), 20e-9, 2, 0},
      {"dear functions: lanes could gain most", Scattered(), 1e-6, 2, columns},
      {"lanes gain on one thread, too", Scattered(), 1e-6, 1, columns},
      {"loops run in no lanes", no_lanes, 1e-6, 2, joins},
      {"one thread and no lanes", no_lanes, 1e-6, 1, 0},
      {"a hot row: operations run beside it", cyclic, 1e-6, 2, operations},
      {"a hot row whose chains don't wait in circles", HotRow(), 1e-6, 2, operations},
      {"everything is one path", one_row, 1e-6, 2, 0},
      {"a hot row, and what can't be cut", uncut, 1e-6, 2, 0},
  };
  for (const Case& one : cases) {
    LearnedCosts costs = Machine(one.serial);
    const Decision decision =
        Ask(one.statistics, costs, Records({{0, {one.serial, one.serial}}}), {.workers = one.workers});
    BOOST_TEST_INFO(one.what);
    BOOST_TEST(decision.arm == one.arm);
    BOOST_TEST((decision.why == (one.arm == 0 ? Why::kBest : Why::kTrial)));
  }
  // Once it is known that chains cost less than operations.
  LearnedCosts costs = Machine(1e-6);
  costs.planning[kF] = costs.planning[kC] = 50e-9;
  costs.dispatch[kF] = 90e-9;
  costs.dispatch[kC] = 10e-9;
  BOOST_TEST(Ask(HotRow(), costs, Records({{0, {1e-6, 1e-6}}})).arm == chains);
}

BOOST_AUTO_TEST_CASE(relatives_are_tried_where_one_did_well) {
  const double serial = 1e-6;
  const int leader = ArmOf(Exploration::kNs, Unit::kOperation);
  std::vector<Measured> known{{0, {serial, serial}}, {ArmOf(Exploration::kNs, Unit::kChain), {2 * serial, 2 * serial}}};
  LearnedCosts costs = Machine(serial);
  const auto with_leader = [&](double seconds) {
    std::vector<Measured> all = known;
    for (const Measured& one : SizesOf(leader, seconds)) all.push_back(one);
    return Records(all);
  };
  BatchStatistics aborting = HotRow();
  aborting.aborts = 0.3;
  // It did well: other explorations; where transactions abort, also the other way to abort.
  const Decision relative = Ask(HotRow(), costs, with_leader(0.7 * serial));
  BOOST_TEST((relative.why == Why::kTrial && Arms()[relative.arm].leader == leader));
  BOOST_TEST((Arms()[relative.arm].strategy.abort == Abort::kEager));
  // It did not.
  BOOST_TEST((Ask(HotRow(), costs, with_leader(1.5 * serial)).why == Why::kBest));
  // As good as can be: nothing is worth a trial.
  BOOST_TEST((Ask(HotRow(), costs, with_leader(0.55 * serial)).why == Why::kBest));
  bool lazy = false;
  std::vector<ArmRecord> records = with_leader(0.9 * serial);
  for (int i = 0; i < 10; ++i) {
    const Decision decision = Ask(aborting, costs, records);
    if (decision.why != Why::kTrial) break;
    lazy |= Arms()[decision.arm].strategy.abort == Abort::kLazy;
    for (int run = 0; run < 2; ++run) records[decision.arm].seconds.Add(2 * serial);
  }
  BOOST_TEST(lazy);
}

BOOST_AUTO_TEST_CASE(it_finds_the_size_of_batches) {
  const int joins = ArmOf(Exploration::kNs, Unit::kTransaction);
  const double serial = 1e-6;
  LearnedCosts costs = Machine(serial);
  BatchStatistics statistics = Scattered(200'000);
  statistics.lanes = 0;
  std::vector<ArmRecord> records = Records({{0, {serial, serial}}, {joins, {0.56e-6, 0.56e-6}}});
  // Smaller and larger ones are tried, twice if one is close, then the best is taken.
  std::vector<int64_t> tried;
  for (int i = 0; i < 8; ++i) {
    const Decision decision = Ask(statistics, costs, records);
    if (decision.why == Why::kBest) break;
    BOOST_TEST(Arms()[decision.arm].resized);
    tried.push_back(decision.transactions);
    records[decision.arm].seconds.Add(Arms()[decision.arm].transactions > 10'000 ? 0.53e-6 : 0.8e-6);
  }
  BOOST_TEST((tried == std::vector<int64_t>{2'041, 66'667}));
  const Decision best = Ask(statistics, costs, records);
  BOOST_TEST((best.why == Why::kBest && best.transactions == 66'667 && IsJoins(Arms()[best.arm].strategy)));
  // Equal parts, whatever the epoch's size; and none if the user says how large batches are.
  statistics.transactions = 10'240;
  BOOST_TEST(Ask(statistics, costs, records).transactions == 10'240);
  const Decision told = Ask(statistics, costs, records, {.workers = 2, .punctuation = 500});
  BOOST_TEST(!Arms()[told.arm].resized);
}

BOOST_AUTO_TEST_CASE(larger_batches_are_tried_where_lanes_came_close) {
  const int columns = ArmOf(Exploration::kBfs, Unit::kStratum);
  const double serial = 0.1e-6;
  LearnedCosts costs = Machine(serial);
  costs.lanes_gain = 1;
  const auto ask = [&](double seconds) {
    return Ask(Scattered(), costs, Records({{0, {serial, serial}}, {columns, {seconds, seconds}}}), {.workers = 1});
  };
  const Decision close = ask(1.08 * serial);
  BOOST_TEST((close.why == Why::kTrial && IsColumns(Arms()[close.arm].strategy) && close.transactions == kEpoch / 2));
  const Decision far = ask(1.2 * serial);
  BOOST_TEST((far.why == Why::kBest && far.arm == 0));
}

BOOST_AUTO_TEST_CASE(one_disturbed_measurement_says_nothing) {
  const int columns = ArmOf(Exploration::kBfs, Unit::kStratum);
  const double serial = 20e-9;
  const LearnedCosts costs = Machine(serial);
  // `serial` was disturbed, and an arm that takes six times as long looks better than that.
  for (const std::vector<double>& runs : {std::vector<double>{serial, 20 * serial},
                                          {20 * serial, serial},
                                          {serial, serial, 20 * serial},
                                          {serial, serial, serial, 20 * serial, 20 * serial}}) {
    const Decision decision = Ask(Scattered(), costs, Records({{0, runs}, {columns, {6 * serial, 6 * serial}}}));
    BOOST_TEST((decision.arm == 0 && decision.why == Why::kBest));
  }
  // Even if it was disturbed all the time, it is measured again soon, on few transactions.
  std::vector<Measured> measured = SizesOf(ArmOf(Exploration::kNs, Unit::kTransaction), 6 * serial);
  measured.push_back({0, {9 * serial, 9 * serial, 9 * serial}});
  const auto records = Records(measured, 100);
  LearnedCosts disturbed = costs;
  disturbed.serial = 9 * serial;
  BatchStatistics no_lanes = Scattered();
  no_lanes.lanes = 0;
  BOOST_TEST((Ask(no_lanes, disturbed, records, {.workers = 2, .decisions = 105}).why == Why::kBest));
  const Decision again = Ask(no_lanes, disturbed, records, {.workers = 2, .decisions = 110});
  BOOST_TEST((again.arm == 0 && again.why == Why::kAgain && again.transactions < 1'000));
}

BOOST_AUTO_TEST_CASE(predictions_follow_the_model) {
  const Strategy serial{}, joins{Scheme::kExplore, Exploration::kNs, Unit::kTransaction, Abort::kEager};
  const Strategy operations{Scheme::kExplore, Exploration::kNs, Unit::kOperation, Abort::kEager};
  const LearnedCosts costs = Machine(1e-6);
  const auto close = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(PredictAccess(serial, HotRow(), costs, 2, 1000) == 1e-6, close);
  BOOST_TEST(PredictAccess(joins, Scattered(), costs, 2, 1000) == 30e-9 + 1.02e-6 / 2, close);
  BOOST_TEST(PredictAccess(joins, HotRow(), costs, 8, 1000) == 30e-9 + 1.02e-6, close);
  BOOST_TEST(PredictAccess(operations, HotRow(), costs, 8, 1000) == 45e-9 + 1.03e-6 / 2, close);
  BatchStatistics aborting = HotRow();
  aborting.aborts = 0.5;
  BOOST_TEST(PredictAccess(operations, aborting, costs, 8, 1000) == 45e-9 + 1.53e-6 / 2, close);
}

BOOST_AUTO_TEST_CASE(of_recent_measurements_the_middle_one_counts) {
  Recent recent;
  BOOST_TEST(recent.Estimate() == 0);
  const double given[] = {5, 3, 9, 100, 4, 4, 4};
  const double expected[] = {5, 3, 5, 5, 5, 4, 4};
  for (size_t i = 0; i < std::size(given); ++i) {
    recent.Add(given[i]);
    BOOST_TEST(recent.Estimate() == expected[i]);
  }
}

BOOST_AUTO_TEST_CASE(what_changed_twice_has_changed) {
  struct Case {
    std::vector<double> given;
    double estimate;
  };
  for (const Case& one : {Case{{4, 4, 4, 5, 5.5}, 5}, Case{{4, 4, 4, 5.5, 5}, 5}, Case{{4, 4, 4, 3, 3.5}, 3.5},
                          Case{{4, 4, 4, 5, 4}, 4}, Case{{4, 4, 4, 40, 40}, 4}, Case{{4, 5}, 4}}) {
    Recent recent;
    for (double seconds : one.given) recent.Add(seconds);
    BOOST_TEST(recent.Estimate() == one.estimate);
  }
}

// ------------------------------------------------------------------------------- a stream of epochs

// What a transaction takes: seconds, by kind of strategy.
struct Costs {
  double serial, columns, strata, joins;
  double operations = 1;    // f-schedule and c-schedule
  double planning = 50e-9;  // of each access

  double Of(const Strategy& strategy) const {
    if (IsSerial(strategy)) return serial;
    if (strategy.cuts()) return operations;
    return IsColumns(strategy) ? columns : IsJoins(strategy) ? joins : strata;
  }
};

class Stream {
 public:
  explicit Stream(int workers = 2, int64_t punctuation = 0) : workers_(workers), punctuation_(punctuation) {}

  // Runs an epoch as the engine does.
  std::vector<Adviser::Advice> Epoch(const Costs& costs, const BatchStatistics& like) {
    std::vector<Adviser::Advice> given;
    for (int64_t left = like.transactions; left > 0; left -= given.back().transactions) {
      BatchStatistics statistics = like;
      statistics.transactions = left;
      statistics.ran = like.transactions - left;
      statistics.seconds = 30e-6;
      const auto known = adviser_.WithoutALook(statistics.ran, left, punctuation_);
      looks_ += !known;
      given.push_back(known ? *known : adviser_.Next(statistics, workers_, punctuation_));
      const Adviser::Advice& advice = given.back();
      BOOST_REQUIRE(advice.transactions > 0 && advice.transactions <= left);
      BatchReport report;
      report.strategy = advice.strategy;
      report.transactions = advice.transactions;
      const double times = static_cast<double>(advice.transactions) * (batches_++ == disturbed ? 10 : 1);
      report.seconds = costs.Of(advice.strategy) * times;
      if (!IsSerial(advice.strategy)) {
        report.accesses = 2 * advice.transactions;
        report.plan = costs.planning * 2 * times;
        report.explore = std::max(report.seconds - report.plan, 0.0);
        // Workers are busy for as long as the work takes, and a bit.
        report.waiting = std::max(report.explore * workers_ - (costs.serial + 2 * 20e-9) * times, 0.0);
      }
      adviser_.Learn(advice, report, workers_);
    }
    return given;
  }
  std::vector<Adviser::Advice> Epoch(const Costs& costs) { return Epoch(costs, Scattered()); }

  // What it does once it knows the costs.
  Strategy Settled(const Costs& costs, const BatchStatistics& like = Scattered(), int epochs = 20) {
    for (int i = 0; i < epochs; ++i) Epoch(costs, like);
    return Epoch(costs, like).back().strategy;
  }

  int batches() const { return batches_; }
  int looks() const { return looks_; }
  int disturbed = -1;  // the batch that takes ten times as long

 private:
  Adviser adviser_;
  const int workers_;
  const int64_t punctuation_;
  int batches_ = 0, looks_ = 0;
};

constexpr Costs kCheap{.serial = 60e-9, .columns = 260e-9, .strata = 380e-9, .joins = 400e-9};
constexpr Costs kDear{.serial = 20e-6, .columns = 21e-6, .strata = 11e-6, .joins = 10e-6, .operations = 12e-6};
constexpr Costs kSmooth{.serial = 3e-6, .columns = 0.4e-6, .strata = 1.7e-6, .joins = 1.7e-6, .operations = 2e-6};
constexpr Costs kHot{.serial = 2e-6, .columns = 2.3e-6, .strata = 2.2e-6, .joins = 2.2e-6, .operations = 1.3e-6};

BOOST_AUTO_TEST_CASE(it_settles_on_what_takes_least) {
  BOOST_TEST(IsSerial(Stream().Settled(kCheap)));
  BOOST_TEST(IsJoins(Stream().Settled(kDear)));
  BOOST_TEST(IsColumns(Stream().Settled(kSmooth)));
  BOOST_TEST(Stream().Settled(kHot, HotRow()).cuts());
}

BOOST_AUTO_TEST_CASE(it_looks_then_calibrates_then_chooses) {
  Stream stream;
  const auto first = stream.Epoch(kDear);
  for (size_t i : {0, 1}) BOOST_TEST((first[i].why == Why::kFirstLook && IsSerial(first[i].strategy)));
  for (size_t i : {2, 3}) BOOST_TEST((first[i].why == Why::kCalibration && !IsSerial(first[i].strategy)));
  BOOST_TEST(4 * (first[0].transactions + first[2].transactions) < kEpoch);
  for (size_t i = 4; i < first.size(); ++i) BOOST_TEST((first[i].why == Why::kTrial || first[i].why == Why::kBest));
}

BOOST_AUTO_TEST_CASE(where_functions_are_cheap_nothing_but_serial_is_tried) {
  Stream stream;
  stream.Epoch(kCheap);
  int64_t planned = 0;  // transactions, to learn what it costs
  for (int epoch = 0; epoch < 200; ++epoch) {
    for (const auto& advice : stream.Epoch(kCheap)) {
      BOOST_REQUIRE((IsSerial(advice.strategy) || advice.why == Why::kCalibration));
      if (!IsSerial(advice.strategy)) planned += advice.transactions;
    }
  }
  BOOST_TEST(planned < 200 * kEpoch / 1000);
  BOOST_TEST(2 * stream.looks() < stream.batches());
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

BOOST_AUTO_TEST_CASE(it_says_what_it_expects_and_from_what) {
  Stream stream;
  stream.Settled(kSmooth);
  for (const auto& advice : stream.Epoch(kSmooth)) {
    if (advice.why != Why::kBest) continue;
    BOOST_TEST(advice.predicted == kSmooth.columns * static_cast<double>(advice.transactions),
               boost::test_tools::tolerance(0.01));
    BOOST_TEST((advice.inputs.statistics.td == 10 && advice.inputs.statistics.ld == 256));
    BOOST_TEST(advice.inputs.costs.serial == kSmooth.serial / 2, boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(a_trial_that_was_disturbed_is_not_the_end) {
  Stream stream;
  Costs disturbed = kSmooth;
  disturbed.columns = 3.5e-6;
  stream.Settled(disturbed);
  BOOST_TEST(IsColumns(stream.Settled(kSmooth, Scattered(), /*epochs=*/100)));
}

BOOST_AUTO_TEST_CASE(a_batch_that_was_disturbed_is_not_the_end) {
  // Whichever batch takes ten times as long, soon the fastest runs, and most of the time was spent in it.
  for (const Costs& costs : {kCheap, kSmooth, kDear}) {
    const Strategy right = Stream().Settled(costs, Scattered(5'000));
    for (int disturbed = 0; disturbed < 30; ++disturbed) {
      Stream stream;
      stream.disturbed = disturbed;
      for (int epoch = 0; epoch < 40; ++epoch) stream.Epoch(costs, Scattered(5'000));
      int right_ones = 0;
      for (int epoch = 0; epoch < 40; ++epoch) {
        for (const auto& advice : stream.Epoch(costs, Scattered(5'000))) right_ones += advice.strategy == right;
      }
      BOOST_TEST_INFO("serial " << costs.serial << ", batch " << disturbed);
      BOOST_TEST(right_ones >= 36);
    }
  }
}

BOOST_AUTO_TEST_CASE(it_follows_a_workload_that_changes) {
  Stream stream;
  BOOST_TEST(IsColumns(stream.Settled(kSmooth)));
  BOOST_TEST(IsJoins(stream.Settled(kDear)));    // the same context, other costs
  BOOST_TEST(IsSerial(stream.Settled(kCheap)));  // the other way
  BOOST_TEST(IsSerial(stream.Settled(kCheap, Scattered(kEpoch, /*mix=*/3))));
  BOOST_TEST(IsJoins(stream.Settled(kDear, Scattered(), /*epochs=*/3)));
}

BOOST_AUTO_TEST_CASE(a_stream_that_drifts_is_not_explored_anew) {
  // Every few epochs another mix, in which all strategies take a bit longer, and lanes are no use: little is spent on
  // what was slow in the mix before.
  Stream stream;
  Costs costs = kDear;
  costs.columns = 1.6 * costs.joins;
  stream.Settled(costs, Scattered(kEpoch, /*mix=*/10));
  double spent = 0, least = 0;
  for (uint32_t mix = 11; mix < 31; ++mix) {
    for (double* one : {&costs.serial, &costs.columns, &costs.strata, &costs.joins, &costs.operations}) *one *= 1.05;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& advice : stream.Epoch(costs, Scattered(kEpoch, mix))) {
        spent += costs.Of(advice.strategy) * static_cast<double>(advice.transactions);
        least += costs.joins * static_cast<double>(advice.transactions);
      }
    }
  }
  BOOST_TEST(spent < 1.04 * least);
}

BOOST_AUTO_TEST_CASE(a_stream_that_swings_is_not_explored_at_every_swing) {
  Stream stream;
  double spent = 0, least = 0;
  for (int epoch = 0; epoch < 1'000; ++epoch) {
    Costs costs = kDear;
    const double times = std::pow(1.6, std::sin(epoch / 8.0));
    for (double* one : {&costs.serial, &costs.columns, &costs.strata, &costs.joins, &costs.operations}) *one *= times;
    for (const auto& advice : stream.Epoch(costs, Scattered(4'096))) {
      spent += costs.Of(advice.strategy) * static_cast<double>(advice.transactions);
      least += costs.joins * static_cast<double>(advice.transactions);
    }
  }
  BOOST_TEST(spent < 1.02 * least);
}

BOOST_AUTO_TEST_CASE(what_is_left_of_an_epoch_is_like_the_rest) {
  Stream stream;
  for (int epoch = 0; epoch < 10; ++epoch) {
    const auto given = stream.Epoch(kDear, Scattered(5'120));
    if (epoch == 0) BOOST_TEST(given.back().transactions < 2'048);  // what is learned first leaves few
    for (const auto& advice : given) BOOST_TEST(advice.context == given[0].context);
  }
}

BOOST_AUTO_TEST_CASE(what_is_learned_about_the_machine_changes_no_measurement) {
  Stream stream;
  Costs costs = kDear;
  costs.planning = 2e-6;  // of what the strategies take: the rest is less, then
  stream.Settled(costs);
  costs.planning = 0.1e-6;
  for (int epoch = 0; epoch < 40; ++epoch) {
    for (const auto& advice : stream.Epoch(costs)) {
      if (IsSerial(advice.strategy) || (advice.why != Why::kBest && advice.why != Why::kAgain)) continue;
      BOOST_TEST(advice.predicted == costs.Of(advice.strategy) * static_cast<double>(advice.transactions),
                 boost::test_tools::tolerance(0.01));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_learned_about_serial_changes_no_measurement) {
  Stream stream;
  Costs costs = kDear;
  costs.serial = 12e-6;  // few that are dear were among those that were run in order first
  BOOST_TEST(IsJoins(stream.Settled(costs)));
  costs.serial = 18e-6;
  int again = 0;
  for (int epoch = 0; epoch < 100; ++epoch) {
    for (const auto& advice : stream.Epoch(costs)) {
      again += IsSerial(advice.strategy);
      if (advice.why != Why::kBest) continue;
      BOOST_TEST(IsJoins(advice.strategy));
      BOOST_TEST(advice.predicted == costs.joins * static_cast<double>(advice.transactions),
                 boost::test_tools::tolerance(0.01));
    }
  }
  BOOST_TEST(again > 0);
}

BOOST_AUTO_TEST_CASE(lanes_win_where_first_looks_missed_the_dear_ones) {
  Stream stream(/*workers=*/1);
  Costs costs{.serial = 0.3e-6, .columns = 0.45e-6, .strata = 1e-6, .joins = 1e-6};
  stream.Epoch(costs, Scattered(4'096));
  costs.serial = 0.6e-6;
  BOOST_TEST(IsColumns(stream.Settled(costs, Scattered(4'096), /*epochs=*/40)));
}

BOOST_AUTO_TEST_CASE(what_was_true_of_others_is_not_held_against_lanes) {
  // Bit by bit, transactions that lanes are no use for become others that they run fast.
  struct Case {
    double planning;  // at first: to plan those may mean to run most of what they do
    int drift;        // epochs
  };
  for (const auto& [planning, drift] : {Case{50e-9, 40}, Case{50e-9, 400}, Case{0.8e-6, 40}, Case{0.8e-6, 400}}) {
    Stream stream(/*workers=*/1);
    Costs costs{.serial = 2e-6, .columns = 5e-6, .strata = 5e-6, .joins = 5e-6, .planning = planning};
    BatchStatistics like = Scattered(4'096);
    BOOST_TEST(IsSerial(stream.Settled(costs, like, /*epochs=*/1'000)));
    like.types = 2;
    const Costs last{.serial = 0.36e-6, .columns = 0.1e-6, .strata = 0.45e-6, .joins = 0.45e-6, .planning = 20e-9};
    const auto step = [&](double from, double to) { return std::pow(to / from, 1.0 / drift); };
    const double serial = step(costs.serial, last.serial), columns = step(costs.columns, last.columns);
    const double joins = step(costs.joins, last.joins), plan = step(costs.planning, last.planning);
    for (int epoch = 0; epoch < drift; ++epoch) {
      costs.serial *= serial;
      costs.columns *= columns;
      costs.strata = costs.joins *= joins;
      costs.planning *= plan;
      stream.Epoch(costs, like);
    }
    BOOST_TEST_INFO("planning " << planning << ", over " << drift << " epochs");
    BOOST_TEST(IsColumns(stream.Settled(last, like, /*epochs=*/200)));
  }
}

BOOST_AUTO_TEST_CASE(however_often_lanes_lost_they_are_tried_again) {
  Stream stream(/*workers=*/1);
  Costs costs{.serial = 1e-6, .columns = 1.6e-6, .strata = 2e-6, .joins = 2e-6};
  BOOST_TEST(IsSerial(stream.Settled(costs, Scattered(4'096), /*epochs=*/20'000)));
  costs.columns = 0.2e-6;  // `serial` takes what it took: nothing tells
  BOOST_TEST(IsColumns(stream.Settled(costs, Scattered(4'096), /*epochs=*/5'000)));
}

BOOST_AUTO_TEST_CASE(what_lanes_gain_is_learned_for_types) {
  Stream stream;
  Costs costs = kDear;
  costs.columns = 1.6 * costs.joins;  // which is what two threads make of `serial`: lanes gain little
  stream.Settled(costs);
  const auto gain = [](const std::vector<Adviser::Advice>& given) { return given.back().inputs.costs.lanes_gain; };
  BOOST_TEST(gain(stream.Epoch(costs)) < 2);
  BatchStatistics others = Scattered();
  others.types = 2;
  BOOST_TEST(gain(stream.Epoch(costs, others)) > 2);  // nobody knows
}

BOOST_AUTO_TEST_CASE(one_thread_has_no_use_for_others) {
  Stream stream(/*workers=*/1);
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const auto& advice : stream.Epoch(kDear))
      BOOST_TEST((IsSerial(advice.strategy) || IsColumns(advice.strategy) || advice.why == Why::kCalibration));
  }
}

BOOST_AUTO_TEST_CASE(the_users_punctuation_is_kept) {
  Stream stream(2, 1'000);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const auto& advice : stream.Epoch(kDear)) BOOST_TEST(advice.transactions <= 1'000);
  }
}

BOOST_AUTO_TEST_CASE(what_is_worth_a_thought_is_work_not_a_count) {
  // A hundred transactions of 60 ns are not.
  Stream cheap;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const auto given = cheap.Epoch(kCheap, Scattered(100));
    if (epoch >= 2) BOOST_TEST((given.size() == 1 && given[0].why == Why::kSmall && IsSerial(given[0].strategy)));
  }
  BOOST_TEST(cheap.looks() <= 3);
  // A hundred of 20 µs are.
  BOOST_TEST(IsJoins(Stream().Settled(kDear, Scattered(100), /*epochs=*/60)));
}

BOOST_AUTO_TEST_CASE(a_batch_is_never_cut_so_that_a_crumb_is_left) {
  for (int64_t transactions : {4'100, 4'400, 6'150, 8'200, 12'300, 20'480}) {
    Stream stream;
    stream.Settled(kDear, Scattered(transactions), 60);
    for (const auto& advice : stream.Epoch(kDear, Scattered(transactions)))
      BOOST_TEST((advice.why != Why::kBest || advice.transactions > 2'000));
  }
}

BOOST_AUTO_TEST_CASE(shaken_it_draws_any_arm) {
  Adviser adviser;
  adviser.Shake(7);
  int serial = 0, cut = 0, columns = 0;
  for (int i = 0; i < 500; ++i) {
    BOOST_REQUIRE(!adviser.WithoutALook(0, 20, 0));
    const auto advice = adviser.Next(Scattered(20), 2, 0);
    BOOST_REQUIRE(advice.transactions >= 1 && advice.transactions <= 7);
    serial += IsSerial(advice.strategy);
    cut += advice.strategy.cuts();
    columns += IsColumns(advice.strategy);
  }
  BOOST_TEST((serial > 0 && cut > 100 && columns > 10));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
