// Strategies where operations leave strings to each other: results, what exactly is redone, and Ctrl-C on the way.
//
//   notes[int64]  {text: string, number: int64}   default {"", 0}
//
//   pass:   notes[from].text += e.text; notes[to].text = notes[from].text;
//           require(notes[to].number < e.limit); notes[to].number += 1
//   touch:  notes[from].text = e.text + notes[from].text; require(notes[from].number < e.limit)
//   slow:   notes[from].number = notes[to].number = slow(notes[from].number) + 1; require(notes[to].number < e.limit)
//           `slow` is a function of the user's, or, so that transactions may run in parts, work of the machine's own
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "assembler.h"
#include "bench/work.h"
#include "cancelling.h"
#include "engine.h"
#include "execute/operation_state.h"
#include "functions.h"
#include "strategies.h"

namespace morphspark {
namespace {

using testing::Column;
using testing::Host;
using testing::Name;
using testing::Random;
using testing::Rows;

enum Type : int64_t { kPass, kTouch, kSlow };

struct Event {
  Type type;
  int64_t from, to, limit;
  std::string text;
};

struct Note {
  std::string text;
  int64_t number = 0;
  bool operator==(const Note&) const = default;
};
using Notes = std::map<int64_t, Note>;

std::vector<TableSpec> Tables() {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kString, Kind::kInt64};
  spec.has_default = true;
  spec.defaults = {Value{.s = {"", 0}}, Value{.i = 0}};
  spec.default_text.resize(2);
  return {spec};
}

// Gives back its argument, after a millisecond.
bool Slowly(void* context, UserCall* call) {
  ++static_cast<Host*>(context)->calls;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (uint32_t row = 0; row < call->rows; ++row) call->result_low[row] = call->low[row];
  return true;
}

// Without a host there are no functions.
Code NotesCode(Host* host) {
  testing::Assembler assembler;
  enum : uint32_t { kType, kFrom, kTo, kLimit, kText };
  for (int i = 0; i < 4; ++i) assembler.Column(Kind::kInt64);
  assembler.Column(Kind::kString);
  const Register one = assembler.Constant(testing::OfInt(1));
  const SiteId from_site = assembler.NewSite(0, {kFrom}), to_site = assembler.NewSite(0, {kTo});
  const Register from = assembler.NewRegister(), to = assembler.NewRegister(), limit = assembler.NewRegister(),
                 text = assembler.NewRegister(), was = assembler.NewRegister(), joined = assembler.NewRegister(),
                 number = assembler.NewRegister(), tested = assembler.NewRegister(), result = assembler.NewRegister(),
                 next = assembler.NewRegister(), ok = assembler.NewRegister();
  const auto add = [&](Type type) -> testing::TransactionText& {
    testing::TransactionText& added = assembler.NewTransaction();
    added.on = {{kType, 0, {{Match::kInt, testing::OfInt(type)}}}};
    added.loads = {{limit, kLimit}, {text, kText}};
    added.Row(from, from_site);
    if (type != kTouch) added.Row(to, to_site);
    return added;
  };
  const auto require = [&](testing::TransactionText* of, Register row) {
    of->Add(Op::kReadI, tested, row, 0, {.c = 1});
    of->Add(Op::kCompareI, ok, tested, limit, {.aux = static_cast<uint16_t>(Comparison::kLt)});
    of->Add(Op::kRequire, 0, ok);
  };
  testing::TransactionText& pass = add(kPass);
  pass.Add(Op::kReadS, was, from, 0, {.c = 0});
  pass.Add(Op::kConcat, joined, was, text);
  pass.Add(Op::kWriteS, 0, from, joined, {.c = 0});
  pass.Add(Op::kWriteS, 0, to, joined, {.c = 0});
  require(&pass, to);  // late: others may have read the first row by now
  pass.Add(Op::kIncreaseI, 0, to, one, {.c = 1});
  pass.Add(Op::kStop);
  testing::TransactionText& touch = add(kTouch);
  touch.Add(Op::kReadS, was, from, 0, {.c = 0});
  touch.Add(Op::kConcat, joined, text, was);
  touch.Add(Op::kWriteS, 0, from, joined, {.c = 0});
  require(&touch, from);
  touch.Add(Op::kStop);
  testing::TransactionText& slow = add(kSlow);
  slow.Add(Op::kReadI, number, from, 0, {.c = 1});
  if (host != nullptr) {
    UserFunction function{{Kind::kInt64}, {Kind::kInt64}};
    function.host = Slowly;
    function.context = host;
    slow.Add(Op::kCall, result, number, 1, {.c = 1, .aux = assembler.Function(function)});
  } else {
    constexpr uint32_t kRounds = 200'000;
    slow.Add(Op::kWork, result, number, 0, {.c = kRounds, .aux = static_cast<uint16_t>(WorkKind::kBranchy)});
  }
  slow.Add(Op::kAddI, next, result, one);
  slow.Add(Op::kWriteI, 0, from, next, {.c = 1});
  slow.Add(Op::kWriteI, 0, to, next, {.c = 1});
  require(&slow, to);
  slow.Add(Op::kStop);
  Code code = testing::Assemble(assembler, Tables());
  return code;
}

class Batch {
 public:
  explicit Batch(const std::vector<Event>& events) : rows_(static_cast<int64_t>(events.size())) {
    Rows<int64_t> numbers[4];
    Rows<std::string> texts;
    for (const Event& one : events) {
      numbers[0].push_back(one.type);
      numbers[1].push_back(one.from);
      numbers[2].push_back(one.to);
      numbers[3].push_back(one.limit);
      texts.push_back(one.text);
    }
    for (const auto& some : numbers) columns_.push_back(testing::Int64s(some));
    columns_.push_back(testing::Strings(texts));
    for (const Column& column : columns_) views_.push_back(column.View());
  }

  EpochInput Input(const Code& code) const {
    return {&code, views_, rows_, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
  }

 private:
  std::vector<Column> columns_;
  std::vector<ColumnView> views_;
  int64_t rows_;
};

std::vector<Event> RandomEvents(Random* random, int count, int64_t keys) {
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    events.push_back({(*random)() % 4 ? kPass : kTouch, static_cast<int64_t>((*random)() % keys),
                      static_cast<int64_t>((*random)() % keys), static_cast<int64_t>((*random)() % 6),
                      testing::RandomText(random, 3)});
  }
  return events;
}

// The same in plain C++; how many failed.
int64_t Apply(const std::vector<Event>& events, Notes* notes) {
  int64_t failed = 0;
  for (const Event& one : events) {
    Notes after = *notes;
    bool passes;
    if (one.type == kPass) {
      after[one.from].text += one.text;
      after[one.to].text = after[one.from].text;
      passes = after[one.to].number < one.limit;
      ++after[one.to].number;
    } else {
      after[one.from].text = one.text + after[one.from].text;
      passes = after[one.from].number < one.limit;
    }
    failed += !passes;
    if (passes) *notes = std::move(after);
  }
  return failed;
}

Notes NotesOf(const Engine& engine) {
  Notes notes;
  const Table& table = engine.table(0);
  for (Slot slot : table.LiveSlots()) {
    notes[table.index().IntegerKey(slot)] = {std::string(testing::Stored<Kind::kString>(table, slot, 0).s.view()),
                                             testing::Stored<Kind::kInt64>(table, slot, 1).i};
  }
  return notes;
}

void Check(const EpochInput& input, const std::vector<Event>& events, int threads, const std::string& what) {
  Engine engine(Tables(), threads);
  EpochResult result;
  const Status status = engine.Execute(input, &result);
  BOOST_REQUIRE_MESSAGE(status.ok(), what + ": " + status.message());
  Notes expected;
  const int64_t failed = Apply(events, &expected);
  std::erase_if(expected, [](const auto& one) { return one.second == Note(); });
  Notes found = NotesOf(engine);
  std::erase_if(found, [](const auto& one) { return one.second == Note(); });
  BOOST_REQUIRE_MESSAGE(result.aborted == failed, what);
  BOOST_REQUIRE_MESSAGE(found == expected, what);
  engine.Commit();
  BOOST_REQUIRE_MESSAGE(engine.Validate(), what);
}

BOOST_AUTO_TEST_SUITE(strategies)

BOOST_AUTO_TEST_CASE(strings_between_operations_on_threads) {
  const Code code = NotesCode(nullptr);
  for (const Strategy& strategy : testing::AllStrategies()) {
    for (int threads : {1, 2, 4}) {
      Random random(91);
      const std::vector<Event> events = RandomEvents(&random, 300, 40);
      const Batch batch(events);
      EpochInput input = batch.Input(code);
      input.strategy = strategy;
      input.lanes_min = 2;
      Check(input, events, threads, Name(strategy) + " on " + std::to_string(threads));
    }
  }
}

BOOST_AUTO_TEST_CASE(strings_between_operations_in_interleavings_from_seeds) {
  const Code code = NotesCode(nullptr);
  const std::vector<Strategy> all = testing::AllStrategies(), points = testing::Explorations();
  for (int seed = 0; seed < testing::Seeds(); ++seed) {
    Random random(seed);
    const std::vector<Event> events = RandomEvents(&random, 50, 3 + seed % 12);
    const Batch batch(events);
    EpochInput input = batch.Input(code);
    input.strategy = all[seed % all.size()];
    std::vector<Strategy> nest;
    if (seed % 2) {
      for (int type = 0; type < 3; ++type) nest.push_back(points[random() % points.size()]);
      input.strategy = Strategy{.scheme = Scheme::kNested};
      input.nested = nest;
    }
    input.interleaving = seed;
    input.interleaved_workers = 2 + seed % 3;
    input.lanes_min = 1;
    Check(input, events, 1, Name(*input.strategy) + ", seed " + std::to_string(seed));
  }
}

BOOST_AUTO_TEST_CASE(wide_strata_run_in_lanes_on_threads) {
  const Code code = NotesCode(nullptr);
  Random random(92);
  std::vector<Event> events = RandomEvents(&random, 3'000, 20'000);
  const Batch batch(events);
  for (int threads : {2, 4}) {
    EpochInput input = batch.Input(code);
    input.strategy = Strategy{Scheme::kExplore, Exploration::kBfs, Unit::kStratum};
    input.lanes_min = 16;
    Engine engine(Tables(), threads);
    EpochResult one, other;
    BOOST_REQUIRE(engine.Execute(input, &one).ok());
    Engine serial(Tables(), 1);
    input.strategy = Strategy();
    BOOST_REQUIRE(serial.Execute(input, &other).ok());
    BOOST_TEST((NotesOf(engine) == NotesOf(serial)));
    BOOST_TEST(one.aborted == other.aborted);
  }
}

BOOST_AUTO_TEST_CASE(only_what_an_abort_changed_is_redone) {
  const Code code = NotesCode(nullptr);
  // The first writes note 1 and fails. The second has read that, and runs again; but it writes the same text as before,
  // so that the third and fourth do not.
  const Batch batch({{kPass, 1, 0, 0, ""}, {kPass, 1, 2, 9, "two"}, {kPass, 2, 3, 9, "three"}, {kTouch, 3, 0, 9, "x"}});
  for (const Strategy& strategy : testing::Explorations()) {
    if (!strategy.cuts() || strategy.abort != Abort::kLazy) continue;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      EpochInput input = batch.Input(code);
      input.strategy = strategy;
      input.interleaving = seed;
      Engine engine(Tables(), 1);
      EpochResult result;
      BOOST_REQUIRE(engine.Execute(input, &result).ok());
      BOOST_TEST(result.batches.at(0).redone == 2, Name(strategy));
      BOOST_TEST(NotesOf(engine)[3].text == "xtwothree");
    }
  }
}

// ------------------------------------------------------------------------------------------------- cancelling

constexpr int64_t kSlowEvents = 120;

// A chain over one row. If the first fails, all that follow have read what it must take back.
std::vector<Event> SlowEvents(bool fails) {
  std::vector<Event> events(kSlowEvents, {kSlow, 1, 2, 1'000, ""});
  if (fails) events[0].limit = 0;
  return events;
}

BOOST_AUTO_TEST_CASE(a_batch_is_cancelled_while_it_is_explored) {
  for (const Strategy& strategy : testing::AllStrategies()) {
    if (strategy.scheme == Scheme::kExplore && strategy.abort == Abort::kLazy) continue;  // as with e-abort
    Host host;
    const Code code = NotesCode(&host);
    const Batch batch(SlowEvents(false));
    EpochInput input = batch.Input(code);
    input.strategy = strategy;
    input.poll = [&] { return host.calls > 5; };
    testing::Cancel(Tables(), input);
    BOOST_TEST(host.calls < kSlowEvents, Name(strategy));
  }
}

BOOST_AUTO_TEST_CASE(a_batch_is_cancelled_while_it_is_redone) {
  const Code code = NotesCode(nullptr);
  const Batch batch(SlowEvents(true));
  std::vector<Strategy> strategies{{.scheme = Scheme::kTstream}};
  for (const Strategy& one : testing::Explorations()) {
    if (one.cuts() && one.abort == Abort::kLazy) strategies.push_back(one);
  }
  for (const Strategy& strategy : strategies) {
    EpochInput input = batch.Input(code);
    input.strategy = strategy;
    testing::CancelWhileRedone(Tables(), input);
  }
}

// ----------------------------------------------------------------------------------------------------- states

BOOST_AUTO_TEST_CASE(operations_change_their_states_in_six_ways) {
  constexpr auto kBlk = OperationState::kBlocked, kRdy = OperationState::kReady, kExe = OperationState::kExecuted,
                 kAbt = OperationState::kAborted;
  struct {
    OperationState from, to;
    int forward, back;
  } const kWays[] = {
      {kBlk, kRdy, 1, 5}, {kRdy, kExe, 2, 0}, {kBlk, kExe, 3, 0}, {kBlk, kAbt, 4, 4}, {kRdy, kAbt, 4, 4},
      {kExe, kAbt, 4, 4}, {kExe, kRdy, 0, 5}, {kExe, kBlk, 0, 6}, {kRdy, kBlk, 0, 6},
  };
  for (OperationState from : {kBlk, kRdy, kExe, kAbt}) {
    for (OperationState to : {kBlk, kRdy, kExe, kAbt}) {
      const auto way = std::ranges::find_if(kWays, [&](const auto& one) { return one.from == from && one.to == to; });
      const bool is = way != std::end(kWays);
      BOOST_TEST(TransitionOf(from, to, false) == (is ? way->forward : 0));
      BOOST_TEST(TransitionOf(from, to, true) == (is ? way->back : 0));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
