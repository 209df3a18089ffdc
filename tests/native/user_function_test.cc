// User functions: native code and hosts, one by one, in lanes and cut into operations; and what the verifier refuses.
#include "program/user_function.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "assembler.h"
#include "engine.h"
#include "functions.h"

namespace morphspark {
namespace {

using testing::Assembler;
using testing::Column;
using testing::Host;
using testing::Random;
using testing::Rows;
using testing::Stage;
using testing::TransactionText;

// Two rows of a table of (int64, string): the first gets the quotient of itself and an amount, the second a text as
// long as the quotient says. Both functions stand between the reads and the writes of other rows.
Assembler Divisions(Host* host) {
  Assembler assembler;
  const uint32_t from = assembler.Column(Kind::kInt64), to = assembler.Column(Kind::kInt64),
                 amount = assembler.Column(Kind::kInt64);
  const uint16_t divide = assembler.Function(testing::DivideFunction(true)),
                 letters = assembler.Function(testing::LettersFunction(host));
  const SiteId first = assembler.NewSite(0, {from}), second = assembler.NewSite(0, {to});
  const Register rows = assembler.NewRegisters(2), given = assembler.NewRegisters(2),
                 results = assembler.NewRegisters(2), text_of = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.Row(rows, first);
  text.Row(rows + 1, second);
  text.loads = {{given + 1, amount}};
  text.Add(Op::kNeed, 0, given + 1);
  text.Add(Op::kReadI, given, rows, 0, {.c = 0});
  text.Add(Op::kCall, results, given, 2, {.c = 2, .aux = divide});
  text.Add(Op::kWriteI, 0, rows, results, {.c = 0});
  text.Add(Op::kCall, text_of, results, 1, {.c = 1, .aux = letters});
  text.Add(Op::kWriteS, 0, rows + 1, text_of, {.c = 1});
  text.Add(Op::kEmit, 0, results + 1, assembler.Returned(Kind::kFloat64));
  text.Add(Op::kStop);
  return assembler;
}

std::vector<TableSpec> Tables() {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kInt64, Kind::kString};
  spec.has_default = true;
  spec.defaults = {Value{.i = 1000}, Value{.s = {"", 0}}};
  spec.default_text.resize(2);
  return {spec};
}

struct Batch {
  Column from, to, amount;

  Batch(int64_t rows, int64_t keys) {
    Random random(11);
    Rows<int64_t> froms, tos, amounts;
    for (int64_t i = 0; i < rows; ++i) {
      froms.push_back(static_cast<int64_t>(random() % keys));
      tos.push_back(static_cast<int64_t>(random() % keys));
      amounts.push_back(static_cast<int64_t>(random() % 8) - 2);
      if (random() % 50 == 0) amounts.back().reset();
    }
    from = testing::Int64s(froms);
    to = testing::Int64s(tos);
    amount = testing::Int64s(amounts);
  }
};

struct Outcome {
  Status status;
  Rows<std::string> reasons;
  Rows<double> returned;
  Rows<int64_t> values;
  Rows<std::string> texts;
  bool operator==(const Outcome& other) const {
    return reasons == other.reasons && returned == other.returned && values == other.values && texts == other.texts;
  }
};

Outcome RunBatch(const Assembler& assembler, const Batch& batch, const Strategy& strategy, int threads) {
  const Code code = testing::Assemble(assembler, Tables());
  Engine engine(Tables(), threads);
  const std::vector<ColumnView> views = testing::Views({&batch.from, &batch.to, &batch.amount});
  EpochInput input{&code, views, batch.from.length, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
  input.strategy = strategy;
  input.lanes_min = 2;
  EpochResult result;
  Outcome outcome;
  outcome.status = engine.Execute(input, &result);
  if (!outcome.status.ok()) return outcome;
  engine.Commit();
  outcome.reasons = testing::StringsOf(testing::ViewOf(result.reason, Kind::kString));
  outcome.returned = testing::Float64sOf(testing::ViewOf(result.returned[0], Kind::kFloat64));
  const std::vector<Slot> slots = engine.table(0).LiveSlots();
  const ColumnBuffers values = engine.table(0).ExportValues(0, slots), texts = engine.table(0).ExportValues(1, slots);
  outcome.values = testing::Int64sOf(testing::ViewOf(values, Kind::kInt64));
  outcome.texts = testing::StringsOf(testing::ViewOf(texts, Kind::kString));
  return outcome;
}

std::vector<Strategy> Planned() {
  std::vector<Strategy> all = {{.scheme = Scheme::kLock}, {.scheme = Scheme::kTstream}};
  for (Exploration exploration : {Exploration::kBfs, Exploration::kDfs, Exploration::kNs}) {
    for (Unit unit : {Unit::kOperation, Unit::kChain, Unit::kTransaction}) {
      for (Abort abort : {Abort::kEager, Abort::kLazy}) all.push_back({Scheme::kExplore, exploration, unit, abort});
    }
  }
  all.push_back({Scheme::kExplore, Exploration::kBfs, Unit::kStratum});
  return all;
}

BOOST_AUTO_TEST_SUITE(user_functions)

BOOST_AUTO_TEST_CASE(all_strategies_agree) {
  Host host;
  const Assembler assembler = Divisions(&host);
  for (int64_t keys : {12, 4000}) {
    const Batch batch(900, keys);
    host.calls = host.rows = 0;
    const Outcome expected = RunBatch(assembler, batch, {}, 1);
    BOOST_REQUIRE(expected.status.ok());
    BOOST_TEST(host.calls.load() == host.rows.load());  // one by one
    int64_t divided = 0, refused = 0;
    for (const auto& reason : expected.reasons) {
      divided += reason && reason->ends_with(" divided by zero");
      refused += reason && reason->starts_with("letters: ");
    }
    BOOST_TEST(divided > 50);
    BOOST_TEST(refused > 50);
    for (const Strategy& strategy : Planned()) {
      for (int threads : {1, 3}) {
        host.calls = host.rows = 0;
        const Outcome outcome = RunBatch(assembler, batch, strategy, threads);
        BOOST_TEST(outcome.status.ok());
        BOOST_TEST((outcome == expected));
        if (strategy.unit == Unit::kStratum && keys == 4000) BOOST_TEST(host.calls * 5 < host.rows);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_host_can_end_the_epoch) {
  for (const Strategy& strategy : Planned()) {
    Host host;
    host.cancel_after = 3;
    const Outcome outcome = RunBatch(Divisions(&host), Batch(900, 100), strategy, 2);
    BOOST_TEST((outcome.status.code() == StatusCode::kCancelled));
  }
  Host host;
  host.cancel_after = 3;
  BOOST_TEST((RunBatch(Divisions(&host), Batch(90, 10), {}, 1).status.code() == StatusCode::kCancelled));
  BOOST_TEST(host.calls == 4);
}

BOOST_AUTO_TEST_CASE(without_a_host_a_failure_has_the_programs_reason) {
  Assembler assembler;
  const uint32_t a = assembler.Column(Kind::kInt64), b = assembler.Column(Kind::kInt64);
  const uint16_t divide = assembler.Function(testing::DivideFunction(false));
  const Register given = assembler.NewRegisters(2), results = assembler.NewRegisters(2);
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{given, a}, {given + 1, b}};
  text.Add(Op::kNeed, 0, given);
  text.Add(Op::kNeed, 0, given + 1);
  text.Add(Op::kCall, results, given, 2, {.c = 2, .aux = divide, .reasons = kFailures});
  text.Add(Op::kEmit, 0, results, assembler.Returned(Kind::kInt64));
  text.Add(Op::kStop);
  const Column as = testing::Int64s({7, 7, {}, INT64_MIN}), bs = testing::Int64s({2, 0, 1, -1});
  const auto result = Stage(assembler, {}).Run({&as, &bs}, 4);
  BOOST_TEST((result.reasons == std::vector<std::string>{"", "other udf", "null0", ""}));
  BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kInt64)) == Rows<int64_t>{3, {}, {}, INT64_MIN}));
}

BOOST_AUTO_TEST_CASE(a_text_over_the_limit_ends_the_epoch) {
  Host host;
  Assembler assembler;
  const uint32_t a = assembler.Column(Kind::kInt64);
  const uint16_t letters = assembler.Function(testing::LettersFunction(&host));
  const Register given = assembler.NewRegister(), result = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{given, a}};
  text.Add(Op::kNeed, 0, given);
  text.Add(Op::kCall, result, given, 1, {.c = 1, .aux = letters});
  text.Add(Op::kEmit, 0, result, assembler.Returned(Kind::kString));
  text.Add(Op::kStop);
  const Column as = testing::Int64s({3, 5, 0, -4});
  Stage stage(assembler, {});
  stage.max_string_bytes = 4;
  const auto found = stage.Run({&as}, 4);
  BOOST_TEST((found.reasons == std::vector<std::string>{"", "string limit", "", "letters: -1"}));
  BOOST_TEST((testing::StringsOf(found.Returned(0, Kind::kString)) == Rows<std::string>{"aaa", {}, {}, {}}));
}

BOOST_AUTO_TEST_CASE(reasons_are_numbered_by_any_thread) {
  const std::vector<std::string> known = {"", "known"};
  ReasonTexts texts;
  texts.Reset(known);
  std::vector<std::vector<ReasonId>> found(3);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : found) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) mine.push_back(texts.Add("reason " + std::to_string(i % 50)));
      });
    }
  }
  BOOST_TEST((found[0] == found[1] && found[1] == found[2]));
  for (int i = 0; i < 500; ++i) BOOST_TEST(texts[found[0][i]] == "reason " + std::to_string(i % 50));
  BOOST_TEST(texts[1] == "known");
  texts.Reset(known);
  BOOST_TEST(texts.Add("new") == 2u);
}

// ------------------------------------------------------------------------------------- what is refused

struct Refusal {
  const char* what;  // part of the message, or "accepted"
  Instruction call;
  Kind argument = Kind::kInt64;
  bool may_be_null = false;
  std::vector<Kind> results = {Kind::kInt64, Kind::kFloat64};
};

BOOST_AUTO_TEST_CASE(calls_that_would_read_or_write_something_else) {
  const auto call = [](uint16_t aux, Register dst, Register a, uint32_t b, uint32_t c, uint32_t reasons = 0) {
    return Instruction{Op::kCall, aux, dst, a, b, c, reasons};
  };
  const Refusal cases[] = {
      {"accepted", call(0, 2, 0, 2, 2)},
      {"a function is not there", call(1, 2, 0, 2, 2)},
      {"a call has not its values", call(0, 2, 0, 1, 2)},
      {"a call has not its values", call(0, 2, 0, 2, 1)},
      {"a register is not there", call(0, 3, 0, 2, 2)},
      {"a register is not there", call(0, 2, 3, 2, 2)},
      {"may not have been written", call(0, 2, 1, 2, 2)},
      {"a register holds another type", call(0, 2, 0, 2, 2), Kind::kString},
      {"an argument may be null", call(0, 2, 0, 2, 2), Kind::kInt64, true},
      {"reasons are not there", call(0, 2, 0, 2, 2, 2 * kFailures)},
      {"a function has no known types", call(0, 2, 0, 2, 2), Kind::kInt64, false, {Kind::kInt64, Kind::kList}},
      {"a function has no known types", call(0, 2, 0, 2, 0), Kind::kInt64, false, {}},
  };
  for (const Refusal& one : cases) {
    Assembler assembler;
    const uint32_t a = assembler.Column(Kind::kInt64), b = assembler.Column(one.argument);
    assembler.Function({{Kind::kInt64, Kind::kInt64}, one.results});
    assembler.NewRegisters(4);
    TransactionText& text = assembler.NewTransaction();
    text.loads = {{0, a}, {1, b}};
    text.Add(Op::kNeed, 0, 0);
    if (!one.may_be_null) text.Add(Op::kNeed, 0, 1);
    text.instructions.push_back(one.call);
    text.Add(Op::kStop);
    const testing::Encoded encoded = assembler.Encode();
    Code code;
    const Status status = Code::Decode(encoded.words, encoded.strings, {}, &code);
    const std::string found = status.ok() ? "accepted" : status.message();
    BOOST_TEST(found.find(one.what) != std::string::npos, found << ", expected " << one.what);
  }
}

BOOST_AUTO_TEST_CASE(a_program_runs_only_with_its_functions) {
  Host host;
  Assembler assembler = Divisions(&host);
  for (UserFunction& one : assembler.functions) one.host = nullptr;
  BOOST_TEST(RunBatch(assembler, Batch(5, 5), {}, 1).status.message() == "a function is not linked");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
