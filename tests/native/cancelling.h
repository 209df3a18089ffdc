// Ctrl-C while a batch runs: nothing of it is left.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <vector>

#include "engine.h"
#include "strategies.h"

namespace morphspark::testing {

// Runs an epoch whose `poll` says when to end, on fresh tables; whether it was cancelled, and did not end before.
inline bool Cancels(const std::vector<TableSpec>& tables, const EpochInput& input) {
  Engine engine(tables, 2);
  EpochResult result;
  const Status status = engine.Execute(input, &result);
  BOOST_TEST((status.ok() || status.code() == StatusCode::kCancelled), Name(*input.strategy) + ": " + status.message());
  if (status.ok()) engine.Rollback();
  BOOST_TEST(engine.table(0).LiveSlots().empty());
  BOOST_TEST(engine.Validate());
  return !status.ok();
}

inline void Cancel(const std::vector<TableSpec>& tables, const EpochInput& input) {
  BOOST_TEST(Cancels(tables, input), Name(*input.strategy));
}

// Of a batch in which all but one are redone, which takes as long as the first time at least: it is run as it is, and
// then until most of it is over. On a busy machine a run may end before it is asked: then again.
inline void CancelWhileRedone(const std::vector<TableSpec>& tables, EpochInput input) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 5;
  for (int run = 0; run < kTries; ++run) {
    Engine engine(tables, 2);
    EpochResult result;
    input.poll = nullptr;
    const auto begin = Clock::now();
    BOOST_REQUIRE(engine.Execute(input, &result).ok());
    const auto whole = Clock::now() - begin;
    BOOST_TEST(result.batches.at(0).redone >= result.batches.at(0).transactions - 1, Name(*input.strategy));
    const auto most_of_it = Clock::now() + whole * 3 / 5;
    input.poll = [=] { return Clock::now() > most_of_it; };
    if (Cancels(tables, input)) return;
  }
  BOOST_TEST(false, Name(*input.strategy) + ": was never cancelled");
}

}  // namespace morphspark::testing
