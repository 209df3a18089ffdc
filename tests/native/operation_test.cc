// The operations of the register machine that take values alone, each at its extremes.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "assembler.h"
#include "operands.h"
#include "program/machine.h"

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
using testing::Operand;
using testing::ReadResult;
using testing::S;
using testing::Show;
using testing::Stage;
using testing::TransactionText;

struct Case {
  Op op;
  std::vector<Operand> operands;
  Expected expected;
  uint16_t aux = 0;
  int32_t c = 0;
};

void CheckCase(const Case& one) {
  Assembler assembler;
  std::vector<Column> columns;
  for (const Operand& operand : one.operands) {
    assembler.Column(operand.kind);
    columns.push_back(ColumnOf(operand));
  }
  const Kind result_kind = one.expected.reason.empty() ? one.expected.result.kind : Kind::kNull;
  const Register first = assembler.NewRegisters(2), dst = assembler.NewRegister();
  TransactionText& text = assembler.NewTransaction();
  std::vector<const Column*> given;
  for (uint32_t i = 0; i < columns.size(); ++i) {
    text.loads.push_back({first + i, i});
    given.push_back(&columns[i]);
  }
  const uint32_t second = columns.size() > 1 ? first + 1 : first;
  text.Add(one.op, dst, first, second, {.c = static_cast<uint32_t>(one.c), .aux = one.aux, .reasons = kFailures});
  if (one.expected.reason.empty()) text.Add(Op::kEmit, 0, dst, assembler.Returned(result_kind));
  text.Add(Op::kStop);
  Stage stage(assembler, {});
  const Stage::Result result = stage.Run(given, 1);
  const std::string reason = one.expected.reason.empty() ? "" : "other " + one.expected.reason;
  std::string what = "op " + std::to_string(static_cast<int>(one.op));
  for (const Operand& operand : one.operands) what += " " + Show(operand);
  BOOST_TEST(result.reasons[0] == reason, what << ": " << result.reasons[0] << ", expected " << reason);
  if (!one.expected.reason.empty() || result.reasons[0] != reason) return;
  const Operand got = ReadResult(result.Returned(0, result_kind));
  BOOST_TEST(Show(got) == Show(one.expected.result), what << " = " << Show(got));
  if (result_kind == Kind::kFloat64 && !got.null) {  // bits: signed zeros, and the one NaN
    BOOST_TEST((got.value.bits == one.expected.result.value.bits), what << " = " << Show(got));
  }
}

void CheckAll(const std::vector<Case>& cases) {
  for (const Case& one : cases) CheckCase(one);
}

BOOST_AUTO_TEST_SUITE(machine)

BOOST_AUTO_TEST_CASE(integers) {
  CheckAll({
      {Op::kAddI, {I(2), I(3)}, I(5)},
      {Op::kAddI, {I(kMax), I(0)}, I(kMax)},
      {Op::kAddI, {I(kMax), I(1)}, kOverflow},
      {Op::kAddI, {I(kMin), I(-1)}, kOverflow},
      {Op::kAddI, {I(kMin), I(kMax)}, I(-1)},
      {Op::kAddI, {N(Kind::kInt64), I(1)}, kNull0},
      {Op::kAddI, {I(1), N(Kind::kInt64)}, kNull1},
      {Op::kAddI, {N(Kind::kInt64), N(Kind::kInt64)}, kNull0},
      {Op::kSubI, {I(kMin), I(0)}, I(kMin)},
      {Op::kSubI, {I(kMin), I(1)}, kOverflow},
      {Op::kSubI, {I(0), I(kMin)}, kOverflow},
      {Op::kSubI, {I(-1), I(kMin)}, I(kMax)},
      {Op::kMulI, {I(kMin), I(1)}, I(kMin)},
      {Op::kMulI, {I(kMin), I(-1)}, kOverflow},
      {Op::kMulI, {I(1LL << 31), I(1LL << 31)}, I(1LL << 62)},
      {Op::kMulI, {I(1LL << 32), I(1LL << 31)}, kOverflow},
      {Op::kMulI, {I(-(1LL << 32)), I(1LL << 31)}, I(kMin)},
      {Op::kFloorDivI, {I(7), I(2)}, I(3)},
      {Op::kFloorDivI, {I(-7), I(2)}, I(-4)},
      {Op::kFloorDivI, {I(7), I(-2)}, I(-4)},
      {Op::kFloorDivI, {I(-7), I(-2)}, I(3)},
      {Op::kFloorDivI, {I(7), I(0)}, kDivision},
      {Op::kFloorDivI, {I(kMin), I(-1)}, kOverflow},
      {Op::kFloorDivI, {I(kMin), I(1)}, I(kMin)},
      {Op::kFloorDivI, {I(kMin), I(kMax)}, I(-2)},
      {Op::kFloorDivI, {I(kMax), I(kMin)}, I(-1)},
      {Op::kModI, {I(7), I(3)}, I(1)},
      {Op::kModI, {I(-7), I(3)}, I(2)},
      {Op::kModI, {I(7), I(-3)}, I(-2)},
      {Op::kModI, {I(-7), I(-3)}, I(-1)},
      {Op::kModI, {I(7), I(0)}, kDivision},
      {Op::kModI, {I(kMin), I(-1)}, I(0)},
      {Op::kModI, {I(kMin), I(kMax)}, I(kMax - 1)},
      {Op::kModI, {I(kMax), I(kMin)}, I(-1)},
      {Op::kNegI, {I(kMax)}, I(-kMax)},
      {Op::kNegI, {I(kMin)}, kOverflow},
      {Op::kNegI, {N(Kind::kInt64)}, kNull0},
      {Op::kAbsI, {I(-5)}, I(5)},
      {Op::kAbsI, {I(kMin)}, kOverflow},
      {Op::kMinI, {I(kMin), I(kMax)}, I(kMin)},
      {Op::kMaxI, {I(kMin), I(kMax)}, I(kMax)},
      {Op::kMaxI, {I(1), N(Kind::kInt64)}, kNull1},
  });
}

BOOST_AUTO_TEST_CASE(floats) {
  CheckAll({
      {Op::kAddF, {F(0.1), F(0.2)}, F(0.1 + 0.2)},
      {Op::kAddF, {F(1e308), F(1e308)}, F(kInfinity)},
      {Op::kAddF, {F(kInfinity), F(-kInfinity)}, F(kNan)},
      {Op::kAddF, {F(-kNan), F(1)}, F(kNan)},
      {Op::kSubF, {F(0.0), F(0.0)}, F(0.0)},
      {Op::kMulF, {F(-0.0), F(5)}, F(-0.0)},
      {Op::kMulF, {F(kInfinity), F(0)}, F(kNan)},
      {Op::kDivF, {F(1), F(0.0)}, kDivision},
      {Op::kDivF, {F(1), F(-0.0)}, kDivision},
      {Op::kDivF, {F(1), F(kInfinity)}, F(0.0)},
      {Op::kFloorDivF, {F(7), F(2)}, F(3)},
      {Op::kFloorDivF, {F(-7), F(2)}, F(-4)},
      {Op::kFloorDivF, {F(-7), F(kInfinity)}, F(-1)},
      {Op::kFloorDivF, {F(1), F(-3)}, F(-1)},
      {Op::kFloorDivF, {F(-0.0), F(3)}, F(-0.0)},
      {Op::kFloorDivF, {F(1), F(0.1)}, F(9)},
      {Op::kFloorDivF, {F(1), F(0)}, kDivision},
      {Op::kFloorDivF, {F(kInfinity), F(2)}, F(kNan)},
      {Op::kModF, {F(7), F(3)}, F(1)},
      {Op::kModF, {F(-7), F(3)}, F(2)},
      {Op::kModF, {F(7), F(-3)}, F(-2)},
      {Op::kModF, {F(6), F(-3)}, F(-0.0)},
      {Op::kModF, {F(-6), F(3)}, F(0.0)},
      {Op::kModF, {F(5), F(-kInfinity)}, F(-kInfinity)},
      {Op::kModF, {F(1), F(-0.0)}, kDivision},
      {Op::kNegF, {F(0.0)}, F(-0.0)},
      {Op::kAbsF, {F(-0.0)}, F(0.0)},
      {Op::kAbsF, {F(-kInfinity)}, F(kInfinity)},
      {Op::kMinF, {F(kNan), F(1)}, F(1)},  // NaN is largest
      {Op::kMaxF, {F(kInfinity), F(kNan)}, F(kNan)},
      {Op::kMinF, {F(-0.0), F(0.0)}, F(-0.0)},  // equal: the first
      {Op::kMinF, {F(0.0), F(-0.0)}, F(0.0)},
      {Op::kMaxF, {N(Kind::kFloat64), F(1)}, kNull0},
  });
}

BOOST_AUTO_TEST_CASE(decimals) {
  CheckAll({
      {Op::kAddD, {D(kLargest), D(0)}, D(kLargest)},
      {Op::kAddD, {D(kLargest), D(1)}, kOverflow},
      {Op::kAddD, {D(kLargest), D(kLargest)}, kOverflow},
      {Op::kSubD, {D(-kLargest), D(1)}, kOverflow},
      {Op::kMulD, {D(kLargest), D(-1)}, D(-kLargest)},
      {Op::kMulD, {D(kLargest), D(10)}, kOverflow},
      {Op::kDivD, {D(1), D(3)}, D(333), 0, 3},
      {Op::kDivD, {D(2), D(3)}, D(667), 0, 3},
      {Op::kDivD, {D(-2), D(3)}, D(-667), 0, 3},
      {Op::kDivD, {D(1), D(0)}, kDivision, 0, 3},
      {Op::kDivD, {D(kLargest), D(1)}, kOverflow, 0, 1},
      {Op::kDivD, {D(1), D(1)}, kOverflow, 0, 60},
      {Op::kDivD, {D(0), D(1)}, D(0), 0, 60},
      {Op::kFloorDivD, {D(-7), D(2)}, D(-4)},
      {Op::kFloorDivD, {D(-kLargest), D(-1)}, D(kLargest)},
      {Op::kFloorDivD, {D(7), D(0)}, kDivision},
      {Op::kModD, {D(-7), D(2)}, D(1)},
      {Op::kModD, {D(7), D(0)}, kDivision},
      {Op::kModD, {D(kLargest), D(-1)}, D(0)},
      {Op::kNegD, {D(-kLargest)}, D(kLargest)},
      {Op::kAbsD, {D(-kLargest)}, D(kLargest)},
      {Op::kAbsD, {N(Kind::kDecimal)}, kNull0},
      {Op::kMinD, {D(-kLargest), D(kLargest)}, D(-kLargest)},
      {Op::kMaxD, {D(-kLargest), D(kLargest)}, D(kLargest)},
  });
}

BOOST_AUTO_TEST_CASE(conversions_keep_null) {
  CheckAll({
      {Op::kIntToFloat, {I(kMax)}, F(0x1p63)},
      {Op::kIntToFloat, {N(Kind::kInt64)}, N(Kind::kFloat64)},
      {Op::kDecimalToFloat, {D(15)}, F(1.5), 1},
      {Op::kDecimalToFloat, {D(kLargest)}, F(1.0), 38},
      {Op::kDecimalToFloat, {N(Kind::kDecimal)}, N(Kind::kFloat64), 2},
      {Op::kDecimalUp, {D(15)}, D(1500), 2},
      {Op::kDecimalUp, {D(kLargest)}, kOverflow, 1},
      {Op::kDecimalUp, {D(1)}, kOverflow, 60'000},
      {Op::kDecimalUp, {I(kMin)}, D(Int128{kMin} * 100), 2, 1},
      {Op::kDecimalUp, {I(1)}, kOverflow, 38, 1},
      {Op::kDecimalUp, {N(Kind::kInt64)}, N(Kind::kDecimal), 2, 1},
      {Op::kDecimalAssign, {D(125)}, D(13), 18, -1},
      {Op::kDecimalAssign, {D(-125)}, D(-13), 18, -1},
      {Op::kDecimalAssign, {D(124)}, D(12), 18, -1},
      {Op::kDecimalAssign, {D(99)}, D(9900), 4, 2},
      {Op::kDecimalAssign, {D(100)}, kOverflow, 4, 2},     // 5 digits
      {Op::kDecimalAssign, {D(99995)}, kOverflow, 4, -1},  // rounds up to 5 digits
      {Op::kDecimalAssign, {D(99994)}, D(9999), 4, -1},
      {Op::kDecimalAssign, {D(kLargest)}, D(1), 4, -38},
      {Op::kDecimalAssign, {D(kLargest)}, kOverflow, 38, 1},
      {Op::kDecimalAssign, {N(Kind::kDecimal)}, kNull0, 4, 0},
      {Op::kCopy, {S("text")}, S("text")},
      {Op::kCopy, {N(Kind::kString)}, N(Kind::kString)},
      {Op::kIsNull, {N(Kind::kString)}, B(true)},
      {Op::kIsNull, {S("")}, B(false)},
      {Op::kIsNull, {N(Kind::kNull)}, B(true)},
      {Op::kSetNull, {I(5)}, N(Kind::kInt64)},
  });
}

BOOST_AUTO_TEST_CASE(comparisons) {
  const auto compare = [](Op op, const Operand& a, const Operand& b, int order, int32_t c = 0) {
    const bool holds[] = {order == 0, order != 0, order < 0, order <= 0, order > 0, order >= 0};
    for (uint16_t comparison = 0; comparison < 6; ++comparison) {
      CheckCase({op, {a, b}, B(holds[comparison]), comparison, c});
    }
  };
  compare(Op::kCompareI, I(kMin), I(kMax), -1);
  compare(Op::kCompareI, I(7), I(7), 0);
  compare(Op::kCompareI, B(true), B(false), 1);
  compare(Op::kCompareF, F(kNan), F(kInfinity), 1);
  compare(Op::kCompareF, F(kNan), F(-kNan), 0);
  compare(Op::kCompareF, F(-0.0), F(0.0), 0);
  compare(Op::kCompareF, F(-kInfinity), F(1), -1);
  compare(Op::kCompareS, S(""), S("a"), -1);
  compare(Op::kCompareS, S("a"), S("a"), 0);
  compare(Op::kCompareS, S("b"), S("aa"), 1);
  compare(Op::kCompareS, S("\xC3\xA9"), S("z"), 1);  // by bytes, unsigned
  compare(Op::kCompareS, S(std::string("a\0b", 3)), S("a"), 1);
  compare(Op::kCompareD, D(1), D(10), 0, 1);
  compare(Op::kCompareD, D(10), D(1), 0, -1);
  compare(Op::kCompareD, D(kLargest), D(kLargest), 1, 38);
  compare(Op::kCompareD, D(-kLargest), D(-kLargest), 1, -38);
  CheckCase({Op::kCompareI, {N(Kind::kInt64), I(1)}, kNull0});
  CheckCase({Op::kCompareS, {S(""), N(Kind::kString)}, kNull1});
}

BOOST_AUTO_TEST_CASE(logic_needs_both_sides) {
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      CheckAll({{Op::kAnd, {B(a), B(b)}, B(a && b)},
                {Op::kOr, {B(a), B(b)}, B(a || b)},
                {Op::kXor, {B(a), B(b)}, B(a != b)}});
    }
    CheckAll({{Op::kNot, {B(a)}, B(!a)}, {Op::kWhen, {B(a)}, B(a)}});
  }
  CheckAll({{Op::kAnd, {B(false), N(Kind::kBool)}, kNull1},
            {Op::kOr, {N(Kind::kBool), B(true)}, kNull0},
            {Op::kNot, {N(Kind::kBool)}, kNull0},
            {Op::kWhen, {N(Kind::kBool)}, kNull0},
            {Op::kRequire, {B(false)}, kRequireFailure},
            {Op::kRequire, {N(Kind::kBool)}, kNull0}});
}

BOOST_AUTO_TEST_CASE(strings) {
  const std::string longer(1'000, 'x');
  CheckAll({{Op::kConcat, {S("a"), S("b")}, S("ab")},
            {Op::kConcat, {S(""), S("")}, S("")},
            {Op::kConcat, {S(longer), S(longer)}, S(longer + longer)},
            {Op::kConcat, {S("a"), N(Kind::kString)}, kNull1},
            {Op::kMinS, {S("b"), S("a")}, S("a")},
            {Op::kMaxS, {S("b"), S("")}, S("b")},
            {Op::kMinS, {N(Kind::kString), S("")}, kNull0}});
}

BOOST_AUTO_TEST_CASE(a_column_without_values_fails_every_operation) {
  CheckAll({{Op::kAddI, {N(Kind::kNull), I(1)}, kNull0},
            {Op::kAddF, {F(1), N(Kind::kNull)}, kNull1},
            {Op::kConcat, {N(Kind::kNull), N(Kind::kNull)}, kNull0},
            {Op::kNot, {N(Kind::kNull)}, kNull0},
            {Op::kNeed, {N(Kind::kNull)}, kDivision, kDivision}});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
