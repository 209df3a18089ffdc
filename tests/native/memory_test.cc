// When memory runs out: wherever it happens, the epoch fails, nothing has changed, and the next one works.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "engine.h"
#include "ledger.h"
#include "shortage.h"
#include "strategies.h"

namespace morphspark {
namespace {

using testing::Allocations;
using testing::LedgerBatch;
using testing::LedgerCode;
using testing::LedgerEvent;
using testing::LedgerState;
using testing::LedgerTables;
using testing::Random;
using testing::Shortage;
using testing::StateOf;

std::vector<LedgerEvent> Events(Random* random, int64_t accounts, int count) {
  std::vector<LedgerEvent> events;
  for (int i = 0; i < count; ++i) events.push_back(testing::RandomEvent(random, i, accounts, 60));
  return events;
}

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(an_epoch_without_memory_changes_nothing) {
  const Code code = LedgerCode();
  Random random(61);
  const LedgerBatch first(Events(&random, 50, 300));
  const LedgerBatch second(Events(&random, 400, 300));  // many new keys: everything has to grow
  LedgerState expected;
  {
    Engine engine(LedgerTables(), 1);
    EpochResult one, two;
    BOOST_REQUIRE(engine.Execute(first.Input(code), &one).ok());
    engine.Commit();
    BOOST_REQUIRE(engine.Execute(second.Input(code), &two).ok());
    expected = StateOf(engine);
  }
  int64_t failures = 0;
  for (int64_t allowed = 0;; ++allowed) {
    Engine engine(LedgerTables(), 1);
    EpochResult ignored;
    BOOST_REQUIRE(engine.Execute(first.Input(code), &ignored).ok());
    engine.Commit();
    const LedgerState before = StateOf(engine);
    const EpochInput input = second.Input(code);
    Status status;
    bool short_of_memory;
    {
      EpochResult result;
      const Shortage shortage(allowed);
      status = engine.Execute(input, &result);
      short_of_memory = shortage.happened();
    }
    BOOST_REQUIRE(engine.Validate());
    if (!short_of_memory) {
      BOOST_REQUIRE(status.ok());
      break;
    }
    ++failures;
    BOOST_REQUIRE((status.code() == StatusCode::kOutOfMemory));
    BOOST_REQUIRE(StateOf(engine) == before);
    EpochResult again;
    BOOST_REQUIRE(engine.Execute(input, &again).ok());
    BOOST_REQUIRE(StateOf(engine) == expected);
    engine.Commit();
    BOOST_REQUIRE(engine.Validate());
    BOOST_REQUIRE(StateOf(engine) == expected);
  }
  BOOST_TEST_MESSAGE(failures << " places");
  BOOST_TEST(failures > 20);
}

BOOST_AUTO_TEST_CASE(a_commit_or_rollback_without_memory_is_done_all_the_same) {
  const Code code = LedgerCode();
  for (bool commit : {true, false}) {
    for (int64_t allowed = 0; allowed < 5; ++allowed) {
      Engine engine(LedgerTables(), 1);
      LedgerState before;
      // Enough strings, written and erased, that both heaps are worth compacting.
      for (int epoch = 0; epoch < 8; ++epoch) {
        std::vector<LedgerEvent> events;
        for (int i = 0; i < 300; ++i) {
          const auto name = [&](int of) { return std::to_string(of * 1'000 + i) + std::string(500, 'n'); };
          events.push_back({2 * i, "note", {}, {}, i, name(epoch), std::string(300, 't')});
          events.push_back({2 * i + 1, "erase", {}, {}, {}, name(epoch - 1), {}});
        }
        const LedgerBatch batch(events);
        EpochResult result;
        BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
        const LedgerState after = StateOf(engine);
        {
          const Shortage shortage(allowed);
          if (commit || epoch % 2)
            engine.Commit();
          else
            engine.Rollback();
        }
        BOOST_REQUIRE(engine.Validate());
        BOOST_REQUIRE((StateOf(engine) == (commit || epoch % 2 ? after : before)));
        before = StateOf(engine);
      }
      BOOST_REQUIRE(engine.state_bytes() < 8u << 20);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_applied_without_memory_can_be_applied_again) {
  testing::Rows<std::string> names, texts;
  testing::Rows<bool> deleted;
  for (int i = 0; i < 400; ++i) {
    names.push_back("a name that is longer than twenty bytes " + std::to_string(i % 250));
    texts.push_back(std::string(300, static_cast<char>('a' + i % 26)));
    deleted.push_back(i % 7 == 0);
  }
  const testing::Column keys = testing::Strings(names), values = testing::Strings(texts);
  const testing::Column gone = testing::Bools(deleted);
  const std::vector<ColumnView> key_views = testing::Views({&keys}), value_views = testing::Views({&values});
  const ColumnView bits = gone.View();
  TableSpec spec;
  spec.key = {Kind::kString};
  spec.columns = {Kind::kString};
  uint64_t rows = 0;
  int64_t failures = 0;
  for (int64_t allowed = 0;; ++allowed) {
    Engine engine({spec}, 1);
    bool short_of_memory;
    Status status;
    {
      const Shortage shortage(allowed);
      status = engine.Apply(0, key_views, value_views, &bits);
      short_of_memory = shortage.happened();
    }
    BOOST_REQUIRE(engine.Validate());
    failures += !status.ok();
    BOOST_REQUIRE((status.ok() || status.code() == StatusCode::kOutOfMemory));
    engine.Rollback();  // what was only named is given back
    BOOST_REQUIRE(engine.Validate());
    BOOST_REQUIRE(engine.Apply(0, key_views, value_views, &bits).ok());
    BOOST_REQUIRE(engine.Validate());
    if (rows == 0) rows = engine.state_rows();
    BOOST_REQUIRE_EQUAL(engine.state_rows(), rows);
    if (!short_of_memory) break;
  }
  BOOST_TEST(rows > 200u);
  BOOST_TEST(failures > 10);
}

// What an epoch allocates when epochs like it have run before.
struct Allocated {
  int64_t count, bytes;
};
Allocated InSteadyState(const Strategy& strategy, int threads, int64_t accounts, int events, int seed) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), threads);
  std::vector<LedgerEvent> opening, transfers;
  for (int64_t account = 0; account < accounts; ++account)
    opening.push_back({account, "transfer", account, (account + 1) % accounts, 0, {}, {}});
  Random random(seed);
  for (int i = 0; i < events; ++i) {
    transfers.push_back(testing::RandomEvent(&random, accounts + i, accounts, 0));
    transfers.back().kind = "transfer";
    if (i % 10 == 0) transfers.back().amount = 1'000;  // it fails
  }
  const LedgerBatch all(opening), some(transfers);
  EpochResult opened;
  if (!engine.Execute(all.Input(code), &opened).ok()) throw std::logic_error("the ledger does not open");
  engine.Commit();
  Allocated last{};
  for (int epoch = 0; epoch < 4; ++epoch) {
    EpochInput input = some.Input(code);
    input.strategy = strategy;
    EpochResult result;
    const Allocations allocations;
    if (!engine.Execute(input, &result).ok()) throw std::logic_error("an epoch failed");
    last = {allocations.count(), allocations.bytes()};
    engine.Commit();
  }
  return last;
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_per_operation_or_as_long_as_a_table) {
  for (const Strategy& strategy : testing::AllStrategies()) {
    for (int threads : {1, 2}) {
      const Allocated few = InSteadyState(strategy, threads, 30'000, 400, 1);
      const Allocated many = InSteadyState(strategy, threads, 30'000, 1'600, 2);
      const std::string what = testing::Name(strategy) + " on " + std::to_string(threads);
      // What an epoch hands out, and who works on it: the same, however many events there are.
      BOOST_TEST(many.count < few.count + 40, what << ": " << few.count << " and " << many.count);
      // Less than one word for each row of the table.
      BOOST_TEST(few.bytes < 30'000 * 4, what << ": " << few.bytes);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
