// Writes compiled programs by hand: the part of lower_steps.py that the native tests need.
//
// Constants come first, then registers; instructions are appended and jumps patched, as lower_steps.py does. Reasons
// are the names of the failures, so that a test can say which one it expects.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "columns.h"
#include "plan/resolve.h"
#include "program/code.h"
#include "program/machine.h"
#include "state/current_rows.h"
#include "state/table.h"

namespace morphspark::testing {

inline constexpr const char* kFailureNames[kFailures] = {
    "null0", "null1", "null2", "overflow", "division", "key", "missing", "exists", "list", "require", "udf", "outside"};

// A value as the encoding holds it.
struct Literal {
  Kind kind = Kind::kNull;
  Int128 bits = 0;  // of the number; an index of a string otherwise
  std::string text;
};
inline Literal OfInt(int64_t value) { return {Kind::kInt64, value, {}}; }
inline Literal OfBool(bool value) { return {Kind::kBool, value, {}}; }
inline Literal OfFloat(double value) { return {Kind::kFloat64, std::bit_cast<int64_t>(value), {}}; }
inline Literal OfDecimal(Int128 value) { return {Kind::kDecimal, value, {}}; }
inline Literal OfString(std::string text) { return {Kind::kString, 0, std::move(text)}; }
inline Literal OfNull() { return {}; }

struct OnColumn {
  uint32_t column;
  int32_t scale;
  std::vector<std::pair<Match, Literal>> accepted;
};

struct Encoded {
  std::vector<int64_t> words;
  std::vector<std::string> strings;
};

class TransactionText {
 public:
  std::vector<OnColumn> on;
  std::vector<Instruction> instructions;
  std::vector<ColumnLoad> loads;
  std::vector<RowLoad> rows;
  std::vector<Loop> loops;
  std::vector<Accumulator> accumulators;
  std::vector<SiteId> sites;
  std::vector<WindowCode> windows;

  struct Fields {
    uint32_t c = 0;
    uint16_t aux = 0;
    uint32_t reasons = 0;
  };
  uint32_t Add(Op op, Register dst = 0, uint32_t a = 0, uint32_t b = 0) { return Add(op, dst, a, b, Fields{}); }
  uint32_t Add(Op op, Register dst, uint32_t a, uint32_t b, Fields fields) {
    instructions.push_back({op, fields.aux, dst, a, b, fields.c, fields.reasons});
    return here() - 1;
  }
  uint32_t here() const { return static_cast<uint32_t>(instructions.size()); }
  // Lets a skip or a jump lead to the next instruction.
  void Patch(uint32_t at) {
    Instruction& one = instructions[at];
    (one.op == Op::kJump ? one.a : one.b) = here();
  }
  uint32_t SkipUnless(Register condition, bool wanted) {
    return Add(Op::kSkipUnless, 0, condition, 0, {.aux = wanted});
  }
  uint32_t BeginLoop(std::vector<uint32_t> lists, std::vector<ColumnLoad> elements) {
    const auto loop = static_cast<uint32_t>(loops.size());
    Add(Op::kEach, 0, loop);
    loops.push_back({std::move(lists), std::move(elements), here(), 0});
    return loop;
  }
  void EndLoop(uint32_t loop) {
    Add(Op::kEnd, 0, loop);
    loops[loop].after = here();
  }
  void Row(Register dst, SiteId site) {
    rows.push_back({dst, site});
    sites.push_back(site);
  }
};

class Assembler {
 public:
  std::vector<UsedColumn> columns;
  std::vector<uint32_t> order_columns;
  std::vector<Site> sites;
  std::vector<Kind> returned;
  std::vector<UserFunction> functions;
  std::vector<Literal> constants;
  std::vector<TransactionText> transactions;
  uint32_t registers = 0;

  uint32_t Column(Kind kind, Kind element = Kind::kNull) {
    columns.push_back({kind, element});
    return static_cast<uint32_t>(columns.size() - 1);
  }
  Register Constant(Literal literal) {
    if (registers > constants.size()) throw std::logic_error("constants come first");
    constants.push_back(std::move(literal));
    return registers++;
  }
  Register NewRegister() { return registers++; }
  Register NewRegisters(uint32_t count) {
    registers += count;
    return registers - count;
  }
  SiteId NewSite(TableId table, std::vector<uint32_t> parts, bool of_element = false) {
    sites.push_back({table, of_element, std::move(parts)});
    return static_cast<SiteId>(sites.size() - 1);
  }
  uint32_t Returned(Kind kind) {
    returned.push_back(kind);
    return static_cast<uint32_t>(returned.size() - 1);
  }
  // Its number, for Op::kCall. Its pointers go into the program, too.
  uint16_t Function(UserFunction function) {
    functions.push_back(std::move(function));
    return static_cast<uint16_t>(functions.size() - 1);
  }
  TransactionText& NewTransaction() { return transactions.emplace_back(); }

  Encoded Encode() const {
    Encoded out;
    std::vector<int64_t>& words = out.words;
    const auto string = [&](const std::string& text) {
      out.strings.push_back(text);
      return static_cast<int64_t>(out.strings.size() - 1);
    };
    const auto count = [&](const auto& items) { words.push_back(static_cast<int64_t>(items.size())); };
    const auto add = [&](auto... numbers) { (words.push_back(static_cast<int64_t>(numbers)), ...); };
    const auto list = [&](const auto& numbers) {
      count(numbers);
      for (auto number : numbers) add(number);
    };
    const auto literal = [&](const Literal& one) {
      if (one.kind == Kind::kString)
        add(string(one.text), 0);
      else
        add(one.bits, one.bits >> 64);
    };

    add(registers);
    count(columns);
    for (const UsedColumn& one : columns) add(one.kind, one.element);
    list(order_columns);
    list(std::vector<uint32_t>(order_columns.size(), 2 * kFailures + 1));  // the last reason
    count(sites);
    for (const Site& one : sites) {
      add(one.table, one.of_element);
      list(one.parts);
    }
    list(returned);
    count(functions);
    for (const UserFunction& one : functions) {
      add(one.nullable);
      list(one.arguments);
      list(one.results);
    }
    // Two blocks, so that a test can tell whose failure it was.
    add(2 * kFailures);
    for (uint32_t reason = 1; reason <= 2 * kFailures; ++reason) add(reason);
    add(2 * kFailures + 2, string(""));
    for (const char* name : kFailureNames) add(string(name));
    for (const char* name : kFailureNames) add(string(std::string("other ") + name));
    add(string("null order"));
    count(constants);
    for (const Literal& one : constants) {
      add(one.kind);
      literal(one);
    }
    count(transactions);
    for (const TransactionText& one : transactions) {
      count(one.on);
      for (const OnColumn& condition : one.on) {
        add(condition.column, condition.scale);
        count(condition.accepted);
        for (const auto& [match, value] : condition.accepted) {
          add(match);
          literal(value);
        }
      }
      count(one.instructions);
      for (const Instruction& i : one.instructions) add(i.op, i.aux, i.dst, i.a, i.b, i.c, i.reasons);
      count(one.loads);
      for (const ColumnLoad& load : one.loads) add(load.dst, load.column);
      count(one.rows);
      for (const RowLoad& row : one.rows) add(row.dst, row.site);
      count(one.loops);
      for (const Loop& loop : one.loops) {
        list(loop.lists);
        count(loop.elements);
        for (const ColumnLoad& load : loop.elements) add(load.dst, load.column);
        add(loop.body, loop.after);
      }
      count(one.accumulators);
      for (const Accumulator& a : one.accumulators) add(a.reduction, a.kind, a.scale);
      list(one.sites);
    }
    if (std::ranges::all_of(transactions, [](const TransactionText& one) { return one.windows.empty(); })) return out;
    count(columns);
    for (const TransactionText& one : transactions) {
      count(one.windows);
      for (const WindowCode& w : one.windows) add(w.aggregate, w.by, w.size, w.since, w.kind, w.scale);
      add(0);  // collections
    }
    add(0);  // triggers
    return out;
  }
};

inline std::vector<const TableSpec*> Pointers(const std::vector<TableSpec>& specs) {
  std::vector<const TableSpec*> pointers;
  for (const TableSpec& spec : specs) pointers.push_back(&spec);
  return pointers;
}

// A program that must be accepted.
inline Code Assemble(const Assembler& assembler, const std::vector<TableSpec>& specs) {
  Encoded encoded = assembler.Encode();
  Code code;
  const Status status = Code::Decode(encoded.words, std::move(encoded.strings), Pointers(specs), &code);
  if (!status.ok()) throw std::logic_error(status.message());
  code.functions = assembler.functions;
  return code;
}

// The machine with all it needs around it, without the engine: transactions run one by one, by row.
class Stage {
 public:
  Stage(const Assembler& assembler, const std::vector<TableSpec>& specs) : code_(Assemble(assembler, specs)), pool_(1) {
    for (const TableSpec& spec : specs) tables_.push_back(std::make_unique<Table>(spec));
  }

  struct Result {
    std::vector<std::string> reasons;  // by row; empty: committed
    std::vector<ColumnBuffers> returned;

    ColumnView Returned(size_t index, Kind kind) const { return ViewOf(returned[index], kind); }
  };

  // Runs transaction `transactions[row]` (0 where there are none) for every row.
  Result Run(const std::vector<const Column*>& columns, int64_t rows, std::vector<TransactionId> transactions = {}) {
    const std::vector<ColumnView> views = Views(columns);
    transactions.resize(rows, 0);
    std::vector<std::vector<Slot>> slots;
    ResolveKeys(code_, views, transactions, tables_, &pool_, &slots);
    std::vector<ReturnedValues> returned;
    for (const ReturnedColumn& column : code_.returned) returned.emplace_back(column.kind, rows);
    texts_.Reset(code_.reasons);
    const BatchContext context{&code_, views, slots, tables_, &returned, max_string_bytes, &texts_};
    Frame frame(code_);
    Machine machine(context, CurrentRows(tables_.data()), &frame);
    Result result;
    for (int64_t row = 0; row < rows; ++row) {
      for (const auto& table : tables_) table->Begin(next_stamp_);
      ++next_stamp_;
      const TransactionCode& code = code_.transactions[transactions[row]];
      const ReasonId reason = machine.Run(code, static_cast<BatchRow>(row), row);
      if (reason != kNoReason) {
        for (const auto& table : tables_) table->Undo();
      }
      result.reasons.push_back(reason == kStringLimit ? "string limit" : texts_[reason]);
    }
    for (ReturnedValues& column : returned) result.returned.push_back(std::move(column).Finish());
    for (const auto& table : tables_) {
      table->CommitEpoch();
      if (!table->Validate()) throw std::logic_error("a table is broken");
    }
    return result;
  }

  Table& table(TableId id) { return *tables_[id]; }
  uint64_t max_string_bytes = 1 << 20;

 private:
  Code code_;
  ThreadPool pool_;
  ReasonTexts texts_;
  std::vector<std::unique_ptr<Table>> tables_;
  Stamp next_stamp_ = 1;
};

}  // namespace morphspark::testing
