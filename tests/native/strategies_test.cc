// Every strategy against a plain ledger whose transfers abort after they have written: on threads, and in interleavings
// drawn from seeds. MORPHSPARK_SEEDS says how many of those (make fuzz: 10,000).
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "columns.h"
#include "engine.h"
#include "ledger.h"
#include "strategies.h"

namespace morphspark {
namespace {

using testing::AllStrategies;
using testing::LedgerBatch;
using testing::LedgerCode;
using testing::LedgerEvent;
using testing::LedgerState;
using testing::LedgerTables;
using testing::Name;
using testing::Random;
using testing::Rows;
using testing::Seeds;
using testing::StateOf;

// All pairs of ways to explore the graph: one for transfers and erasures, one for notes, which erasures meet.
std::vector<std::vector<Strategy>> AllNests() {
  const std::vector<Strategy> points = testing::Explorations();
  std::vector<std::vector<Strategy>> nests;
  for (const Strategy& transfers : points) {
    for (const Strategy& notes : points) nests.push_back({transfers, notes, transfers});
  }
  return nests;
}

std::vector<LedgerEvent> RandomEvents(Random* random, int count, int keys) {
  std::vector<LedgerEvent> events;
  for (int i = 0; i < count; ++i) {
    events.push_back(testing::RandomEvent(random, static_cast<int64_t>((*random)() % 1'000), keys, 25));
    if ((*random)() % 100 == 0) events.back().ts.reset();
  }
  return events;
}

struct Expected {
  Rows<std::string> reasons;
  LedgerState state;
};

Expected Model(std::vector<LedgerEvent> events, const LedgerState& before) {
  std::stable_sort(events.begin(), events.end(),
                   [](const LedgerEvent& a, const LedgerEvent& b) { return a.ts && (!b.ts || *a.ts < *b.ts); });
  Expected expected{{}, before};
  for (const LedgerEvent& event : events) {
    const std::string reason = testing::Apply(event, &expected.state);
    expected.reasons.push_back(reason.empty() ? std::nullopt : std::optional(reason));
  }
  return expected;
}

void CheckEpoch(Engine* engine, EpochInput input, const Expected& expected, const std::string& what) {
  EpochResult result;
  const Status status = engine->Execute(input, &result);
  BOOST_REQUIRE_MESSAGE(status.ok(), what + ": " + status.message());
  const Rows<std::string> reasons = testing::StringsOf(testing::ViewOf(result.reason, Kind::kString));
  BOOST_REQUIRE_MESSAGE(reasons == expected.reasons, what);
  BOOST_REQUIRE_MESSAGE(StateOf(*engine) == expected.state, what);
  engine->Commit();
  BOOST_REQUIRE_MESSAGE(engine->Validate(), what);
}

BOOST_AUTO_TEST_SUITE(strategies)

BOOST_AUTO_TEST_CASE(all_agree_with_a_plain_ledger_on_threads) {
  const Code code = LedgerCode();
  for (const Strategy& strategy : AllStrategies()) {
    for (int threads : {1, 2, 4}) {
      Random random(77);
      Engine engine(LedgerTables(), threads);
      LedgerState state;
      for (int epoch = 0; epoch < 4; ++epoch) {
        const std::vector<LedgerEvent> events = RandomEvents(&random, epoch == 2 ? 3'000 : 150, epoch % 2 ? 8 : 60);
        const Expected expected = Model(events, state);
        const LedgerBatch batch(events);
        EpochInput input = batch.Input(code);
        input.strategy = strategy;
        input.punctuation = epoch % 2 ? 40 : 0;
        input.lanes_min = 2;
        CheckEpoch(&engine, input, expected, Name(strategy) + " on " + std::to_string(threads));
        state = expected.state;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(all_agree_in_interleavings_from_seeds) {
  const Code code = LedgerCode();
  const std::vector<Strategy> all = AllStrategies();
  for (int seed = 0; seed < Seeds(); ++seed) {
    const Strategy& strategy = all[seed % all.size()];
    Random random(seed);
    Engine engine(LedgerTables(), 1);
    const std::vector<LedgerEvent> events = RandomEvents(&random, 60, 3 + seed % 12);
    const LedgerBatch batch(events);
    EpochInput input = batch.Input(code);
    input.strategy = strategy;
    input.interleaving = seed;
    input.interleaved_workers = 2 + seed % 3;
    input.lanes_min = 1;
    CheckEpoch(&engine, input, Model(events, {}), Name(strategy) + ", seed " + std::to_string(seed));
  }
}

BOOST_AUTO_TEST_CASE(nested_strategies_agree_with_a_plain_ledger_on_threads) {
  const Code code = LedgerCode();
  for (const std::vector<Strategy>& nest : AllNests()) {
    for (int threads : {1, 3}) {
      Random random(78);
      Engine engine(LedgerTables(), threads);
      const std::vector<LedgerEvent> events = RandomEvents(&random, 300, 20);
      const LedgerBatch batch(events);
      EpochInput input = batch.Input(code);
      input.strategy = Strategy{.scheme = Scheme::kNested};
      input.nested = nest;
      input.lanes_min = 2;
      CheckEpoch(&engine, input, Model(events, {}), Name(nest[0]) + " with " + Name(nest[1]));
    }
  }
}

BOOST_AUTO_TEST_CASE(nested_strategies_agree_in_interleavings_from_seeds) {
  const Code code = LedgerCode();
  const std::vector<std::vector<Strategy>> nests = AllNests();
  for (int seed = 0; seed < Seeds(); ++seed) {
    const std::vector<Strategy>& nest = nests[seed % nests.size()];
    Random random(seed);
    Engine engine(LedgerTables(), 1);
    const std::vector<LedgerEvent> events = RandomEvents(&random, 60, 3 + seed % 12);
    const LedgerBatch batch(events);
    EpochInput input = batch.Input(code);
    input.strategy = Strategy{.scheme = Scheme::kNested};
    input.nested = nest;
    input.interleaving = seed;
    input.interleaved_workers = 2 + seed % 3;
    input.lanes_min = 1;
    CheckEpoch(&engine, input, Model(events, {}),
               Name(nest[0]) + " with " + Name(nest[1]) + ", seed " + std::to_string(seed));
  }
}

BOOST_AUTO_TEST_CASE(a_nest_needs_a_strategy_for_each_type) {
  const Code code = LedgerCode();
  const LedgerBatch batch({});
  Engine engine(LedgerTables(), 1);
  EpochInput input = batch.Input(code);
  input.strategy = Strategy{.scheme = Scheme::kNested};
  const std::vector<Strategy> one{{.scheme = Scheme::kExplore}};
  const std::vector<Strategy> serial{{.scheme = Scheme::kExplore}, {.scheme = Scheme::kSerial}};
  EpochResult result;
  for (const auto& nest : {std::vector<Strategy>{}, one, serial}) {
    input.nested = nest;
    BOOST_TEST(!engine.Execute(input, &result).ok());
  }
}

BOOST_AUTO_TEST_CASE(without_locks_there_are_no_strings) {
  const Code code = LedgerCode();
  const LedgerBatch batch({});
  EpochInput input = batch.Input(code);
  input.strategy = Strategy{.scheme = Scheme::kNolock};
  Engine engine(LedgerTables(), 1);
  EpochResult result;
  BOOST_TEST(!engine.Execute(input, &result).ok());
}

BOOST_AUTO_TEST_CASE(operations_make_all_six_transitions) {
  const Code code = LedgerCode();
  Random random(6);
  const std::vector<LedgerEvent> events = RandomEvents(&random, 400, 10);
  const LedgerBatch batch(events);
  Transitions all{};
  int64_t operations = 0;
  std::vector<Strategy> strategies = testing::Explorations();
  strategies.push_back({.scheme = Scheme::kTstream});
  for (const Strategy& strategy : strategies) {
    if (strategy.scheme == Scheme::kExplore && !strategy.cuts()) continue;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      EpochInput input = batch.Input(code);
      input.strategy = strategy;
      input.interleaving = seed;
      Engine engine(LedgerTables(), 3);
      EpochResult result;
      BOOST_REQUIRE(engine.Execute(input, &result).ok());
      const Transitions& made = result.batches.at(0).transitions;
      for (size_t number = 1; number < all.size(); ++number) all[number] += made[number];
      // Only with strata and without barriers does a worker take an operation that has to wait.
      if (strategy.exploration != Exploration::kDfs) BOOST_TEST(made[3] == 0, Name(strategy));
      // Each is ready once, and again whenever it was rolled back; in the end all are executed or aborted.
      if (operations == 0) operations = made[1] + made[3];
      BOOST_TEST(made[1] + made[3] == operations, Name(strategy));
      BOOST_TEST(made[4] >= result.aborted, Name(strategy));
    }
  }
  for (size_t number = 1; number < all.size(); ++number) BOOST_TEST(all[number] > 0, "T" << number);
}

BOOST_AUTO_TEST_CASE(a_seed_replays_its_interleaving) {
  // What a seed gives once it gives again: also how often operations had to be run again.
  const Code code = LedgerCode();
  Random random(5);
  const std::vector<LedgerEvent> events = RandomEvents(&random, 400, 10);
  const LedgerBatch batch(events);
  EpochInput input = batch.Input(code);
  input.strategy = Strategy{Scheme::kExplore, Exploration::kNs, Unit::kOperation, Abort::kLazy};
  input.interleaving = 11;
  int64_t redone[2];
  for (int64_t& one : redone) {
    Engine engine(LedgerTables(), 1);
    EpochResult result;
    BOOST_REQUIRE(engine.Execute(input, &result).ok());
    one = result.batches.at(0).redone;
  }
  BOOST_TEST(redone[0] == redone[1]);
  BOOST_TEST(redone[0] > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
