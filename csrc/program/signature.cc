#include "program/signature.h"

namespace morphspark::verify {

Type TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return Type::kNull;
    case Kind::kBool:
      return Type::kBool;
    case Kind::kInt64:
    case Kind::kTimestamp:
      return Type::kWord;
    case Kind::kFloat64:
      return Type::kFloat;
    case Kind::kString:
      return Type::kString;
    case Kind::kDecimal:
      return Type::kDecimal;
    case Kind::kList:
      return Type::kList;
  }
  return Type::kNull;
}

Type ArrayTypeOf(Kind element) {
  return element == Kind::kBool ? Type::kBools : element == Kind::kString ? Type::kTexts : Type::kWords;
}

Type TypeOf(char letter) {
  switch (letter) {
    case 'b':
      return Type::kBool;
    case 'f':
      return Type::kFloat;
    case 'd':
      return Type::kDecimal;
    case 's':
      return Type::kString;
    default:
      return Type::kWord;
  }
}

std::optional<Signature> SignatureOf(Op op) {
  switch (op) {
    case Op::kAddI:
    case Op::kSubI:
    case Op::kMulI:
      return Signature{'w', 'w', 'w', Bit(kOverflow)};
    case Op::kFloorDivI:
      return Signature{'w', 'w', 'w', Bit(kOverflow) | Bit(kDivision)};
    case Op::kWork:
      return Signature{'w', 'w', '.', 0};
    case Op::kModI:
      return Signature{'w', 'w', 'w', Bit(kDivision)};
    case Op::kNegI:
    case Op::kAbsI:
      return Signature{'w', 'w', '.', Bit(kOverflow)};
    case Op::kAddF:
    case Op::kSubF:
    case Op::kMulF:
      return Signature{'f', 'f', 'f', 0};
    case Op::kDivF:
    case Op::kFloorDivF:
    case Op::kModF:
      return Signature{'f', 'f', 'f', Bit(kDivision)};
    case Op::kNegF:
    case Op::kAbsF:
      return Signature{'f', 'f', '.', 0};
    case Op::kAddD:
    case Op::kSubD:
    case Op::kMulD:
      return Signature{'d', 'd', 'd', Bit(kOverflow)};
    case Op::kDivD:
      return Signature{'d', 'd', 'd', Bit(kOverflow) | Bit(kDivision)};
    case Op::kFloorDivD:
    case Op::kModD:
      return Signature{'d', 'd', 'd', Bit(kDivision)};
    case Op::kNegD:
    case Op::kAbsD:
      return Signature{'d', 'd', '.', 0};
    case Op::kDecimalAssign:
      return Signature{'d', 'd', '.', Bit(kOverflow)};
    case Op::kConcat:
      return Signature{'s', 's', 's', 0};
    case Op::kCompareI:
      return Signature{'b', 'i', 'i', 0};
    case Op::kCompareF:
      return Signature{'b', 'f', 'f', 0};
    case Op::kCompareD:
      return Signature{'b', 'd', 'd', 0};
    case Op::kCompareS:
      return Signature{'b', 's', 's', 0};
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return Signature{'b', 'b', 'b', 0};
    case Op::kNot:
    case Op::kWhen:
      return Signature{'b', 'b', '.', 0};
    case Op::kRequire:
      return Signature{'.', 'b', '.', Bit(kRequireFailure)};
    case Op::kMinI:
    case Op::kMaxI:
      return Signature{'w', 'w', 'w', 0};
    case Op::kMinF:
    case Op::kMaxF:
      return Signature{'f', 'f', 'f', 0};
    case Op::kMinD:
    case Op::kMaxD:
      return Signature{'d', 'd', 'd', 0};
    case Op::kMinS:
    case Op::kMaxS:
      return Signature{'s', 's', 's', 0};
    default:
      return std::nullopt;
  }
}

bool TakesRow(Op op) {
  switch (op) {
    case Op::kCheckKey:
    case Op::kExists:
    case Op::kReadI:
    case Op::kReadB:
    case Op::kReadS:
    case Op::kReadD:
    case Op::kWriteI:
    case Op::kWriteF:
    case Op::kWriteB:
    case Op::kWriteS:
    case Op::kWriteD:
    case Op::kIncreaseI:
    case Op::kDecreaseI:
    case Op::kIncreaseF:
    case Op::kDecreaseF:
    case Op::kInsert:
    case Op::kStore:
    case Op::kDelete:
    case Op::kWindow:
    case Op::kCollect:
      return true;
    default:
      return false;
  }
}

bool WritesDst(Op op) {
  if (const auto signature = SignatureOf(op)) return signature->dst != '.';
  switch (op) {
    case Op::kCopy:
    case Op::kSetNull:
    case Op::kIsNull:
    case Op::kIntToFloat:
    case Op::kDecimalToFloat:
    case Op::kDecimalUp:
    case Op::kRowOfElement:
    case Op::kRowOfKey:
    case Op::kExists:
    case Op::kReadI:
    case Op::kReadB:
    case Op::kReadS:
    case Op::kReadD:
    case Op::kReduce:
    case Op::kWindow:
    case Op::kWindowOfRows:
    case Op::kChoose:
    case Op::kRandom:
    case Op::kNow:
      return true;
    default:
      return false;
  }
}

bool ChangesRow(Op op) {
  return TakesRow(op) && op != Op::kCheckKey && op != Op::kExists && op != Op::kReadI && op != Op::kReadB &&
         op != Op::kReadS && op != Op::kReadD && op != Op::kWindow && op != Op::kCollect;
}

}  // namespace morphspark::verify
