// Whole epochs: load, execute, then commit or roll back; and everything that can stop one on the way.
#include "engine.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "columns.h"
#include "ledger.h"

namespace morphspark {
namespace {

using testing::Column;
using testing::LedgerBatch;
using testing::LedgerCode;
using testing::LedgerEvent;
using testing::LedgerState;
using testing::LedgerTables;
using testing::Random;
using testing::Rows;
using testing::StateOf;

std::vector<LedgerEvent> Transfers(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<LedgerEvent> events;
  for (const auto& row : rows) events.push_back({row[0], "transfer", row[1], row[2], row[3], {}, {}});
  return events;
}

Rows<std::string> StatusOf(const EpochResult& result) {
  return testing::StringsOf(testing::ViewOf(result.status, Kind::kString));
}
Rows<std::string> ReasonsOf(const EpochResult& result) {
  return testing::StringsOf(testing::ViewOf(result.reason, Kind::kString));
}

BOOST_AUTO_TEST_SUITE(engine)

BOOST_AUTO_TEST_CASE(an_epoch_runs_in_order_and_commits) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 2);
  const Column keys = testing::Int64s({1, 2}), balances = testing::Int64s({10, 0});
  BOOST_TEST(engine.Apply(testing::kAccountTable, testing::Views({&keys}), testing::Views({&balances})).ok());
  BOOST_TEST(engine.state_rows() == 2u);
  // 20 is short until 30 has paid it.
  std::vector<LedgerEvent> events = Transfers({{5, 2, 3, 20}, {1, 1, 2, 15}, {4, 1, 2, 10}, {3, 3, 1, 20}});
  events.push_back({6, "unknown", {}, {}, {}, {}, {}});
  events.push_back({std::nullopt, "transfer", 1, 2, 3, {}, {}});
  const LedgerBatch batch(events);
  EpochResult result;
  BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
  BOOST_TEST(
      (StatusOf(result) == Rows<std::string>{"aborted", "committed", "committed", "aborted", "unmatched", "aborted"}));
  BOOST_TEST((ReasonsOf(result) == Rows<std::string>{"require", {}, {}, "require", {}, "null order"}));
  BOOST_TEST(
      (testing::Int64sOf(testing::ViewOf(result.returned[0], Kind::kInt64)) == Rows<int64_t>{{}, 80, 20, {}, {}, {}}));
  BOOST_TEST(
      (testing::Int64sOf(testing::ViewOf(result.timestamps, Kind::kTimestamp)) == Rows<int64_t>{1, 3, 4, 5, 6, {}}));
  BOOST_TEST(result.committed == 2);
  BOOST_TEST(result.aborted == 3);
  BOOST_TEST(result.unmatched == 1);
  BOOST_TEST(*result.watermark_row == 4u);
  BOOST_TEST(*result.last_key_row == 4u);
  engine.Commit();
  BOOST_TEST(engine.Validate());
  BOOST_TEST((StateOf(engine).accounts == std::map<int64_t, int64_t>{{1, 20}, {2, 10}, {3, 80}}));
}

BOOST_AUTO_TEST_CASE(a_rollback_changes_nothing_and_the_epoch_can_run_again) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  Random random(51);
  std::vector<LedgerEvent> events;
  for (int i = 0; i < 500; ++i) events.push_back(testing::RandomEvent(&random, i, 40, 30));
  const LedgerBatch first(events);
  EpochResult result;
  BOOST_REQUIRE(engine.Execute(first.Input(code), &result).ok());
  engine.Commit();
  const LedgerState before = StateOf(engine);
  for (int i = 0; i < 500; ++i) events[i] = testing::RandomEvent(&random, 500 + i, 60, 30);
  const LedgerBatch second(events);
  Rows<std::string> reasons;
  LedgerState after;
  for (int round = 0; round < 3; ++round) {
    EpochResult again;
    BOOST_REQUIRE(engine.Execute(second.Input(code), &again).ok());
    if (round == 0) {
      reasons = ReasonsOf(again);
      after = StateOf(engine);
      BOOST_TEST((after != before));
    }
    BOOST_TEST((ReasonsOf(again) == reasons));
    BOOST_TEST((StateOf(engine) == after));
    if (round == 2) break;
    engine.Rollback();
    BOOST_TEST((StateOf(engine) == before));
    BOOST_TEST(engine.Validate());
  }
  engine.Commit();
  BOOST_TEST((StateOf(engine) == after));
  BOOST_TEST(engine.Validate());
}

BOOST_AUTO_TEST_CASE(many_epochs_agree_with_a_plain_ledger_on_any_number_of_threads) {
  const Code code = LedgerCode();
  for (int threads : {1, 2, 4}) {
    Random random(52);
    Engine engine(LedgerTables(), threads);
    LedgerState model;
    for (int epoch = 0; epoch < 12; ++epoch) {
      std::vector<LedgerEvent> events;
      const int count = epoch == 5 ? 40'000 : 200;  // one of them in several chunks
      for (int i = 0; i < count; ++i) {
        events.push_back(testing::RandomEvent(&random, static_cast<int64_t>(random() % 1'000), 50, 25));
        if (random() % 100 == 0) events.back().ts.reset();
      }
      const LedgerBatch batch(events);
      EpochResult result;
      BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
      std::stable_sort(events.begin(), events.end(),
                       [](const LedgerEvent& a, const LedgerEvent& b) { return a.ts && (!b.ts || *a.ts < *b.ts); });
      const LedgerState before = model;
      Rows<std::string> expected;
      for (const LedgerEvent& event : events) {
        const std::string reason = testing::Apply(event, &model);
        expected.push_back(reason.empty() ? std::nullopt : std::optional(reason));
      }
      BOOST_REQUIRE(ReasonsOf(result) == expected);
      BOOST_REQUIRE(StateOf(engine) == model);
      if (epoch % 4 == 3) {
        engine.Rollback();
        model = before;
      } else {
        engine.Commit();
      }
      BOOST_REQUIRE(engine.Validate());
      BOOST_REQUIRE(StateOf(engine) == model);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_poll_cancels_and_nothing_has_changed) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  EpochResult first, second, third;
  const LedgerBatch small(Transfers({{1, 1, 2, 5}}));
  BOOST_REQUIRE(engine.Execute(small.Input(code), &first).ok());
  engine.Commit();
  const LedgerState before = StateOf(engine);
  // Long enough for the clock to be looked at after 50 ms; every account is new.
  std::vector<LedgerEvent> events;
  for (int64_t i = 0; i < 400'000; ++i) events.push_back({i, "transfer", i, i + 1, 1, {}, {}});
  const LedgerBatch large(events);
  EpochInput input = large.Input(code);
  int polls = 0;
  input.poll = [&] {
    ++polls;
    return true;
  };
  const Status status = engine.Execute(input, &second);
  if (polls == 0) {  // a very fast machine: then the epoch is simply done
    BOOST_TEST(status.ok());
    engine.Rollback();
  } else {
    BOOST_TEST((status.code() == StatusCode::kCancelled));
    BOOST_TEST(polls == 1);
  }
  BOOST_TEST((StateOf(engine) == before));
  BOOST_TEST(engine.Validate());
  BOOST_TEST(engine.Execute(small.Input(code), &third).ok());
  engine.Commit();
  BOOST_TEST(StateOf(engine).accounts[1] == 90);
}

BOOST_AUTO_TEST_CASE(a_limit_or_lateness_stops_an_epoch_and_nothing_has_changed) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  const LedgerBatch batch({{1, "transfer", 1, 2, 5, {}, {}}, {2, "note", {}, {}, 1, "name", "a text"}});
  EpochInput input = batch.Input(code);
  input.max_string_bytes = 11;  // the note's text would have 12
  EpochResult limited;
  BOOST_TEST((engine.Execute(input, &limited).code() == StatusCode::kLimit));
  BOOST_TEST((StateOf(engine) == LedgerState()));
  input = batch.Input(code);
  input.late = Late::kFail;
  input.last_key = OrderKey{{testing::IntValue(2)}, {}};
  EpochResult late;
  BOOST_TEST((engine.Execute(input, &late).code() == StatusCode::kLate));
  BOOST_TEST((StateOf(engine) == LedgerState()));
  BOOST_TEST(engine.Validate());
  input.late = Late::kDivert;
  EpochResult diverted;
  BOOST_TEST(engine.Execute(input, &diverted).ok());
  BOOST_TEST((diverted.order.diverted == std::vector<BatchRow>{0}));
  BOOST_TEST(diverted.committed == 1);
  engine.Commit();
  BOOST_TEST(StateOf(engine).accounts.empty());
  BOOST_TEST(StateOf(engine).notes.size() == 1u);
}

BOOST_AUTO_TEST_CASE(late_rows_take_the_watermark_as_their_time) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  const LedgerBatch batch(Transfers({{3, 1, 2, 1}, {9, 1, 2, 1}, {7, 1, 2, 1}}));
  EpochInput input = batch.Input(code);
  input.watermark = testing::IntValue(7);
  EpochResult result;
  BOOST_REQUIRE(engine.Execute(input, &result).ok());
  BOOST_TEST((testing::Int64sOf(testing::ViewOf(result.timestamps, Kind::kTimestamp)) == Rows<int64_t>{7, 7, 9}));
  BOOST_TEST(*result.watermark_row == 1u);
}

BOOST_AUTO_TEST_CASE(an_empty_epoch_is_an_epoch) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 2);
  const LedgerBatch batch(std::vector<LedgerEvent>{});
  EpochResult result;
  BOOST_TEST(engine.Execute(batch.Input(code), &result).ok());
  engine.Commit();
  BOOST_TEST(result.committed + result.aborted + result.unmatched == 0);
  BOOST_TEST(!result.watermark_row.has_value());
  BOOST_TEST(engine.Validate());
}

BOOST_AUTO_TEST_CASE(columns_that_are_not_the_programs_are_refused) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  const LedgerBatch batch(Transfers({{1, 1, 2, 1}}));
  const EpochInput good = batch.Input(code);
  std::vector<ColumnView> fewer;
  EpochResult result;
  EpochInput input = good;
  input.columns = fewer;
  BOOST_TEST((engine.Execute(input, &result).code() == StatusCode::kInvalid));
  input = good;
  input.rows = 2;
  BOOST_TEST((engine.Execute(input, &result).code() == StatusCode::kInvalid));
  const Column wrong = testing::Float64s({1.0});
  std::vector<ColumnView> views;
  for (int i = 0; i < 7; ++i) views.push_back(wrong.View());
  input = good;
  input.columns = views;
  BOOST_TEST((engine.Execute(input, &result).code() == StatusCode::kInvalid));
  input = good;
  input.last_key = OrderKey{};
  BOOST_TEST((engine.Execute(input, &result).code() == StatusCode::kInvalid));
  BOOST_TEST((engine.Apply(2, {}, {}).code() == StatusCode::kInvalid));
}

uint64_t BytesReserved(const Engine& engine) {
  return engine.table(0).bytes_reserved() + engine.table(1).bytes_reserved();
}

// Keys, rows and strings come and go for long; the state's memory stays where it was early on.
BOOST_AUTO_TEST_CASE(state_does_not_grow_over_epochs_of_churn) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  Random random(53);
  uint64_t used[2] = {0, 0}, reserved[2] = {0, 0};  // at most, in the first half and in the second
  constexpr int64_t kEpochs = 120;
  for (int64_t epoch = 0; epoch <= kEpochs; ++epoch) {
    std::vector<LedgerEvent> events;
    for (int64_t i = 0; i < 100; ++i) {
      const auto name = [&](int64_t of) { return "note " + std::to_string(of * 1'000 + i) + std::string(1'000, 'n'); };
      // Names move on: each is written in one epoch and erased in the next, or in the one after it
      // if that was rolled back. Some accounts are named and never written.
      const std::string text = testing::RandomText(&random, 800);
      if (epoch < kEpochs) events.push_back({epoch * 10, "note", {}, {}, i, name(epoch), text});
      for (int64_t before : {1, 2}) {
        events.push_back({epoch * 10 + 1, "erase", {}, {}, {}, name(epoch - before), {}});
      }
      events.push_back({epoch * 10 + 2, "transfer", epoch * 1'000 + i, i, 1'000'000, {}, {}});
    }
    const LedgerBatch batch(events);
    EpochResult result;
    BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
    if (epoch % 10 == 7) engine.Rollback();
    engine.Commit();
    const int half = epoch >= kEpochs / 2;
    used[half] = std::max(used[half], engine.state_bytes());
    reserved[half] = std::max(reserved[half], BytesReserved(engine));
    if (epoch % 30 == 0) BOOST_REQUIRE(engine.Validate());
  }
  BOOST_TEST(used[1] <= used[0] + used[0] / 8);
  BOOST_TEST(reserved[1] <= reserved[0] + reserved[0] / 8);
  BOOST_TEST(reserved[1] < 8u << 20);
  // The last epoch has only erased.
  BOOST_TEST(engine.state_rows() == 0u);
  BOOST_TEST(engine.state_bytes() < 256u << 10);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
