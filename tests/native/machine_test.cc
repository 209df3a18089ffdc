// The register machine: control, reductions, state and strings. Operations on values are in operation_test.cc.
#include "program/machine.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "assembler.h"
#include "operands.h"

namespace morphspark {
namespace {

using testing::Assembler;
using testing::B;
using testing::Column;
using testing::D;
using testing::Expected;
using testing::F;
using testing::I;
using testing::kInfinity;
using testing::kLargest;
using testing::kMax;
using testing::kMin;
using testing::kNan;
using testing::N;
using testing::OfInt;
using testing::OfString;
using testing::Operand;
using testing::ReadResult;
using testing::Rows;
using testing::S;
using testing::Show;
using testing::Stage;
using testing::TransactionText;

BOOST_AUTO_TEST_SUITE(machine)

// ------------------------------------------------------------------------------------------------- control

BOOST_AUTO_TEST_CASE(skips_and_jumps) {
  // where(flag, a, b), as lower_steps.py writes it; flag may be null.
  Assembler assembler;
  const uint32_t flag = assembler.Column(Kind::kBool), a = assembler.Column(Kind::kInt64),
                 b = assembler.Column(Kind::kInt64), out = assembler.Returned(Kind::kInt64);
  const Register rf = assembler.NewRegister(), ra = assembler.NewRegister(), rb = assembler.NewRegister(),
                 dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{rf, flag}, {ra, a}, {rb, b}};
  text.Add(Op::kNeed, 0, rf);
  const uint32_t skip = text.SkipUnless(rf, true);
  text.Add(Op::kCopy, dst, ra);
  const uint32_t end = text.Add(Op::kJump);
  text.Patch(skip);
  text.Add(Op::kCopy, dst, rb);
  text.Patch(end);
  text.Add(Op::kEmit, 0, dst, out);
  text.Add(Op::kStop);
  const Column flags = testing::Bools({true, false, {}, true});
  const Column as = testing::Int64s({1, 2, 3, {}}), bs = testing::Int64s({10, 20, 30, 40});
  Stage stage(assembler, {});
  const auto result = stage.Run({&flags, &as, &bs}, 4);
  BOOST_TEST((result.reasons == std::vector<std::string>{"", "", "null0", ""}));
  BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kInt64)) == Rows<int64_t>{1, 20, {}, {}}));
}

BOOST_AUTO_TEST_CASE(coalesce_takes_the_first_that_is_there) {
  Assembler assembler;
  const uint32_t a = assembler.Column(Kind::kInt64), nothing = assembler.Column(Kind::kNull),
                 b = assembler.Column(Kind::kInt64), out = assembler.Returned(Kind::kInt64);
  const Register dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  std::vector<uint32_t> ends;
  for (uint32_t column : {a, nothing, b}) {
    const Register value = assembler.NewRegister();
    text.loads.push_back({value, column});
    const uint32_t skip = text.Add(Op::kSkipIfNull, 0, value);
    text.Add(Op::kCopy, dst, value);
    ends.push_back(text.Add(Op::kJump));
    text.Patch(skip);
  }
  text.Add(Op::kSetNull, dst);
  for (uint32_t end : ends) text.Patch(end);
  text.Add(Op::kEmit, 0, dst, out);
  text.Add(Op::kStop);
  const Column as = testing::Int64s({1, {}, {}}), nulls = testing::Nulls(3), bs = testing::Int64s({10, 20, {}});
  Stage stage(assembler, {});
  const auto result = stage.Run({&as, &nulls, &bs}, 3);
  BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kInt64)) == Rows<int64_t>{1, 20, {}}));
}

// Σ x·y over two lists in step, and for each pair of them a nested loop over a third.
BOOST_AUTO_TEST_CASE(loops_nest_and_check_their_lengths) {
  Assembler assembler;
  const uint32_t xs = assembler.Column(Kind::kList, Kind::kInt64), ys = assembler.Column(Kind::kList, Kind::kInt64),
                 zs = assembler.Column(Kind::kList, Kind::kInt64), out = assembler.Returned(Kind::kInt64);
  const Register x = assembler.NewRegister(), y = assembler.NewRegister(), z = assembler.NewRegister(),
                 product = assembler.NewRegister(), dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.accumulators = {{Reduction::kSum, Kind::kInt64, 0}};
  text.Add(Op::kBegin, 0, 0);
  const uint32_t outer = text.BeginLoop({xs, ys}, {{x, 0}, {y, 1}});
  text.Add(Op::kMulI, product, x, y);
  const uint32_t inner = text.BeginLoop({zs}, {{z, 0}});
  text.Add(Op::kMulI, z, z, product);
  text.Add(Op::kAccumulate, 0, z, 0);
  text.EndLoop(inner);
  text.EndLoop(outer);
  text.Add(Op::kReduce, dst, 0);
  text.Add(Op::kEmit, 0, dst, out);
  text.Add(Op::kStop);
  // rows:            plain   empty   null    lengths differ   null element
  const Column x_lists = testing::Lists(testing::Int64s({1, 2, 7, 5, 6, 4}), {2, 0, {}, 1, 3});
  const Column y_lists = testing::Lists(testing::Int64s({3, 4, 8, 8, 9, {}, 9}), {2, 0, 0, 2, 3});
  const Column z_lists = testing::Lists(testing::Int64s({1, 10, 100, 1, 1, 1}), {3, 1, 1, 0, 1});
  Stage stage(assembler, {});
  const auto result = stage.Run({&x_lists, &y_lists, &z_lists}, 5);
  BOOST_TEST((result.reasons == std::vector<std::string>{"", "", "", "list", "null1"}));
  BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kInt64)) == Rows<int64_t>{11 * 111, 0, 0, {}, {}}));
}

// -------------------------------------------------------------------------------------------- reductions

struct Reduced {
  Reduction reduction;
  Column elements;
  Expected expected;
  int32_t scale = 0;
};

void CheckReduction(const Reduced& one) {
  Assembler assembler;
  const Kind kind = one.elements.kind;
  const uint32_t list = assembler.Column(Kind::kList, kind);
  const bool fails = !one.expected.reason.empty();
  const Register element = assembler.NewRegister(), dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.accumulators = {{one.reduction, kind, one.scale}};
  text.Add(Op::kBegin, 0, 0);
  const uint32_t loop = text.BeginLoop({list}, {{element, 0}});
  text.Add(Op::kAccumulate, 0, element, 0);
  text.EndLoop(loop);
  text.Add(Op::kReduce, dst, 0);
  if (!fails) text.Add(Op::kEmit, 0, dst, assembler.Returned(one.expected.result.kind));
  text.Add(Op::kStop);
  // Twice: the second time must not see what the first has left.
  const auto size = static_cast<int32_t>(one.elements.length);
  Column elements;
  elements.kind = kind;
  Stage stage(assembler, {});
  for (int round = 0; round < 2; ++round) {
    Column lists;
    lists.kind = Kind::kList;
    lists.element = kind;
    lists.length = 1;
    lists.offsets = {0, size};
    lists.child = std::make_unique<Column>();
    lists.child->kind = kind;
    lists.child->length = size;
    lists.child->values = one.elements.values;
    lists.child->offsets = one.elements.offsets;
    lists.child->validity = one.elements.validity;
    const auto result = stage.Run({&lists}, 1);
    const std::string what = "reduction " + std::to_string(static_cast<int>(one.reduction));
    BOOST_TEST(result.reasons[0] == one.expected.reason, what);
    if (fails || !result.reasons[0].empty()) continue;
    const Operand got = ReadResult(result.Returned(0, one.expected.result.kind));
    BOOST_TEST(Show(got) == Show(one.expected.result), what << " = " << Show(got));
  }
}

BOOST_AUTO_TEST_CASE(reductions) {
  using testing::Bools;
  using testing::Decimals;
  using testing::Float64s;
  using testing::Int64s;
  using testing::Strings;
  Reduced cases[] = {
      {Reduction::kSum, Int64s({}), I(0)},
      {Reduction::kSum, Int64s({kMax, kMax, kMin, kMin}), I(-2)},  // exact on the way
      {Reduction::kSum, Int64s({kMax, 1}), kOverflow},
      {Reduction::kSum, Int64s({1, {}}), kNull0},
      {Reduction::kSum, Float64s({}), F(0)},
      {Reduction::kSum, Float64s({1e308, 1e308, -1e308}), F(1e308)},
      {Reduction::kSum, Float64s({0.1, 0.2, 0.3}), F(0.6)},
      {Reduction::kSum, Decimals({kLargest, kLargest, -kLargest}), D(kLargest)},
      {Reduction::kSum, Decimals({kLargest, 1}), kOverflow},
      {Reduction::kSum, Decimals({kLargest, kLargest, kLargest}), kOverflow},
      {Reduction::kCount, Int64s({}), I(0)},
      {Reduction::kCount, Strings({"a", "b"}), I(2)},
      {Reduction::kCount, Strings({"a", {}}), kNull0},
      {Reduction::kMin, Int64s({}), N(Kind::kInt64)},
      {Reduction::kMin, Int64s({3, kMin, 5}), I(kMin)},
      {Reduction::kMax, Int64s({kMin}), I(kMin)},
      {Reduction::kMax, Int64s({-3, -2, -5}), I(-2)},
      {Reduction::kMin, Float64s({kNan, 2, -0.0}), F(-0.0)},
      {Reduction::kMax, Float64s({kNan, 2}), F(kNan)},
      {Reduction::kMax, Strings({"b", "a", "bb"}), S("bb")},
      {Reduction::kMin, Strings({"b", "", "bb"}), S("")},
      {Reduction::kMin, Decimals({kLargest, -kLargest}), D(-kLargest)},
      {Reduction::kMean, Int64s({}), N(Kind::kFloat64)},
      {Reduction::kMean, Int64s({1, 2}), F(1.5)},
      {Reduction::kMean, Int64s({kMax, kMax}), F(0x1p63)},
      {Reduction::kMean, Float64s({1e308, 1e308}), F(kInfinity)},
      {Reduction::kMean, Float64s({1, 2}), F(1.5)},
      {Reduction::kMean, Decimals({1, 1, 2}), D(1'333), 3},
      {Reduction::kMean, Decimals({1, 2}), D(2), 0},  // half away from zero
      {Reduction::kMean, Decimals({kLargest}), kOverflow, 1},
      {Reduction::kMean, Decimals({}), N(Kind::kDecimal), 3},
      {Reduction::kAny, Bools({}), B(false)},
      {Reduction::kAny, Bools({false, true}), B(true)},
      {Reduction::kAny, Bools({false, false}), B(false)},
      {Reduction::kAll, Bools({}), B(true)},
      {Reduction::kAll, Bools({true, false}), B(false)},
      {Reduction::kAll, Bools({true, {}}), kNull0},
      {Reduction::kSum, testing::Nulls(0), I(0)},
      {Reduction::kMin, testing::Nulls(0), N(Kind::kNull)},
      {Reduction::kMean, testing::Nulls(0), N(Kind::kNull)},
      {Reduction::kCount, testing::Nulls(2), kNull0},
  };
  for (const Reduced& one : cases) CheckReduction(one);
}

// ------------------------------------------------------------------------------------------------- state

TableSpec Numbers(Kind kind, bool has_default) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {kind};
  spec.has_default = has_default;
  if (has_default) spec.defaults = {testing::IntValue(0)};
  spec.default_text.resize(spec.defaults.size());
  return spec;
}

// One operation on the row that the event names, with the event's second column as its value.
struct RowProgram {
  Assembler assembler;
  Register row = 0, value = 0, dst = 0;

  RowProgram(Kind kind, Op op, bool emits) {
    const uint32_t key = assembler.Column(Kind::kInt64), given = assembler.Column(kind);
    row = assembler.NewRegister();
    value = assembler.NewRegister();
    dst = assembler.NewRegister();
    TransactionText& text = assembler.NewTransaction();
    text.loads = {{value, given}};
    text.Row(row, assembler.NewSite(0, {key}));
    text.Add(op, dst, row, emits ? 0 : value);
    if (emits) text.Add(Op::kEmit, 0, dst, assembler.Returned(op == Op::kExists ? Kind::kBool : kind));
    text.Add(Op::kStop);
  }
};

BOOST_AUTO_TEST_CASE(reading_needs_a_key_and_a_row) {
  const Column keys = testing::Int64s({1, 2, {}}), values = testing::Int64s({0, 0, 0});
  RowProgram program(Kind::kInt64, Op::kReadI, true);
  for (bool has_default : {false, true}) {
    Stage stage(program.assembler, {Numbers(Kind::kInt64, has_default)});
    const Column loaded = testing::Int64s({1}), amount = testing::Int64s({77});
    BOOST_REQUIRE(stage.table(0).Apply(testing::Views({&loaded}), testing::Views({&amount})).ok());
    const auto result = stage.Run({&keys, &values}, 3);
    BOOST_TEST((result.reasons == std::vector<std::string>{"", has_default ? "" : "missing", "key"}));
    const auto second = has_default ? std::optional<int64_t>(0) : std::nullopt;
    BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kInt64)) == Rows<int64_t>{77, second, {}}));
  }
}

BOOST_AUTO_TEST_CASE(existing_is_not_reading) {
  const Column keys = testing::Int64s({1, 2, {}}), values = testing::Int64s({0, 0, 0});
  RowProgram program(Kind::kInt64, Op::kExists, true);
  Stage stage(program.assembler, {Numbers(Kind::kInt64, true)});
  const Column loaded = testing::Int64s({1}), amount = testing::Int64s({77});
  BOOST_REQUIRE(stage.table(0).Apply(testing::Views({&loaded}), testing::Views({&amount})).ok());
  const auto result = stage.Run({&keys, &values}, 3);
  BOOST_TEST((result.reasons == std::vector<std::string>{"", "", "key"}));
  BOOST_TEST((testing::Int64sOf(result.Returned(0, Kind::kBool)) == Rows<int64_t>{1, 0, {}}));
  BOOST_TEST(stage.table(0).rows() == 1u);
}

struct Update {
  Op op;
  Operand before, given;
  Expected after;
};

void CheckUpdate(const Update& one) {
  RowProgram program(one.given.kind, one.op, false);
  Stage stage(program.assembler, {Numbers(one.before.kind, false)});
  const Column key = testing::Int64s({5}), before = ColumnOf(one.before), given = ColumnOf(one.given);
  BOOST_REQUIRE(stage.table(0).Apply(testing::Views({&key}), testing::Views({&before})).ok());
  const auto result = stage.Run({&key, &given}, 1);
  const std::string what =
      "op " + std::to_string(static_cast<int>(one.op)) + " " + Show(one.before) + " " + Show(one.given);
  BOOST_TEST(result.reasons[0] == one.after.reason, what);
  const Operand& expected = one.after.reason.empty() ? one.after.result : one.before;
  const ColumnBuffers column = stage.table(0).ExportValues(0, stage.table(0).LiveSlots());
  const Operand got = ReadResult(testing::ViewOf(column, one.before.kind));
  BOOST_TEST(Show(got) == Show(expected), what << " = " << Show(got));
  if (got.kind == Kind::kFloat64) BOOST_TEST((got.value.bits == expected.value.bits), what);
}

BOOST_AUTO_TEST_CASE(writes_and_updates_of_a_row) {
  const Update cases[] = {
      {Op::kWriteI, I(1), I(kMin), I(kMin)},
      {Op::kWriteI, I(1), N(Kind::kInt64), kNull1},
      {Op::kWriteF, F(1), F(-kNan), F(kNan)},
      {Op::kWriteF, F(1), F(-0.0), F(-0.0)},
      {Op::kWriteB, B(false), B(true), B(true)},
      {Op::kWriteS, S("a"), S("a longer text than before"), S("a longer text than before")},
      {Op::kWriteS, S("a"), S(""), S("")},
      {Op::kWriteS, S("a"), N(Kind::kString), kNull1},
      {Op::kWriteD, D(1), D(-999'999'999'999'999'999), D(-999'999'999'999'999'999)},
      {Op::kIncreaseI, I(1), I(2), I(3)},
      {Op::kIncreaseI, I(kMax), I(1), kOverflow},
      {Op::kIncreaseI, I(1), N(Kind::kInt64), kNull1},
      {Op::kDecreaseI, I(1), I(2), I(-1)},
      {Op::kDecreaseI, I(kMin), I(1), kOverflow},
      {Op::kDecreaseI, I(0), I(kMin), kOverflow},
      {Op::kIncreaseF, F(0.1), F(0.2), F(0.1 + 0.2)},
      {Op::kIncreaseF, F(kInfinity), F(-kInfinity), F(kNan)},
      {Op::kDecreaseF, F(0.0), F(0.0), F(0.0)},
      {Op::kDecreaseF, F(1), N(Kind::kFloat64), kNull1},
  };
  for (const Update& one : cases) CheckUpdate(one);
}

BOOST_AUTO_TEST_CASE(updates_of_missing_rows_and_null_keys) {
  const Column keys = testing::Int64s({1, {}, 1}), values = testing::Int64s({5, 5, {}});
  for (Op op : {Op::kIncreaseI, Op::kWriteI}) {
    RowProgram program(Kind::kInt64, op, false);
    Stage without(program.assembler, {Numbers(Kind::kInt64, false)});
    const auto result = without.Run({&keys, &values}, 3);
    BOOST_TEST(result.reasons[0] == "missing");
    BOOST_TEST(result.reasons[1] == "key");
    BOOST_TEST(without.table(0).rows() == 0u);
    Stage with(program.assembler, {Numbers(Kind::kInt64, true)});
    BOOST_TEST((with.Run({&keys, &values}, 3).reasons == std::vector<std::string>{"", "key", "null1"}));
    BOOST_TEST(testing::Stored<Kind::kInt64>(with.table(0), with.table(0).FindOrAdd(1), 0).i == 5);
  }
}

BOOST_AUTO_TEST_CASE(an_aborted_transaction_takes_back_all_its_writes) {
  // row += amount; other += amount; require(amount > 0)
  Assembler assembler;
  const uint32_t key = assembler.Column(Kind::kInt64), amount = assembler.Column(Kind::kInt64);
  const Register zero = assembler.Constant(OfInt(0)), nine = assembler.Constant(OfInt(9));
  const Register row = assembler.NewRegister(), other = assembler.NewRegister(), value = assembler.NewRegister(),
                 positive = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{value, amount}};
  text.Row(row, assembler.NewSite(0, {key}));
  text.Row(other, assembler.NewSite(0, {kConstantPart | nine}));
  text.Add(Op::kIncreaseI, 0, row, value);
  text.Add(Op::kIncreaseI, 0, other, value);
  text.Add(Op::kCompareI, positive, value, zero, {.aux = static_cast<uint16_t>(Comparison::kGt)});
  text.Add(Op::kRequire, 0, positive, 0);
  text.Add(Op::kStop);
  Stage stage(assembler, {Numbers(Kind::kInt64, true)});
  const Column keys = testing::Int64s({1, 1, 9, 2}), amounts = testing::Int64s({5, -3, 7, -1});
  BOOST_TEST((stage.Run({&keys, &amounts}, 4).reasons == std::vector<std::string>{"", "require", "", "require"}));
  Table& table = stage.table(0);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(1), 0).i == 5);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(9), 0).i == 19);
  BOOST_TEST(table.rows() == 2u);  // key 2 never came to be
}

BOOST_AUTO_TEST_CASE(insert_delete_and_computed_keys) {
  // Transaction 0 inserts name + "!" → amount; transaction 1 deletes it. Keys are (string, int64).
  TableSpec spec;
  spec.key = {Kind::kString, Kind::kInt64};
  spec.columns = {Kind::kInt64, Kind::kString};
  Assembler assembler;
  const uint32_t name = assembler.Column(Kind::kString), amount = assembler.Column(Kind::kInt64);
  const Register mark = assembler.Constant(OfString("!")), seven = assembler.Constant(OfInt(7));
  const Register text_in = assembler.NewRegister(), number = assembler.NewRegister(), row = assembler.NewRegister();
  const Register parts = assembler.NewRegisters(2);
  for (bool inserts : {true, false}) {
    TransactionText& text = assembler.NewTransaction();
    text.loads = {{text_in, name}, {number, amount}};
    text.Add(Op::kConcat, parts, text_in, mark);
    text.Add(Op::kCopy, parts + 1, seven);
    text.Add(Op::kRowOfKey, row, parts, 2);
    if (inserts) {
      text.Add(Op::kCheckKey, 0, row);
      text.Add(Op::kNeed, 0, number, 0, {.aux = kNull2});
      text.Add(Op::kInsert, 0, row);
      text.Add(Op::kStore, 0, row, number, {.c = 0});
      text.Add(Op::kStore, 0, row, parts, {.c = 1});
    } else {
      text.Add(Op::kDelete, 0, row);
    }
    text.Add(Op::kStop);
  }
  Stage stage(assembler, {spec});
  const Column names = testing::Strings({"a", "a", "b", "a", "a", "c", {}});
  const Column amounts = testing::Int64s({1, 2, {}, 0, 5, 0, 6});
  const auto result = stage.Run({&names, &amounts}, 7, {0, 0, 0, 1, 0, 1, 0});
  BOOST_TEST((result.reasons == std::vector<std::string>{"", "exists", "null2", "", "", "", "null0"}));
  BOOST_TEST(stage.table(0).rows() == 1u);
  const ColumnBuffers keys = stage.table(0).ExportKey(0, stage.table(0).LiveSlots());
  BOOST_TEST((testing::StringsOf(testing::ViewOf(keys, Kind::kString)) == Rows<std::string>{"a!"}));
  const ColumnBuffers stored = stage.table(0).ExportValues(0, stage.table(0).LiveSlots());
  BOOST_TEST((testing::Int64sOf(testing::ViewOf(stored, Kind::kInt64)) == Rows<int64_t>{5}));
}

BOOST_AUTO_TEST_CASE(a_null_part_makes_a_null_key) {
  Assembler assembler;
  const uint32_t key = assembler.Column(Kind::kInt64);
  const Register part = assembler.NewRegister(), row = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{part, key}};
  text.Add(Op::kRowOfKey, row, part, 1);
  text.Add(Op::kDelete, 0, row);
  text.Add(Op::kStop);
  Stage stage(assembler, {Numbers(Kind::kInt64, true)});
  const Column keys = testing::Int64s({1, {}});
  BOOST_TEST((stage.Run({&keys}, 2).reasons == std::vector<std::string>{"", "key"}));
}

BOOST_AUTO_TEST_CASE(rows_of_elements) {
  // for k in keys: t[k] += 1
  Assembler assembler;
  const uint32_t lists = assembler.Column(Kind::kList, Kind::kInt64);
  const Register one = assembler.Constant(OfInt(1)), row = assembler.NewRegister();
  const SiteId site = assembler.NewSite(0, {lists}, true);
  TransactionText& text = assembler.NewTransaction();
  text.sites = {site};
  const uint32_t loop = text.BeginLoop({lists}, {});
  text.Add(Op::kRowOfElement, row, site, loop, {.c = 0});
  text.Add(Op::kIncreaseI, 0, row, one);
  text.EndLoop(loop);
  text.Add(Op::kStop);
  Stage stage(assembler, {Numbers(Kind::kInt64, true)});
  const Column keys = testing::Lists(testing::Int64s({9, 1, 2, 1, 3, {}, 1}).From(1), {3, 0, {}, 2, 1});
  BOOST_TEST((stage.Run({&keys}, 5).reasons == std::vector<std::string>{"", "", "", "key", ""}));
  Table& table = stage.table(0);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(1), 0).i == 3);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(2), 0).i == 1);
  BOOST_TEST(table.rows() == 2u);
}

// ----------------------------------------------------------------------------------------------- scratch

BOOST_AUTO_TEST_CASE(strings_of_a_transaction_do_not_outlive_it_but_their_copies_do) {
  // text = text + text, eight times over; stored and returned.
  Assembler assembler;
  const uint32_t key = assembler.Column(Kind::kInt64), given = assembler.Column(Kind::kString),
                 out = assembler.Returned(Kind::kString);
  const Register row = assembler.NewRegister(), value = assembler.NewRegister(), dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  text.loads = {{value, given}};
  text.Row(row, assembler.NewSite(0, {key}));
  text.Add(Op::kConcat, dst, value, value);
  for (int i = 0; i < 7; ++i) text.Add(Op::kConcat, dst, dst, dst);
  text.Add(Op::kWriteS, 0, row, dst);
  text.Add(Op::kReadS, dst, row);
  text.Add(Op::kEmit, 0, dst, out);
  text.Add(Op::kStop);
  TableSpec spec = Numbers(Kind::kString, true);
  Stage stage(assembler, {spec});
  Rows<int64_t> keys;
  Rows<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(i % 10);
    texts.push_back(std::string(i * 3, static_cast<char>('a' + i % 26)));
  }
  const Column key_column = testing::Int64s(keys), text_column = testing::Strings(texts);
  const auto result = stage.Run({&key_column, &text_column}, 200);
  const Rows<std::string> returned = testing::StringsOf(result.Returned(0, Kind::kString));
  for (int i = 0; i < 200; ++i) {
    BOOST_REQUIRE_EQUAL(result.reasons[i], "");
    BOOST_REQUIRE(*returned[i] == std::string(i * 3 * 256, static_cast<char>('a' + i % 26)));
  }
  stage.max_string_bytes = 256;
  const Column one = testing::Int64s({1, 2}), small = testing::Strings({"x", "xy"});
  BOOST_TEST((stage.Run({&one, &small}, 2).reasons == std::vector<std::string>{"", "string limit"}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
