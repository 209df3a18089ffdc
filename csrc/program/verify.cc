// The structure of a program: every index is inside what it points into, types of columns fit where they are used,
// jumps lead forward and loops nest. None of it needs to know what a register holds; that is verify_registers.cc.
#include "program/verify.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/decimal.h"
#include "program/signature.h"
#include "program/verify_registers.h"

namespace morphspark {
namespace verify {
namespace {

constexpr size_t kTransactionsMax = 0xFFFE;  // their numbers have 16 bits, one of which means: none

// ------------------------------------------------------------------------------------- the whole program

bool IsScalar(Kind kind) { return kind < Kind::kList; }

// An event column, or null for a column that has no values, where a value of type `wanted` is needed.
bool Suits(Kind kind, Type wanted) { return kind == Kind::kNull || TypeOf(kind) == wanted; }

void CheckColumns(const Code& code) {
  for (const UsedColumn& column : code.columns) {
    Check(column.kind <= Kind::kList && IsScalar(column.element), "a column has no known type");
    Check(column.kind == Kind::kList || column.element == Kind::kNull, "a column that is no list has elements");
  }
  Check(code.order_reasons.size() == code.order_columns.size(), "order columns and reasons differ");
  for (size_t i = 0; i < code.order_columns.size(); ++i) {
    Check(code.order_columns[i] < code.columns.size(), "an order column is not there");
    const Kind kind = code.columns[code.order_columns[i]].kind;
    const Type type = TypeOf(kind);
    Check(type == Type::kNull || type == Type::kWord || type == Type::kString || type == Type::kDecimal,
          "an order column has no order");
    Check(code.order_reasons[i] != kNoReason && code.order_reasons[i] < code.reasons.size(),
          "an order column has no reason");
  }
  for (const ReturnedColumn& column : code.returned)
    Check(IsScalar(column.kind), "a returned column has no known type");
}

void CheckFunctions(const Code& code) {
  for (const UserFunction& function : code.functions) {
    const auto known = [](Kind kind) { return kind != Kind::kNull && IsScalar(kind); };
    const auto taken = [&](Kind kind) { return known(IsArray(kind) ? ElementOf(kind) : kind); };
    const bool whole = std::ranges::all_of(function.arguments, taken) && std::ranges::all_of(function.results, known);
    Check(whole && !function.results.empty(), "a function has no known types");
  }
}

void CheckConstants(const Code& code) {
  Check(code.constants.size() <= code.registers, "there are more constants than registers");
  for (size_t i = 0; i < code.constants.size(); ++i) {
    const Kind kind = code.constant_kinds[i];
    const Value& value = code.constants[i];
    Check(IsScalar(kind), "a constant has no known type");
    Check(kind != Kind::kBool || value.i == 0 || value.i == 1, "a bool is neither true nor false");
    Check(kind != Kind::kDecimal || decimal::Fits(value.d), "a decimal has too many digits");
  }
}

void CheckSite(const Code& code, const Site& site, std::span<const TableSpec* const> tables) {
  Check(site.table < tables.size(), "a site names no table");
  const std::vector<Kind>& key = tables[site.table]->key;
  Check(site.parts.size() == key.size(), "a site has not the parts of its key");
  if (site.of_element) {
    Check(key.size() == 1 && site.parts[0] < code.columns.size(), "an element site names no column");
    const UsedColumn& column = code.columns[site.parts[0]];
    Check(column.kind == Kind::kNull || column.kind == Kind::kList, "an element site has no list");
    Check(Suits(column.element, TypeOf(key[0])), "an element site has elements of another type");
    return;
  }
  for (size_t i = 0; i < key.size(); ++i) {
    const bool constant = site.parts[i] & kConstantPart;
    const uint32_t index = site.parts[i] & ~kConstantPart;
    Check(index < (constant ? code.constants.size() : code.columns.size()), "a site names no column");
    const Kind kind = constant ? code.constant_kinds[index] : code.columns[index].kind;
    Check(Suits(kind, TypeOf(key[i])), "a site's column has another type than the key");
  }
}

bool Matches(Match match, Kind kind) {
  switch (match) {
    case Match::kInt:
    case Match::kIntAsFloat:
      return TypeOf(kind) == Type::kWord;
    case Match::kFloat:
      return kind == Kind::kFloat64;
    case Match::kDecimal:
    case Match::kDecimalAsFloat:
      return kind == Kind::kDecimal;
    case Match::kBool:
      return kind == Kind::kBool;
    case Match::kString:
      return kind == Kind::kString;
  }
  return false;
}

void CheckCondition(const Code& code, const Condition& condition) {
  Check(condition.column < code.columns.size(), "a condition names no column");
  const Kind kind = code.columns[condition.column].kind;
  Check(condition.scale >= 0 && condition.scale <= decimal::kDigitsMax, "a condition has no such scale");
  for (const Accepted& one : condition.accepted) {
    Check(Matches(one.match, kind), "a condition compares different types");
  }
}

// ------------------------------------------------------------------------------------- one transaction

void CheckAccumulator(const Accumulator& one) {
  Check(one.reduction <= Reduction::kAll && IsScalar(one.kind), "a reduction is not known");
  Check(one.reduction != Reduction::kMean || one.scale >= 0, "a mean has no such scale");
  const Type type = TypeOf(one.kind);
  const bool number = type == Type::kWord || type == Type::kFloat || type == Type::kDecimal;
  if (type == Type::kNull) return;
  switch (one.reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return Check(number, "a sum has no numbers");
    case Reduction::kAny:
    case Reduction::kAll:
      return Check(type == Type::kBool, "a condition is no bool");
    default:
      return;
  }
}

// Also of instructions that no way leads to: more than the machine looks at these.
void CheckInstruction(const Code& code, const Instruction& one, size_t tables) {
  Check(one.op <= Op::kWork, "an operation is not known");
  Check(uint64_t{one.reasons} + kFailures <= code.reason_blocks.size(), "reasons are not there");
  if (one.op == Op::kCall) {
    Check(one.aux < code.functions.size(), "a function is not there");
    const UserFunction& function = code.functions[one.aux];
    Check(one.b == function.arguments.size() && one.c == function.results.size(), "a call has not its values");
  }
  EachSource(one, [&](Register source) { Check(source < code.registers, "a register is not there"); });
  EachResult(one, [&](Register result) { Check(result < code.registers, "a register is not there"); });
  if (!TakesRow(one.op)) return;
  Check(one.a < code.registers, "a register is not there");
  Check(one.op == Op::kCheckKey || one.aux < tables, "a table is not there");
}

void CheckParts(const Code& code, const TransactionCode& transaction, size_t tables) {
  for (const Condition& condition : transaction.on) CheckCondition(code, condition);
  for (SiteId site : transaction.sites) Check(site < code.sites.size(), "a site is not there");
  for (const Loop& loop : transaction.loops) {
    Check(!loop.lists.empty(), "a loop has no list");
    for (uint32_t list : loop.lists) {
      Check(list < code.columns.size(), "a loop's list is not there");
      const Kind kind = code.columns[list].kind;
      Check(kind == Kind::kNull || kind == Kind::kList, "a loop has no list");
    }
    for (const ColumnLoad& load : loop.elements)
      Check(load.column < loop.lists.size(), "a loop's element is not there");
  }
  for (const Accumulator& one : transaction.accumulators) CheckAccumulator(one);
  Check(transaction.collections <= transaction.instructions.size(), "there are more collections than instructions");
  Check(!transaction.instructions.empty() && transaction.instructions.back().op == Op::kStop,
        "a transaction does not stop");
  for (const Instruction& one : transaction.instructions) CheckInstruction(code, one, tables);
}

// Every loop stands once, whole and inside its parents, and no jump leads into or out of one, or backward.
void CheckLoops(const TransactionCode& transaction) {
  const std::vector<Instruction>& instructions = transaction.instructions;
  std::vector<uint32_t> open = {kNoLoop};
  std::vector<bool> seen(transaction.loops.size(), false);
  std::vector<uint32_t> inside(instructions.size());  // by instruction: the innermost loop around it
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& one = instructions[i];
    inside[i] = open.back();
    if (one.op == Op::kRandom) Check(one.b == inside[i] + 1, "a random number is not of its loop");
    if (one.op == Op::kEach) {
      Check(one.a < seen.size() && !seen[one.a], "a loop is not there");
      Check(transaction.loops[one.a].body == i + 1, "a loop's body is somewhere else");
      seen[one.a] = true;
      open.push_back(one.a);
    } else if (one.op == Op::kEnd) {
      Check(open.size() > 1 && open.back() == one.a, "a loop ends that has not begun");
      Check(transaction.loops[one.a].after == i + 1, "a loop's end is somewhere else");
      open.pop_back();
    }
  }
  Check(open.size() == 1 && std::find(seen.begin(), seen.end(), false) == seen.end(), "a loop does not end");
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& one = instructions[i];
    const bool skip = one.op == Op::kSkipUnless || one.op == Op::kSkipIfNull;
    if (one.op != Op::kJump && !skip) continue;
    const uint32_t target = skip ? one.b : one.a;
    Check(target > i && target < instructions.size(), "a jump leads back or away");
    Check(inside[target] == inside[i], "a jump leads into or out of a loop");
  }
}

// A firing has a start, an end and the parts of its row's key in columns of its own.
void CheckTriggers(const Code& code, std::span<const TableSpec* const> tables) {
  Check(code.event_columns <= code.columns.size(), "there are more event columns than columns");
  Check(code.triggers.empty() || !code.order_columns.empty(), "a trigger has no clock");
  for (uint32_t column : code.order_columns) Check(column < code.event_columns, "a trigger's column has no order");
  for (const TriggerCode& one : code.triggers) {
    Check(one.transaction < code.transactions.size(), "a trigger has no transaction");
    Check(code.transactions[one.transaction].on.empty(), "a trigger has a condition");
    std::vector<Kind> kinds(2, code.columns[code.order_columns[0]].kind);
    if (one.table != kNoTable) {
      Check(one.table < tables.size() && tables[one.table]->keeps_versions, "a trigger's table keeps no versions");
      kinds.insert(kinds.end(), tables[one.table]->key.begin(), tables[one.table]->key.end());
    }
    Check(!one.session || (one.table != kNoTable && one.number < tables[one.table]->history.gaps.size()),
          "a session is not there");
    Check(one.column >= code.event_columns && one.column + kinds.size() <= code.columns.size(),
          "a trigger's column is not there");
    for (size_t i = 0; i < kinds.size(); ++i)
      Check(code.columns[one.column + i].kind == kinds[i], "a trigger's column has another type");
    Check(one.not_due < code.reasons.size(), "a trigger's reason is not there");
    Check(one.not_due == kNoReason || std::ranges::all_of(code.triggers,
                                                          [&](const TriggerCode& other) {
                                                            return other.not_due == kNoReason ||
                                                                   other.not_due == one.not_due;
                                                          }),
          "triggers are not due for different reasons");
  }
}

}  // namespace
}  // namespace verify

Status VerifyCode(const Code& code, std::span<const TableSpec* const> tables) {
  using namespace verify;
  std::string where;
  try {
    CheckColumns(code);
    CheckTriggers(code, tables);
    CheckConstants(code);
    CheckFunctions(code);
    for (ReasonId reason : code.reason_blocks) Check(reason < code.reasons.size(), "a reason is not there");
    for (const Site& site : code.sites) CheckSite(code, site, tables);
    Check(code.transactions.size() <= kTransactionsMax, "there are too many transactions");
    for (size_t i = 0; i < code.transactions.size(); ++i) {
      where = "transaction " + std::to_string(i) + ": ";
      const TransactionCode& transaction = code.transactions[i];
      CheckParts(code, transaction, tables.size());
      CheckLoops(transaction);
      FollowRegisters(code, transaction, tables);
    }
  } catch (const Refused& refused) {
    return Status::Invalid("compiled program: " + where + refused.what());
  }
  return Status::Ok();
}

}  // namespace morphspark
