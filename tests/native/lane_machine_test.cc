// The machine that runs many transactions at once does what the other one does with each of them: every operation, on
// extreme values and nulls, in a branch that some take, with its result where an operand was; and every way to end.
#include "program/lane_machine.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "assembler.h"
#include "bench/work.h"
#include "engine.h"
#include "functions.h"
#include "operands.h"
#include "program/arithmetic.h"
#include "program/signature.h"

namespace morphspark {
namespace {

using testing::Assembler;
using testing::Column;
using testing::kInfinity;
using testing::kLargest;
using testing::kMax;
using testing::kMin;
using testing::kNan;
using testing::Random;
using testing::Rows;
using testing::TransactionText;

constexpr int64_t kRows = 700;  // more than one chunk of lanes

// ------------------------------------------------------------------------------------------- comparing

std::string TextOf(const ColumnBuffers& column) {
  std::string text = std::to_string(column.length) + "," + std::to_string(column.null_count) + ":";
  for (const Buffer* buffer : {&column.validity, &column.values, &column.offsets}) {
    text.append(reinterpret_cast<const char*>(buffer->data()), buffer->size());
    text += '|';
  }
  return text;
}

// All that an epoch leaves, as bytes.
std::vector<std::string> Outcome(const Code& code, const std::vector<TableSpec>& specs,
                                 const std::vector<const Column*>& columns, const Strategy& strategy, int threads,
                                 std::optional<uint64_t> interleaving, uint64_t max_string_bytes) {
  Engine engine(specs, threads);
  const std::vector<ColumnView> views = testing::Views(columns);
  EpochInput input{&code, views, kRows, Late::kAdmit, std::nullopt, std::nullopt, max_string_bytes, nullptr};
  input.strategy = strategy;
  input.interleaving = interleaving;
  input.interleaved_workers = 3;
  input.lanes_min = 1;
  std::vector<std::string> outcome;
  for (int epoch = 0; epoch < 2; ++epoch) {  // the second finds rows that the first has left
    EpochResult result;
    const Status status = engine.Execute(input, &result);
    outcome.push_back(status.message());
    if (!status.ok()) continue;
    engine.Commit();
    for (const ColumnBuffers& column : result.returned) outcome.push_back(TextOf(column));
    outcome.push_back(TextOf(result.status));
    outcome.push_back(TextOf(result.reason));
    for (TableId id = 0; id < specs.size(); ++id) {
      const Table& table = engine.table(id);
      const std::vector<Slot> slots = table.LiveSlots();
      for (size_t part = 0; part < specs[id].key.size(); ++part)
        outcome.push_back(TextOf(table.ExportKey(part, slots)));
      for (ColumnId column = 0; column < specs[id].columns.size(); ++column)
        outcome.push_back(TextOf(table.ExportValues(column, slots)));
    }
  }
  return outcome;
}

std::set<Op> tried;  // by all cases of this file

void CheckSame(const std::string& what, const Assembler& assembler, const std::vector<TableSpec>& specs,
               const std::vector<const Column*>& columns, uint64_t max_string_bytes = 1 << 20) {
  const Code code = testing::Assemble(assembler, specs);
  for (const TransactionCode& one : code.transactions) {
    BOOST_REQUIRE(LaneMachine::CanRun(code, one));
    for (const Instruction& at : one.instructions) tried.insert(at.op);
  }
  const Strategy lanes = {Scheme::kExplore, Exploration::kBfs, Unit::kStratum};
  const auto expected = Outcome(code, specs, columns, {}, 1, std::nullopt, max_string_bytes);
  BOOST_REQUIRE((expected[0].empty() || expected[0].starts_with("a string grew")));
  BOOST_TEST((Outcome(code, specs, columns, lanes, 2, std::nullopt, max_string_bytes) == expected), what);
  BOOST_TEST((Outcome(code, specs, columns, lanes, 1, 7, max_string_bytes) == expected), what << ", interleaved");
}

// -------------------------------------------------------------------------------------------- operands

template <class T>
Rows<T> Picks(Random* random, const std::vector<T>& from, bool nulls) {
  Rows<T> rows;
  for (int64_t i = 0; i < kRows; ++i) {
    const bool null = nulls && (*random)() % 8 == 0;
    rows.push_back(null ? std::nullopt : std::optional<T>(from[(*random)() % from.size()]));
  }
  return rows;
}

Column RandomColumn(Kind kind, Random* random, bool nulls) {
  switch (kind) {
    case Kind::kBool:
      return testing::Bools(Picks<bool>(random, {true, false}, nulls));
    case Kind::kFloat64:
      return testing::Float64s(
          Picks<double>(random, {0.0, -0.0, 1, -1, 0.1, 2.5, -7, 1e308, -1e308, kInfinity, -kInfinity, kNan}, nulls));
    case Kind::kDecimal:
      return testing::Decimals(
          Picks<Int128>(random, {0, 1, -1, 7, -15, 100, 999'999'999'999, kLargest, -kLargest, kLargest / 10}, nulls));
    case Kind::kString:
      return testing::Strings(
          Picks<std::string>(random, {"", "a", "b", "ab", "\xC3\xA9", std::string(40, 'x')}, nulls));
    default:
      return testing::Int64s(
          Picks<int64_t>(random, {0, 1, -1, 2, -7, 1'000, 1LL << 31, -(1LL << 32), kMin, kMin + 1, kMax}, nulls));
  }
}

Kind KindOf(char letter) {
  switch (letter) {
    case 'b':
      return Kind::kBool;
    case 'f':
      return Kind::kFloat64;
    case 'd':
      return Kind::kDecimal;
    case 's':
      return Kind::kString;
    default:
      return Kind::kInt64;
  }
}

// -------------------------------------------------------------------------------------------- programs

enum class Place { kPlain, kInBranch, kOverOperand };

struct ValueOp {
  Op op;
  Kind result, a, b;  // kNull: none
  uint16_t aux = 0;
  int32_t c = 0;
};

void CheckOp(const ValueOp& one, Place place, bool nulls, Random* random) {
  if (place == Place::kOverOperand && one.result != one.a) return;
  Assembler assembler;
  const uint32_t flag_column = assembler.Column(Kind::kBool), a_column = assembler.Column(one.a),
                 b_column = assembler.Column(one.b == Kind::kNull ? one.a : one.b);
  const Register flag = assembler.NewRegister(), a = assembler.NewRegister(), b = assembler.NewRegister(),
                 fresh = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{flag, flag_column}, {a, a_column}, {b, b_column}};
  const Register dst = place == Place::kOverOperand ? a : fresh;
  uint32_t skip = 0;
  if (place == Place::kInBranch) {
    if (one.result != Kind::kNull) text.Add(Op::kSetNull, dst);
    skip = text.SkipUnless(flag, (*random)() % 2);
  }
  const uint32_t second = one.b == Kind::kNull ? 0 : b;
  text.Add(one.op, one.result == Kind::kNull ? 0 : dst, a, second,
           {.c = static_cast<uint32_t>(one.c), .aux = one.aux, .reasons = kFailures});
  if (place == Place::kInBranch) text.Patch(skip);
  if (one.result != Kind::kNull) text.Add(Op::kEmit, 0, dst, assembler.Returned(one.result));
  text.Add(Op::kEmit, 0, b, assembler.Returned(one.b == Kind::kNull ? one.a : one.b));
  text.Add(Op::kStop);
  const Column flags = RandomColumn(Kind::kBool, random, nulls), as = RandomColumn(one.a, random, nulls),
               bs = RandomColumn(one.b == Kind::kNull ? one.a : one.b, random, nulls);
  CheckSame("op " + std::to_string(static_cast<int>(one.op)) + " aux " + std::to_string(one.aux) + " place " +
                std::to_string(static_cast<int>(place)) + (nulls ? " with nulls" : ""),
            assembler, {}, {&flags, &as, &bs});
}

std::vector<ValueOp> ValueOps() {
  std::vector<ValueOp> ops;
  for (uint16_t i = 0; i <= static_cast<uint16_t>(Op::kWork); ++i) {
    const Op op = static_cast<Op>(i);
    const auto signature = verify::SignatureOf(op);
    if (!signature) continue;
    const auto kind = [](char letter) { return letter == '.' ? Kind::kNull : KindOf(letter); };
    const ValueOp one{op, kind(signature->dst), kind(signature->a), kind(signature->b)};
    switch (op) {
      case Op::kCompareI:
      case Op::kCompareF:
      case Op::kCompareD:
      case Op::kCompareS:
        for (uint16_t aux = 0; aux < 6; ++aux) {
          ops.push_back({op, one.result, one.a, one.b, aux, op == Op::kCompareD ? aux - 3 : 0});
        }
        break;
      case Op::kDivD:
        ops.push_back({op, one.result, one.a, one.b, 0, 6});
        break;
      case Op::kDecimalAssign:
        for (int32_t digits : {-3, 0, 3}) ops.push_back({op, one.result, one.a, one.b, 12, digits});
        break;
      case Op::kWork:
        for (uint16_t aux : {0, 1}) ops.push_back({op, one.result, one.a, one.b, aux, 5});
        break;
      default:
        ops.push_back(one);
    }
  }
  for (Kind kind : {Kind::kBool, Kind::kInt64, Kind::kFloat64, Kind::kDecimal, Kind::kString}) {
    ops.push_back({Op::kCopy, kind, kind, Kind::kNull});
    ops.push_back({Op::kIsNull, Kind::kBool, kind, Kind::kNull});
    ops.push_back({Op::kNeed, Kind::kNull, kind, Kind::kNull, kNull2});
  }
  ops.push_back({Op::kIntToFloat, Kind::kFloat64, Kind::kInt64, Kind::kNull});
  ops.push_back({Op::kRandom, Kind::kFloat64, Kind::kFloat64, Kind::kNull});
  ops.push_back({Op::kNow, Kind::kInt64, Kind::kInt64, Kind::kNull});
  ops.push_back({Op::kDecimalToFloat, Kind::kFloat64, Kind::kDecimal, Kind::kNull, 4});
  ops.push_back({Op::kDecimalUp, Kind::kDecimal, Kind::kDecimal, Kind::kNull, 2});
  ops.push_back({Op::kDecimalUp, Kind::kDecimal, Kind::kInt64, Kind::kNull, 20, 1});
  return ops;
}

BOOST_AUTO_TEST_SUITE(lanes)

BOOST_AUTO_TEST_CASE(every_operation_on_values) {
  Random random(81);
  for (const ValueOp& one : ValueOps()) {
    for (Place place : {Place::kPlain, Place::kInBranch, Place::kOverOperand}) {
      for (bool nulls : {false, true}) CheckOp(one, place, nulls, &random);
    }
  }
}

// where(flag, where(other, a, b), coalesce(a, b)), then a branch that nobody takes, and one that stops some.
BOOST_AUTO_TEST_CASE(branches_nest_and_meet) {
  for (bool nulls : {false, true}) {
    Assembler assembler;
    const uint32_t out = assembler.Returned(Kind::kString), last = assembler.Returned(Kind::kBool);
    std::vector<uint32_t> columns;
    for (Kind kind : {Kind::kBool, Kind::kBool, Kind::kString, Kind::kString}) {
      columns.push_back(assembler.Column(kind));
    }
    const Register never = assembler.Constant(testing::OfBool(false));
    const Register flag = assembler.NewRegisters(4), other = flag + 1, a = flag + 2, b = flag + 3,
                   dst = assembler.NewRegister(), inner = assembler.NewRegister();
    TransactionText& text = assembler.NewTransaction();
    for (uint32_t i = 0; i < 4; ++i) text.loads.push_back({flag + i, columns[i]});
    const uint32_t otherwise = text.SkipUnless(flag, true);
    text.Add(Op::kNeed, 0, other);
    const uint32_t second = text.SkipUnless(other, true);
    text.Add(Op::kCopy, inner, a);
    const uint32_t met = text.Add(Op::kJump);
    text.Patch(second);
    text.Add(Op::kCopy, inner, b);
    text.Patch(met);
    text.Add(Op::kCopy, dst, inner);
    const uint32_t end = text.Add(Op::kJump);
    text.Patch(otherwise);
    const uint32_t missing = text.Add(Op::kSkipIfNull, 0, a);
    text.Add(Op::kCopy, dst, a);
    const uint32_t found = text.Add(Op::kJump);
    text.Patch(missing);
    text.Add(Op::kCopy, dst, b);
    text.Patch(found);
    text.Patch(end);
    text.Add(Op::kEmit, 0, dst, out);
    const uint32_t skipped = text.SkipUnless(never, true);
    text.Add(Op::kRequire, 0, never);
    text.Patch(skipped);
    const uint32_t go_on = text.SkipUnless(other, true);
    text.Add(Op::kStop);
    text.Patch(go_on);
    text.Add(Op::kEmit, 0, other, last);
    text.Add(Op::kStop);
    Random random(82);
    const Column flags = RandomColumn(Kind::kBool, &random, nulls), others = RandomColumn(Kind::kBool, &random, nulls),
                 as = RandomColumn(Kind::kString, &random, nulls), bs = RandomColumn(Kind::kString, &random, nulls);
    CheckSame("branches", assembler, {}, {&flags, &others, &as, &bs});
  }
}

BOOST_AUTO_TEST_CASE(a_string_over_the_limit_ends_the_epoch) {
  Random random(83);
  Assembler assembler;
  const uint32_t column = assembler.Column(Kind::kString), out = assembler.Returned(Kind::kString);
  const Register a = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{a, column}};
  text.Add(Op::kConcat, a, a, a);
  text.Add(Op::kEmit, 0, a, out);
  text.Add(Op::kStop);
  const Column strings = RandomColumn(Kind::kString, &random, true);
  CheckSame("below", assembler, {}, {&strings}, 80);
  CheckSame("above", assembler, {}, {&strings}, 79);
  const Code code = testing::Assemble(assembler, {});
  const Strategy lanes = {Scheme::kExplore, Exploration::kBfs, Unit::kStratum};
  BOOST_TEST(Outcome(code, {}, {&strings}, lanes, 1, std::nullopt, 80)[0].empty());
  BOOST_TEST(!Outcome(code, {}, {&strings}, lanes, 1, std::nullopt, 79)[0].empty());
}

// In a branch that some take, with results where others keep what was there.
BOOST_AUTO_TEST_CASE(calls_of_user_functions) {
  for (bool nulls : {false, true}) {
    testing::Host host;
    Assembler assembler;
    const uint16_t divide = assembler.Function(testing::DivideFunction(true)),
                   letters = assembler.Function(testing::LettersFunction(&host));
    std::vector<uint32_t> columns;
    for (Kind kind : {Kind::kBool, Kind::kInt64, Kind::kInt64}) columns.push_back(assembler.Column(kind));
    const Register flag = assembler.NewRegisters(3), a = flag + 1, b = flag + 2, results = assembler.NewRegisters(2),
                   text_of = assembler.NewRegister();
    TransactionText& text = assembler.NewTransaction();
    for (uint32_t i = 0; i < 3; ++i) text.loads.push_back({flag + i, columns[i]});
    text.Add(Op::kSetNull, results);
    text.Add(Op::kSetNull, results + 1);
    text.Add(Op::kSetNull, text_of);
    const uint32_t skip = text.SkipUnless(flag, true);
    text.Add(Op::kNeed, 0, a);
    text.Add(Op::kNeed, 0, b);
    text.Add(Op::kCall, results, a, 2, {.c = 2, .aux = divide});
    text.Add(Op::kCall, text_of, a, 1, {.c = 1, .aux = letters});
    text.Patch(skip);
    text.Add(Op::kEmit, 0, results, assembler.Returned(Kind::kInt64));
    text.Add(Op::kEmit, 0, results + 1, assembler.Returned(Kind::kFloat64));
    text.Add(Op::kEmit, 0, text_of, assembler.Returned(Kind::kString));
    text.Add(Op::kStop);
    Random random(84);
    const Column flags = RandomColumn(Kind::kBool, &random, nulls), as = RandomColumn(Kind::kInt64, &random, nulls),
                 bs = RandomColumn(Kind::kInt64, &random, nulls);
    CheckSame("calls", assembler, {}, {&flags, &as, &bs});
    CheckSame("calls over the limit", assembler, {}, {&flags, &as, &bs}, 1);
  }
}

TableSpec TableOf(Kind kind, bool has_default) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {kind, Kind::kInt64};
  spec.has_default = has_default;
  if (has_default) {
    const Value zero = {.d = 0}, empty = {.s = {"", 0}};
    spec.defaults = {kind == Kind::kString ? empty : zero, zero};
  }
  spec.default_text.resize(spec.defaults.size());
  return spec;
}

struct RowOp {
  Op write;
  Op read;
  Kind kind;
};

// A write that some make, of a row that may be missing, a failure after it that some have, and a read of what is there
// then. Keys repeat, so there are several strata.
BOOST_AUTO_TEST_CASE(every_operation_on_rows) {
  const RowOp ops[] = {
      {Op::kWriteI, Op::kReadI, Kind::kInt64},      {Op::kWriteF, Op::kReadI, Kind::kFloat64},
      {Op::kWriteB, Op::kReadB, Kind::kBool},       {Op::kWriteS, Op::kReadS, Kind::kString},
      {Op::kWriteD, Op::kReadD, Kind::kDecimal},    {Op::kIncreaseI, Op::kReadI, Kind::kInt64},
      {Op::kDecreaseI, Op::kReadI, Kind::kInt64},   {Op::kIncreaseF, Op::kReadI, Kind::kFloat64},
      {Op::kDecreaseF, Op::kReadI, Kind::kFloat64}, {Op::kInsert, Op::kReadI, Kind::kInt64},
      {Op::kInsert, Op::kReadS, Kind::kString},     {Op::kInsert, Op::kReadD, Kind::kDecimal},
      {Op::kDelete, Op::kReadI, Kind::kInt64},      {Op::kCheckKey, Op::kExists, Kind::kInt64},
  };
  Random random(84);
  for (const RowOp& one : ops) {
    for (int variant = 0; variant < 8; ++variant) {
      const bool nulls = variant & 1, branch = variant & 2, has_default = variant & 4;
      Assembler assembler;
      const uint32_t key_column = assembler.Column(Kind::kInt64), value_column = assembler.Column(one.kind),
                     flag_column = assembler.Column(Kind::kBool), fine_column = assembler.Column(Kind::kBool);
      const Register number = assembler.Constant(testing::OfInt(77));
      const Register row = assembler.NewRegister(), value = assembler.NewRegister(), flag = assembler.NewRegister(),
                     fine = assembler.NewRegister(), seen = assembler.NewRegister();
      // Rows for the operation to find: half of the transactions make one.
      TransactionText& make = assembler.NewTransaction();
      make.on = {{flag_column, 0, {{Match::kBool, testing::OfBool(true)}}}};
      const SiteId site = assembler.NewSite(0, {key_column});
      const auto insert = [&](TransactionText& text) {
        text.Add(Op::kNeed, 0, value, 0, {.aux = kNull1});
        text.Add(Op::kInsert, 0, row, 0, {.reasons = kFailures});
        text.Add(Op::kStore, 0, row, value, {.c = 0});
        text.Add(Op::kStore, 0, row, number, {.c = 1});
      };
      make.loads = {{value, value_column}};
      make.Row(row, site);
      insert(make);
      make.Add(Op::kStop);
      TransactionText& text = assembler.NewTransaction();
      text.loads = {{value, value_column}, {flag, flag_column}, {fine, fine_column}};
      text.Row(row, site);
      text.Add(Op::kExists, seen, row);
      text.Add(Op::kEmit, 0, seen, assembler.Returned(Kind::kBool));
      const uint32_t skip = branch ? text.SkipUnless(fine, true) : 0;
      if (one.write == Op::kInsert) {
        insert(text);
      } else {
        const bool takes_value = one.write != Op::kDelete && one.write != Op::kCheckKey;
        text.Add(one.write, 0, row, takes_value ? value : 0, {.reasons = kFailures});
      }
      if (branch) text.Patch(skip);
      text.Add(Op::kRequire, 0, fine);
      text.Add(one.read, seen, row);
      text.Add(Op::kEmit, 0, seen, assembler.Returned(one.read == Op::kExists ? Kind::kBool : one.kind));
      text.Add(Op::kStop);
      std::vector<int64_t> keys;
      for (int64_t key = 0; key < 300; ++key) keys.push_back(key);
      const Column key = testing::Int64s(Picks<int64_t>(&random, keys, nulls)),
                   values = one.kind == Kind::kDecimal
                                ? testing::Decimals(Picks<Int128>(&random, {1, -5, 1'000'000}, nulls))
                                : RandomColumn(one.kind, &random, nulls),
                   flags = RandomColumn(Kind::kBool, &random, nulls), fines = RandomColumn(Kind::kBool, &random, nulls);
      CheckSame("row op " + std::to_string(static_cast<int>(one.write)) + " variant " + std::to_string(variant),
                assembler, {TableOf(one.kind, has_default)}, {&key, &values, &flags, &fines});
    }
  }
}

// Runs after the others: nothing was forgotten.
BOOST_AUTO_TEST_CASE(no_operation_was_left_out) {
  if (tried.empty()) return;
  const std::set<Op> not_for_lanes = {
      Op::kEach,   Op::kEnd,  Op::kRowOfElement, Op::kRowOfKey,     Op::kBegin,           Op::kAccumulate, Op::kReduce,
      Op::kWindow, Op::kRows, Op::kCollect,      Op::kWindowOfRows, Op::kCollectElements, Op::kChoose};
  for (uint16_t i = 0; i <= static_cast<uint16_t>(Op::kWork); ++i) {
    const bool expected = !not_for_lanes.contains(static_cast<Op>(i));
    BOOST_TEST(tried.contains(static_cast<Op>(i)) == expected, "op " << i);
  }
}

BOOST_AUTO_TEST_CASE(sums_that_vectorise_fail_where_checked_ones_do) {
  const int64_t numbers[] = {0, 1, -1, 2, kMin, kMin + 1, kMax, kMax - 1, 1LL << 62, -(1LL << 62)};
  for (int64_t a : numbers) {
    for (int64_t b : numbers) {
      int64_t sum, difference;
      BOOST_TEST((AddOverflow(a, b) < 0) == (Add(a, b, &sum) != kFine));
      BOOST_TEST((SubOverflow(a, b) < 0) == (Sub(a, b, &difference) != kFine));
      BOOST_TEST(WrappedAdd(a, b) == sum);
      BOOST_TEST(WrappedSub(a, b) == difference);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
