// What a register can hold, and for every operation of values alone what it takes, gives and can fail of. The verifier
// believes this table, so it has to say what machine.cc does.
#pragma once

#include <cstdint>
#include <optional>

#include "program/code.h"

namespace morphspark::verify {

enum class Type : uint8_t {
  kNull,
  kBool,
  kWord,
  kFloat,
  kDecimal,
  kString,
  kList,
  kRow,
  kReduction,
  kBools,
  kWords,
  kTexts
};

Type TypeOf(Kind kind);
// Of the values of a window: what counts is how wide they are.
Type ArrayTypeOf(Kind element);

// Operands must not be null. The letters:
//   b bool   w word: int64 or timestamp   i word or bool   f float64   d decimal   s string   . nothing
struct Signature {
  char dst, a, b;
  uint32_t failures;  // of each that can happen, its Bit
};

constexpr uint32_t Bit(Failure failure) { return 1u << failure; }

Type TypeOf(char letter);

// Nothing for an operation that also takes rows, lists, reductions or jumps.
std::optional<Signature> SignatureOf(Op op);

// Does the operation put something into its `dst`, and nowhere else?
bool WritesDst(Op op);
// Calls visit(register) for everything that an instruction puts somewhere.
template <class Visit>
void EachResult(const Instruction& one, Visit visit) {
  if (WritesDst(one.op)) visit(one.dst);
  if (one.op != Op::kCall) return;
  for (uint32_t i = 0; i < one.c; ++i) visit(one.dst + i);
}
// Does it take the row that `a` holds? But for kCheckKey, `aux` is the row's table.
bool TakesRow(Op op);
// Does it write that row?
bool ChangesRow(Op op);

// Calls visit(register) for every value that an instruction uses; rows are no values.
template <class Visit>
void EachSource(const Instruction& one, Visit visit) {
  if (const auto signature = SignatureOf(one.op)) {
    visit(one.a);
    if (signature->b != '.') visit(one.b);
    return;
  }
  switch (one.op) {
    case Op::kSkipUnless:
    case Op::kSkipIfNull:
    case Op::kNeed:
    case Op::kCopy:
    case Op::kIsNull:
    case Op::kIntToFloat:
    case Op::kDecimalToFloat:
    case Op::kDecimalUp:
    case Op::kEmit:
      return visit(one.a);
    case Op::kRowOfKey:
    case Op::kCall:
      for (uint32_t i = 0; i < one.b; ++i) visit(one.a + i);
      return;
    case Op::kChoose:
      for (uint32_t i = 0; i < one.c; ++i) visit(one.a + i);
      return;
    default:
      // Whatever writes to a row has its value in `b`, but for what makes and removes whole rows.
      if (ChangesRow(one.op) && one.op != Op::kInsert && one.op != Op::kDelete) visit(one.b);
  }
}

}  // namespace morphspark::verify
