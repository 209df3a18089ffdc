// Decoding and verifying programs: whatever is accepted may run, so nothing unsafe may be accepted.
#include "program/code.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "assembler.h"
#include "engine.h"
#include "functions.h"

namespace morphspark {
namespace {

using testing::Assembler;
using testing::Column;
using testing::Encoded;
using testing::OfBool;
using testing::OfDecimal;
using testing::OfFloat;
using testing::OfInt;
using testing::OfNull;
using testing::OfString;
using testing::Random;
using testing::TransactionText;

// ------------------------------------------------------------------- a program that uses about everything

enum : TableId { kAccounts, kNames };

std::vector<TableSpec> SampleTables() {
  TableSpec accounts;
  accounts.key = {Kind::kInt64};
  accounts.columns = {Kind::kInt64, Kind::kString, Kind::kDecimal};
  accounts.has_default = true;
  accounts.default_text = {"", "none", ""};
  accounts.defaults = {testing::IntValue(0), testing::IntValue(0), testing::DecimalValue(0)};
  TableSpec names;
  names.key = {Kind::kString, Kind::kInt64};
  names.columns = {Kind::kString, Kind::kFloat64, Kind::kBool};
  return {accounts, names};
}

struct SampleColumns {
  Column ts = testing::Int64s({3, 1, {}, 2, 5, 4, 6, 6, 7, 9});
  Column kind = testing::Strings({"pay", "loop", "pay", {}, "pay", "loop", "loop", "pay", "loop", "pay"});
  Column id = testing::Int64s({1, 2, 3, {}, 5, 1, 2, 9, 9, INT64_MAX});
  Column name = testing::Strings({"ann", "bob", {}, "", "a name that is longer than most", "ann", "bob", "x", "y", ""});
  Column amount = testing::Decimals({100, -100, {}, 5, 995, 1, 2, 3, 4, 5});
  Column rate = testing::Float64s({0.5, 0.0, 1.5, {}, -2.0, 1.0, 2.0, 3.0, 4.0, 5.0});
  Column flag = testing::Bools({true, false, true, {}, true, false, true, true, false, true});
  Column ids = testing::Lists(testing::Int64s({1, 2, 3, 4, {}, 1, 2}), {2, 1, 0, {}, 0, 2, 0, 0, 2, 0});
  Column xs = testing::Lists(testing::Float64s({1.0, 0.5, {}, 2.0, 3.0, 4.0, 5.0}), {2, 1, 0, {}, 0, 2, 0, 0, 2, 0});
  Column nothing = testing::Nulls(10);

  std::vector<ColumnView> Views() const {
    return testing::Views({&ts, &kind, &id, &name, &amount, &rate, &flag, &ids, &xs, &nothing});
  }
};
enum : uint32_t { kTs, kKind, kId, kName, kAmount, kRate, kFlag, kIds, kXs, kNothing };

constexpr auto Aux(Comparison comparison) { return static_cast<uint16_t>(comparison); }

void AddPayment(Assembler* assembler, Register one, Register tail, Register cents) {
  const Register id = assembler->NewRegister(), name = assembler->NewRegister(), amount = assembler->NewRegister(),
                 rate = assembler->NewRegister(), flag = assembler->NewRegister(), row = assembler->NewRegister(),
                 first = assembler->NewRegister(), balance = assembler->NewRegister(), sum = assembler->NewRegister(),
                 large = assembler->NewRegister(), when = assembler->NewRegister(), note = assembler->NewRegister(),
                 exact = assembler->NewRegister(), total = assembler->NewRegister(), stored = assembler->NewRegister(),
                 more = assembler->NewRegister(), factor = assembler->NewRegister(), nothing = assembler->NewRegister();
  TransactionText& text = assembler->NewTransaction();
  text.on = {{kKind, 0, {{Match::kString, OfString("pay")}}}};
  text.loads = {{id, kId}, {name, kName}, {amount, kAmount}, {rate, kRate}, {flag, kFlag}, {nothing, kNothing}};
  text.Row(row, assembler->NewSite(kAccounts, {kId}));
  text.Row(first, assembler->NewSite(kAccounts, {kConstantPart | one}));
  text.Add(Op::kReadI, balance, row, 0, {.c = 0, .aux = kAccounts});
  text.Add(Op::kAddI, sum, balance, id);
  text.Add(Op::kWriteI, 0, row, sum, {.c = 0, .aux = kAccounts});
  text.Add(Op::kIncreaseI, 0, first, id, {.c = 0, .aux = kAccounts, .reasons = kFailures});
  text.Add(Op::kCompareI, large, sum, one, {.aux = Aux(Comparison::kGt)});
  text.Add(Op::kWhen, when, flag);
  // A value made under a guard ...
  const uint32_t skip = text.SkipUnless(when, true);
  text.Add(Op::kReadS, note, row, 0, {.c = 1, .aux = kAccounts});
  text.Add(Op::kConcat, note, note, name);
  text.Add(Op::kConcat, note, note, tail);
  text.Add(Op::kWriteS, 0, row, note, {.c = 1, .aux = kAccounts});
  text.Patch(skip);
  text.Add(Op::kRequire, 0, large);
  // ... and read under the same one.
  const uint32_t again = text.SkipUnless(when, true);
  text.Add(Op::kEmit, 0, note, 0);
  text.Patch(again);
  text.Add(Op::kNeed, 0, amount, 0, {.aux = kNull2});
  text.Add(Op::kDecimalUp, exact, id, 0, {.c = 1, .aux = 2});
  text.Add(Op::kAddD, total, amount, exact);
  text.Add(Op::kCompareD, more, total, cents, {.c = 1, .aux = Aux(Comparison::kGe)});
  text.Add(Op::kDecimalAssign, stored, total, 0, {.c = static_cast<uint32_t>(-1), .aux = 18});
  text.Add(Op::kWriteD, 0, row, stored, {.c = 2, .aux = kAccounts});
  text.Add(Op::kReadD, stored, row, 0, {.c = 2, .aux = kAccounts});
  text.Add(Op::kDecimalToFloat, factor, stored, 0, {.aux = 1});
  // where(more, rate / factor, coalesce(nothing, rate))
  const uint32_t other = text.SkipUnless(more, true);
  text.Add(Op::kDivF, factor, rate, factor);
  const uint32_t end = text.Add(Op::kJump);
  text.Patch(other);
  const uint32_t null = text.Add(Op::kSkipIfNull, 0, nothing);
  text.Add(Op::kCopy, factor, nothing);
  const uint32_t found = text.Add(Op::kJump);
  text.Patch(null);
  text.Add(Op::kCopy, factor, rate);
  text.Patch(found);
  text.Patch(end);
  text.Add(Op::kEmit, 0, factor, 1);
  const Register given = assembler->NewRegisters(2), results = assembler->NewRegisters(2);
  text.Add(Op::kCopy, given, id);
  text.Add(Op::kCopy, given + 1, amount);
  text.Add(Op::kCall, results, given, 2, {.c = 2, .aux = 0});
  text.Add(Op::kEmit, 0, results, 0);
  text.Add(Op::kEmit, 0, results + 1, 2);
  text.Add(Op::kStop);
}

void AddLoop(Assembler* assembler, Register half, Register truth) {
  const Register name = assembler->NewRegister(), element = assembler->NewRegister(), x = assembler->NewRegister(),
                 inner = assembler->NewRegister(), row = assembler->NewRegister(), balance = assembler->NewRegister(),
                 sum = assembler->NewRegister(), most = assembler->NewRegister(), parts = assembler->NewRegisters(2),
                 target = assembler->NewRegister(), exists = assembler->NewRegister(),
                 scaled = assembler->NewRegister();
  TransactionText& text = assembler->NewTransaction();
  text.on = {{kFlag, 0, {{Match::kBool, OfBool(true)}, {Match::kBool, OfBool(false)}}}};
  text.loads = {{name, kName}};
  const SiteId site = assembler->NewSite(kAccounts, {kIds}, true);
  text.sites = {site};
  text.accumulators = {{Reduction::kSum, Kind::kFloat64, 0}, {Reduction::kMax, Kind::kInt64, 0}};
  text.Add(Op::kBegin, 0, 0);
  text.Add(Op::kBegin, 0, 1);
  const uint32_t outer = text.BeginLoop({kIds, kXs}, {{element, 0}, {x, 1}});
  text.Add(Op::kRowOfElement, row, site, outer, {.c = 0});
  text.Add(Op::kReadI, balance, row, 0, {.c = 0, .aux = kAccounts});
  text.Add(Op::kAccumulate, 0, balance, 1);
  const uint32_t skip = text.Add(Op::kSkipIfNull, 0, x);
  text.Add(Op::kMulF, scaled, x, half);
  text.Add(Op::kAccumulate, 0, scaled, 0);
  const uint32_t nested = text.BeginLoop({kIds}, {{inner, 0}});
  text.Add(Op::kIncreaseI, 0, row, inner, {.c = 0, .aux = kAccounts});
  text.EndLoop(nested);
  text.Patch(skip);
  text.EndLoop(outer);
  text.Add(Op::kReduce, sum, 0);
  text.Add(Op::kReduce, most, 1);
  text.Add(Op::kEmit, 0, sum, 1);
  text.Add(Op::kEmit, 0, most, 2);
  text.Add(Op::kCopy, parts, name);
  text.Add(Op::kCopy, parts + 1, most);
  text.Add(Op::kRowOfKey, target, parts, 2, {.aux = kNames});
  text.Add(Op::kExists, exists, target, 0, {.aux = kNames});
  const uint32_t there = text.SkipUnless(exists, false);
  text.Add(Op::kCheckKey, 0, target);
  text.Add(Op::kNeed, 0, name);
  text.Add(Op::kInsert, 0, target, 0, {.aux = kNames});
  text.Add(Op::kStore, 0, target, name, {.c = 0, .aux = kNames});
  text.Add(Op::kStore, 0, target, half, {.c = 1, .aux = kNames});
  text.Add(Op::kStore, 0, target, truth, {.c = 2, .aux = kNames});
  text.Patch(there);
  const uint32_t absent = text.SkipUnless(exists, true);
  text.Add(Op::kDelete, 0, target, 0, {.aux = kNames});
  text.Patch(absent);
  text.Add(Op::kStop);
}

Assembler Sample() {
  Assembler assembler;
  for (Kind kind :
       {Kind::kInt64, Kind::kString, Kind::kInt64, Kind::kString, Kind::kDecimal, Kind::kFloat64, Kind::kBool}) {
    assembler.Column(kind);
  }
  assembler.Column(Kind::kList, Kind::kInt64);
  assembler.Column(Kind::kList, Kind::kFloat64);
  assembler.Column(Kind::kNull);
  assembler.order_columns = {kTs};
  assembler.Function({{Kind::kInt64, Kind::kDecimal}, {Kind::kString, Kind::kInt64}, /*nullable=*/true});
  for (Kind kind : {Kind::kString, Kind::kFloat64, Kind::kInt64}) assembler.Returned(kind);
  const Register one = assembler.Constant(OfInt(1)), tail = assembler.Constant(OfString("tail")),
                 cents = assembler.Constant(OfDecimal(250)), half = assembler.Constant(OfFloat(0.5)),
                 truth = assembler.Constant(OfBool(true));
  assembler.Constant(OfNull());
  AddPayment(&assembler, one, tail, cents);
  AddLoop(&assembler, half, truth);
  return assembler;
}

Status Decode(const Encoded& encoded, Code* code) {
  static const std::vector<TableSpec> specs = SampleTables();
  return Code::Decode(encoded.words, encoded.strings, testing::Pointers(specs), code);
}

// Two epochs of an accepted program: one is committed, one taken back.
struct Ran {
  int64_t committed = 0, aborted = 0, unmatched = 0;
  uint64_t rows = 0;
};
Ran RunAccepted(const Code& accepted) {
  Code code = accepted;
  for (UserFunction& function : code.functions) {
    function.host = testing::Anything;
    function.context = &function;
  }
  static const SampleColumns columns;
  const std::vector<ColumnView> views = columns.Views();
  Engine engine(SampleTables(), 1);
  Ran ran;
  for (bool commit : {true, false}) {
    EpochInput input{&code, views, 10, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
    EpochResult result;
    const Status status = engine.Execute(input, &result);
    if (status.ok() && commit) {
      engine.Commit();
      ran = {result.committed, result.aborted, result.unmatched, engine.state_rows()};
    } else {
      engine.Rollback();
    }
    BOOST_REQUIRE(engine.Validate());
  }
  return ran;
}

BOOST_AUTO_TEST_SUITE(code)

BOOST_AUTO_TEST_CASE(the_sample_is_accepted_and_does_something) {
  Code code;
  const Status status = Decode(Sample().Encode(), &code);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.message());
  const Ran ran = RunAccepted(code);
  // Aborted are those that are too small, have a null element, a null key, an overflow or no ts.
  BOOST_TEST(ran.committed == 4);
  BOOST_TEST(ran.aborted == 5);
  BOOST_TEST(ran.unmatched == 1);
  BOOST_TEST(ran.rows == 6u);  // accounts 1, 2, 5 and 9, and two names
}

// --------------------------------------------------------------------------------------------- mutations

BOOST_AUTO_TEST_CASE(a_program_of_another_length_is_refused) {
  const Encoded whole = Sample().Encode();
  Code code;
  for (size_t size = 0; size < whole.words.size(); ++size) {
    Encoded cut = whole;
    cut.words.resize(size);
    BOOST_REQUIRE(!Decode(cut, &code).ok());
  }
  Encoded longer = whole;
  longer.words.push_back(0);
  BOOST_TEST(!Decode(longer, &code).ok());
  Encoded fewer = whole;
  fewer.strings.pop_back();
  BOOST_TEST(!Decode(fewer, &code).ok());
}

class Fuzz {
 public:
  // Decodes, and runs what is accepted: the sanitizers say whether it should have been.
  void Try(const Encoded& encoded) {
    ++tried;
    Code code;
    if (!Decode(encoded, &code).ok()) return;
    ++accepted;
    RunAccepted(code);
  }
  int64_t tried = 0, accepted = 0;
};

BOOST_AUTO_TEST_CASE(every_word_changed_is_refused_or_runs_safely) {
  const Encoded whole = Sample().Encode();
  Fuzz fuzz;
  for (size_t at = 0; at < whole.words.size(); ++at) {
    const int64_t word = whole.words[at];
    for (int64_t changed : {word + 1, word - 1, word + 2, word ^ 8, int64_t{0}, int64_t{1}, int64_t{3}, int64_t{7},
                            int64_t{13}, int64_t{40}, int64_t{65'536}, int64_t{UINT32_MAX}, INT64_MAX, INT64_MIN}) {
      if (changed == word) continue;
      Encoded mutated = whole;
      mutated.words[at] = changed;
      fuzz.Try(mutated);
    }
  }
  BOOST_TEST_MESSAGE("accepted " << fuzz.accepted << " of " << fuzz.tried);
  BOOST_TEST(fuzz.accepted > 200);  // else the test would test nothing
}

BOOST_AUTO_TEST_CASE(random_changes_are_refused_or_run_safely) {
  const Encoded whole = Sample().Encode();
  Random random(41);
  Fuzz fuzz;
  for (int round = 0; round < 8'000; ++round) {
    Encoded mutated = whole;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      int64_t& word = mutated.words[random() % mutated.words.size()];
      switch (random() % 4) {
        case 0:
          word = static_cast<int64_t>(random() % 64);
          break;
        case 1:
          word += static_cast<int64_t>(random() % 9) - 4;
          break;
        case 2:
          word ^= int64_t{1} << random() % 20;
          break;
        default:
          word = mutated.words[random() % mutated.words.size()];
      }
    }
    fuzz.Try(mutated);
  }
  BOOST_TEST_MESSAGE("accepted " << fuzz.accepted << " of " << fuzz.tried);
  BOOST_TEST(fuzz.accepted > 100);
}

// The field of an instruction, from the words' point of view, is where most mistakes would be.
BOOST_AUTO_TEST_CASE(changed_instructions_are_refused_or_run_safely) {
  const Assembler whole = Sample();
  Random random(42);
  Fuzz fuzz;
  for (int round = 0; round < 8'000; ++round) {
    Assembler mutated = whole;
    auto& instructions = mutated.transactions[random() % 2].instructions;
    const int changes = 1 + static_cast<int>(random() % 2);
    for (int i = 0; i < changes; ++i) {
      Instruction& one = instructions[random() % instructions.size()];
      const auto any = static_cast<Register>(random() % mutated.registers);
      switch (random() % 9) {
        case 0:
          one.op = static_cast<Op>(random() % (static_cast<uint64_t>(Op::kEmit) + 1));
          break;
        case 1:
          one.dst = any;
          break;
        case 2:
          one.a = any;
          break;
        case 3:
          one.b = any;
          break;
        case 4:
          one.c = static_cast<uint32_t>(random() % 4) - 1;
          break;
        case 5:
          one.aux = static_cast<uint16_t>(random() % 20);
          break;
        case 6:
          one.reasons = static_cast<uint32_t>(random() % 12);
          break;
        case 7:
          std::swap(one, instructions[random() % instructions.size()]);
          break;
        default:
          instructions.insert(instructions.begin() + static_cast<int64_t>(random() % instructions.size()), one);
      }
    }
    fuzz.Try(mutated.Encode());
  }
  BOOST_TEST_MESSAGE("accepted " << fuzz.accepted << " of " << fuzz.tried);
  BOOST_TEST(fuzz.accepted > 100);
}

// ------------------------------------------------------------------------------------- what is refused

// A program of one transaction; `write` appends its instructions.
std::string Verdict(const std::function<void(Assembler*, TransactionText*)>& write) {
  Assembler assembler = Sample();
  assembler.transactions.clear();
  TransactionText& text = assembler.NewTransaction();
  write(&assembler, &text);
  text.Add(Op::kStop);
  Code code;
  const Status status = Decode(assembler.Encode(), &code);
  if (status.ok()) RunAccepted(code);
  return status.ok() ? "accepted" : status.message();
}

struct RefusedCase {
  const char* what;  // part of the message, or "accepted"
  std::function<void(Assembler*, TransactionText*)> write;
};

BOOST_AUTO_TEST_CASE(registers_are_written_before_they_are_read_and_keep_their_type) {
  enum : Register {
    kOne = 0,
    kTail = 1,
    kCents = 2,
    kTrue = 4,
    kNull = 5,
    kR = 6
  };  // constants of the sample, then free
  const RefusedCase cases[] = {
      {"may not have been written", [](auto, auto t) { t->Add(Op::kAddI, kR, kR, kOne); }},
      {"holds another type", [](auto, auto t) { t->Add(Op::kAddI, kR, kOne, kTail); }},
      {"holds another type", [](auto, auto t) { t->Add(Op::kConcat, kR, kTail, kOne); }},
      {"holds another type", [](auto, auto t) { t->Add(Op::kAddD, kR, kCents, kOne); }},
      {"holds another type", [](auto, auto t) { t->Add(Op::kRequire, 0, kOne); }},
      {"can't be written", [](auto, auto t) { t->Add(Op::kCopy, kOne, kTail); }},
      {"can't be written", [](auto, auto t) { t->loads = {{kTrue, kName}}; }},
      {"is not there", [](auto a, auto t) { t->Add(Op::kCopy, kR, a->registers); }},
      {"accepted", [](auto, auto t) { t->Add(Op::kAddI, kR, kOne, kNull); }},  // it fails, always
      {"accepted",
       [](auto, auto t) {
         t->Add(Op::kNeed, 0, kNull);
         t->Add(Op::kAddI, kR, kR, kTail);  // nobody comes here
       }},
      {"holds another type",
       [](auto, auto t) {
         t->loads = {{kR, kFlag}};
         const uint32_t skip = t->SkipUnless(kR, true);
         t->Add(Op::kCopy, kR + 1, kOne);
         const uint32_t end = t->Add(Op::kJump);
         t->Patch(skip);
         t->Add(Op::kCopy, kR + 1, kOne);
         t->Patch(end);
         t->Add(Op::kConcat, kR + 2, kR + 1, kTail);
       }},
      {"may not have been written",  // an integer on one way, a string on the other
       [](auto, auto t) {
         t->loads = {{kR, kFlag}};
         const uint32_t skip = t->SkipUnless(kR, true);
         t->Add(Op::kCopy, kR + 1, kOne);
         const uint32_t end = t->Add(Op::kJump);
         t->Patch(skip);
         t->Add(Op::kCopy, kR + 1, kTail);
         t->Patch(end);
         t->Add(Op::kCopy, kR + 2, kR + 1);
       }},
  };
  for (const RefusedCase& one : cases) {
    const std::string verdict = Verdict(one.write);
    BOOST_TEST(verdict.find(one.what) != std::string::npos, one.what << ": " << verdict);
  }
}

BOOST_AUTO_TEST_CASE(what_is_made_under_a_guard_is_read_under_it_only) {
  enum : Register { kOne = 0, kFlagAt = 6, kOther, kValue, kResult };
  const auto under = [](TransactionText* t, std::vector<std::pair<Register, bool>> guard, const auto& body) {
    std::vector<uint32_t> skips;
    for (const auto& [condition, wanted] : guard) skips.push_back(t->SkipUnless(condition, wanted));
    body();
    for (uint32_t skip : skips) t->Patch(skip);
  };
  using Guard = std::vector<std::pair<Register, bool>>;
  const Guard always = {}, yes = {{kFlagAt, true}}, no = {{kFlagAt, false}}, both = {{kFlagAt, true}, {kOther, true}},
              swapped = {{kOther, true}, {kFlagAt, true}}, other = {{kOther, true}};
  struct {
    const char* what;
    Guard made, read;
  } const cases[] = {
      {"accepted", always, yes},
      {"accepted", yes, yes},
      {"accepted", yes, both},
      {"accepted", both, both},
      {"accepted", both, swapped},
      {"accepted", no, no},
      {"under another condition", yes, always},
      {"under another condition", yes, no},
      {"under another condition", no, yes},
      {"under another condition", both, yes},
      {"under another condition", both, other},
      {"under another condition", yes, other},
  };
  for (const auto& one : cases) {
    const std::string verdict = Verdict([&](Assembler* a, TransactionText* t) {
      t->loads = {{kFlagAt, kFlag}};
      t->Add(Op::kIsNull, kOther, kFlagAt);
      under(t, one.made, [&] { t->Add(Op::kCopy, kValue, kOne); });
      t->Add(Op::kCopy, kResult, kOne);
      under(t, one.read, [&] { t->Add(Op::kAddI, kResult, kValue, kOne); });
      a->registers = std::max<uint32_t>(a->registers, kResult + 1);
    });
    BOOST_TEST(verdict.find(one.what) != std::string::npos, one.what << ": " << verdict);
  }
  // A condition that is written anew says nothing of what was made under the old one.
  const std::string renewed = Verdict([&](Assembler*, TransactionText* t) {
    t->loads = {{kFlagAt, kFlag}};
    under(t, yes, [&] { t->Add(Op::kCopy, kValue, kOne); });
    t->Add(Op::kIsNull, kFlagAt, kOne);
    under(t, yes, [&] { t->Add(Op::kCopy, kResult, kValue); });
  });
  BOOST_TEST(renewed.find("may not have been written") != std::string::npos, renewed);
  // In a loop: what the iteration before has made is not there.
  const std::string looped = Verdict([&](Assembler*, TransactionText* t) {
    const uint32_t loop = t->BeginLoop({kIds}, {{kOther, 0}});
    t->Add(Op::kIsNull, kFlagAt, kOther);
    under(t, yes, [&] { t->Add(Op::kAddI, kResult, kValue, kOne); });
    t->Add(Op::kCopy, kValue, kOne);
    t->EndLoop(loop);
  });
  BOOST_TEST(looped.find("may not have been written") != std::string::npos, looped);
  const std::string after = Verdict([&](Assembler*, TransactionText* t) {
    const uint32_t loop = t->BeginLoop({kIds}, {{kOther, 0}});
    t->EndLoop(loop);
    t->Add(Op::kCopy, kValue, kOther);  // there may have been no element
  });
  BOOST_TEST(after.find("may not have been written") != std::string::npos, after);
}

BOOST_AUTO_TEST_CASE(jumps_lead_forward_and_stay_in_their_loop) {
  enum : Register { kOne = 0, kTrue = 4, kR = 6 };
  const RefusedCase cases[] = {
      {"leads back", [](auto, auto t) { t->Add(Op::kJump, 0, 0); }},
      {"leads back",
       [](auto, auto t) {
         t->Add(Op::kCopy, kR, kOne);
         t->Add(Op::kSkipUnless, 0, kTrue, 0);
       }},
      {"leads back or away", [](auto, auto t) { t->Add(Op::kJump, 0, 99); }},
      {"into or out of a loop",
       [](auto, auto t) {
         t->Add(Op::kJump, 0, 2);
         const uint32_t loop = t->BeginLoop({kIds}, {});
         t->Add(Op::kCopy, kR, kOne);
         t->EndLoop(loop);
       }},
      {"into or out of a loop",
       [](auto, auto t) {
         const uint32_t loop = t->BeginLoop({kIds}, {});
         t->Add(Op::kJump, 0, 3);
         t->EndLoop(loop);
       }},
      {"has not begun", [](auto, auto t) { t->Add(Op::kEnd, 0, 0); }},
      {"does not end", [](auto, auto t) { t->BeginLoop({kIds}, {}); }},
      {"somewhere else",
       [](auto, auto t) {
         const uint32_t loop = t->BeginLoop({kIds}, {});
         t->EndLoop(loop);
         t->loops[0].body = 0;
       }},
      {"somewhere else",
       [](auto, auto t) {
         const uint32_t loop = t->BeginLoop({kIds}, {});
         t->EndLoop(loop);
         t->loops[0].after = 0;
       }},
      {"has not begun",  // crossed, not nested
       [](auto, auto t) {
         const uint32_t outer = t->BeginLoop({kIds}, {}), inner = t->BeginLoop({kXs}, {});
         t->EndLoop(outer);
         t->EndLoop(inner);
       }},
      {"has no list",
       [](auto, auto t) {
         const uint32_t loop = t->BeginLoop({kId}, {});
         t->EndLoop(loop);
       }},
      {"accepted",
       [](auto, auto t) {
         const uint32_t loop = t->BeginLoop({kNothing}, {{kR, 0}});
         t->EndLoop(loop);
       }},
  };
  for (const RefusedCase& one : cases) {
    const std::string verdict = Verdict(one.write);
    BOOST_TEST(verdict.find(one.what) != std::string::npos, one.what << ": " << verdict);
  }
}

BOOST_AUTO_TEST_CASE(rows_belong_to_their_table_and_inserts_are_whole) {
  enum : Register { kOne = 0, kTail = 1, kCents = 2, kHalf = 3, kTrue = 4, kR = 6, kRow = 7 };
  enum : SiteId { kByColumn, kByConstant, kByElement };  // of the sample
  const auto insert = [](TransactionText* t) {
    t->Row(kRow, kByColumn);
    t->Add(Op::kInsert, 0, kRow, 0, {.aux = kAccounts});
    t->Add(Op::kStore, 0, kRow, kOne, {.c = 0, .aux = kAccounts});
    t->Add(Op::kStore, 0, kRow, kTail, {.c = 1, .aux = kAccounts});
    t->Add(Op::kStore, 0, kRow, kCents, {.c = 2, .aux = kAccounts});
  };
  const RefusedCase cases[] = {
      {"accepted", [&](auto, auto t) { insert(t); }},
      {"no row of this table",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kDelete, 0, kRow, 0, {.aux = kNames});
       }},
      {"no row of this table", [](auto, auto t) { t->Add(Op::kDelete, 0, kOne, 0, {.aux = kAccounts}); }},
      {"a table is not there",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kDelete, 0, kRow, 0, {.aux = 2});
       }},
      {"a row is no value",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kCopy, kR, kRow);
       }},
      {"not resolved", [](auto, auto t) { t->rows = {{kRow, kByColumn}}; }},
      {"named by an element", [](auto, auto t) { t->Row(kRow, kByElement); }},
      {"outside of its loop",
       [](auto, auto t) {
         t->sites = {kByElement};
         const uint32_t loop = t->BeginLoop({kIds}, {});
         t->EndLoop(loop);
         t->Add(Op::kRowOfElement, kRow, kByElement, loop);
       }},
      {"a column has another type",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kReadS, kR, kRow, 0, {.c = 0, .aux = kAccounts});
       }},
      {"a column is not there",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kReadI, kR, kRow, 0, {.c = 3, .aux = kAccounts});
       }},
      {"holds another type",
       [](auto, auto t) {
         t->Row(kRow, kByColumn);
         t->Add(Op::kWriteI, 0, kRow, kTail, {.c = 0, .aux = kAccounts});
       }},
      {"has not the parts", [](auto, auto t) { t->Add(Op::kRowOfKey, kRow, kTail, 1, {.aux = kNames}); }},
      {"holds another type", [](auto, auto t) { t->Add(Op::kRowOfKey, kRow, kOne, 2, {.aux = kNames}); }},
      {"before its last column",
       [&](auto, auto t) {
         insert(t);
         t->instructions.pop_back();
       }},
      {"without an insert",
       [&](auto, auto t) {
         insert(t);
         t->instructions.erase(t->instructions.begin());
       }},
      {"out of turn",
       [&](auto, auto t) {
         insert(t);
         std::swap(t->instructions[1], t->instructions[2]);
       }},
      {"may become null",
       [&](auto, auto t) {
         t->loads = {{kR, kId}};
         insert(t);
         t->instructions[1].b = kR;
       }},
      {"behind its beginning",
       [&](auto, auto t) {
         t->Add(Op::kSkipIfNull, 0, kR, 3);
         t->loads = {{kR, kId}};
         insert(t);
       }},
  };
  for (const RefusedCase& one : cases) {
    const std::string verdict = Verdict(one.write);
    BOOST_TEST(verdict.find(one.what) != std::string::npos, one.what << ": " << verdict);
  }
}

BOOST_AUTO_TEST_CASE(reductions_begin_and_failures_have_reasons) {
  enum : Register { kOne = 0, kR = 6 };
  const RefusedCase cases[] = {
      {"may not have been written",
       [](auto, auto t) {
         t->accumulators = {{Reduction::kSum, Kind::kInt64, 0}};
         t->Add(Op::kReduce, kR, 0);
       }},
      {"holds another type",
       [](auto, auto t) {
         t->accumulators = {{Reduction::kSum, Kind::kFloat64, 0}};
         t->Add(Op::kBegin, 0, 0);
         t->Add(Op::kAccumulate, 0, kOne, 0);
       }},
      {"has no numbers", [](auto, auto t) { t->accumulators = {{Reduction::kSum, Kind::kString, 0}}; }},
      {"is not there", [](auto, auto t) { t->Add(Op::kBegin, 0, 0); }},
      {"has no such scale", [](auto, auto t) { t->accumulators = {{Reduction::kMean, Kind::kDecimal, -1}}; }},
  };
  for (const RefusedCase& one : cases) {
    const std::string verdict = Verdict(one.write);
    BOOST_TEST(verdict.find(one.what) != std::string::npos, one.what << ": " << verdict);
  }
  // The reason of an overflow is taken away: 0 would mean that nothing failed.
  Assembler assembler = Sample();
  Encoded encoded = assembler.Encode();
  Code code;
  bool refused = false;
  for (size_t at = 0; at + 1 < encoded.words.size() && !refused; ++at) {
    if (encoded.words[at] != kOverflow + 1 || encoded.words[at + 1] != kDivision + 1) continue;
    encoded.words[at] = 0;
    const Status status = Decode(encoded, &code);
    BOOST_TEST(status.message().find("a failure has no reason") != std::string::npos, status.message());
    refused = true;
  }
  BOOST_TEST(refused);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
