// A compiled program: what `lower.py` writes and the register machine runs.
//
// A transaction is a list of instructions over registers. Constants sit in registers from the start of the batch; the
// event's columns are put into registers when a transaction starts, a loop's elements when an iteration starts. Every
// instruction that can fail names a block of reasons; the failure picks one of them.
//
// The order of Op and Failure is that of machine_code.py, the encoding that of lower.py; `Decode` accepts only what
// verify.h proves safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/value.h"
#include "program/user_function.h"

namespace morphspark {

// clang-format off
#define MORPHSPARK_OPS(X)                                                                                    \
  /* control */                                                                                              \
  X(Stop) X(Jump) X(SkipUnless) X(SkipIfNull) X(Each) X(End) X(Need) X(Require) X(When)                      \
  /* conversions keep null */                                                                                \
  X(Copy) X(SetNull) X(IntToFloat) X(DecimalToFloat) X(DecimalUp) X(DecimalAssign) X(IsNull)                 \
  /* arithmetic */                                                                                           \
  X(AddI) X(SubI) X(MulI) X(FloorDivI) X(ModI) X(NegI) X(AbsI)                                               \
  X(AddF) X(SubF) X(MulF) X(DivF) X(FloorDivF) X(ModF) X(NegF) X(AbsF)                                       \
  X(AddD) X(SubD) X(MulD) X(DivD) X(FloorDivD) X(ModD) X(NegD) X(AbsD) X(Concat)                             \
  /* comparison: aux is the Comparison */                                                                    \
  X(CompareI) X(CompareF) X(CompareD) X(CompareS)                                                            \
  X(And) X(Or) X(Xor) X(Not)                                                                                 \
  X(MinI) X(MaxI) X(MinF) X(MaxF) X(MinD) X(MaxD) X(MinS) X(MaxS)                                            \
  /* state; FindUses puts into the `c` of RowOfKey whether the row may be written */                         \
  X(RowOfElement) X(RowOfKey) X(CheckKey) X(Exists)             \
  X(ReadI) X(ReadB) X(ReadS) X(ReadD) X(WriteI) X(WriteF) X(WriteB) X(WriteS) X(WriteD)                      \
  /* row.column += b: a read, an addition and a write in one */                                              \
  X(IncreaseI) X(DecreaseI) X(IncreaseF) X(DecreaseF)                                                        \
  X(Insert) X(Store) X(Delete)                                                                               \
  /* reductions */                                                                                           \
  X(Begin) X(Accumulate) X(Reduce)                                                                           \
  /* user function aux: c results from dst on, of b arguments from a on */                                   \
  X(Call)                                                                                                    \
  X(Emit)                                                                                                    \
  /* windows: dst = aggregate b over column c of row a, or of the rows in collection a */                     \
  X(Window) X(Rows) X(Collect) X(WindowOfRows)                                                               \
  /* candidates: elements of site a, a list, go to collection b; dst = the one with the key of c parts from a on */ \
  X(CollectElements) X(Choose)                                                                                \
  /* dst = a random number: the call is step a, in loop b - 1 (0: in none); dst = the wall clock */           \
  X(Random) X(Now)                                                                                           \
  /* benchmarks: dst = a, after c rounds of arithmetic of kind aux; see bench/work.h */                      \
  X(Work)
// clang-format on

enum class Op : uint16_t {
#define MORPHSPARK_OP(name) k##name,
  MORPHSPARK_OPS(MORPHSPARK_OP)
#undef MORPHSPARK_OP
};

// Which of an instruction's reasons a failure picks.
enum Failure : uint32_t {
  kNull0 = 0,
  kNull1 = 1,
  kNull2 = 2,
  kOverflow = 3,
  kDivision = 4,
  kKeyFailure = 5,
  kMissing = 6,
  kExistsFailure = 7,
  kListFailure = 8,
  kRequireFailure = 9,
  kUdfFailure = 10,
  kOutsideFailure = 11,
  kFailures = 12,
};

enum class Comparison : uint32_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class Reduction : uint32_t { kSum, kCount, kMin, kMax, kMean, kAny, kAll };

struct Instruction {
  Op op;
  uint16_t aux;  // what else the operation needs to know; see machine.cc
  Register dst;
  uint32_t a, b, c;  // registers, or indexes that the operation understands
  uint32_t reasons;  // first of kFailures entries in Code::reason_blocks
};

// A column of the event, or of a list's elements, that goes into a register.
struct ColumnLoad {
  Register dst;
  uint32_t column;  // index into the batch's used columns
};

// A row that a site names goes into a register when the transaction starts.
struct RowLoad {
  Register dst;
  SiteId site;
};

inline constexpr uint32_t kNoLoop = 0xFFFFFFFFu;

struct Loop {
  std::vector<uint32_t> lists;       // used columns that are iterated in step
  std::vector<ColumnLoad> elements;  // where their elements go: column is the position in `lists`
  uint32_t body;                     // first instruction of the body
  uint32_t after;                    // first instruction after it
  uint32_t parent = kNoLoop;         // the loop around it; found by Decode
};

struct Accumulator {
  Reduction reduction;
  Kind kind;      // of the values taken in
  int32_t scale;  // digits that a decimal mean gains
};

// An aggregate over versions of rows; see window.h.
enum class WindowAggregate : uint32_t { kSum, kCount, kMin, kMax, kMean, kFirst, kLast, kNunique, kValues };
enum class WindowBy : uint32_t {
  kTime,   // versions of the last `size`
  kRows,   // the last `size` versions
  kSince,  // versions since what register `since` holds
};
struct WindowCode {
  WindowAggregate aggregate;
  WindowBy by;
  int64_t size;
  Register since;
  Kind kind;      // of the column
  int32_t scale;  // digits that a decimal mean gains
};

// A place that names a row by event columns alone: its slots are found for the whole batch before it runs.
struct Site {
  TableId table;
  bool of_element;              // the key is an element of `parts[0]`, a list column
  std::vector<uint32_t> parts;  // used columns; kConstantPart + register for constants
};
inline constexpr uint32_t kConstantPart = 1u << 31;

// What a transaction does with the rows of a site.
struct SiteUse {
  SiteId site;
  uint16_t table;
  bool writes;
};

struct ReturnedColumn {
  Kind kind;
};

// on(column=values): a value that the column may have, and how the two are compared.
enum class Match : uint32_t { kInt, kFloat, kIntAsFloat, kDecimal, kDecimalAsFloat, kBool, kString };
struct Accepted {
  Match match;
  Value value;
};
struct Condition {
  uint32_t column;
  int32_t scale;  // of a decimal column
  std::vector<Accepted> accepted;
};

struct Operations;
struct Foresight;

// The value, condition or key of what is written to the rows of one use reads those of another; see parametric.h.
struct ParametricRead {
  uint32_t write, read;  // site uses
  bool in_step;          // both are rows of one iteration
};

struct TransactionCode {
  std::vector<Condition> on;
  std::vector<Instruction> instructions;
  std::vector<ColumnLoad> loads;
  std::vector<RowLoad> rows;
  std::vector<Loop> loops;
  std::vector<Accumulator> accumulators;
  std::vector<SiteId> sites;  // every site it uses
  std::vector<WindowCode> windows;
  uint32_t collections = 0;  // of rows
  bool is_trigger = false;   // no event starts it
  // Found by Decode:
  std::vector<SiteUse> uses;                     // by site, as `sites`
  std::vector<TableId> written;                  // every table that it may write to
  std::vector<TableId> left;                     // those of them that keep versions
  bool uses_elements = false;                    // a site is named by elements of a list
  bool computes_keys = false;                    // it names rows that are known only when it runs
  std::shared_ptr<const Operations> operations;  // what it is cut into
  std::shared_ptr<const Foresight> foresight;    // if it computes keys: what tells which
  std::vector<ParametricRead> parametric;        // what its writes read
};

struct TableSpec;

struct UsedColumn {
  Kind kind;
  Kind element;
};

// What starts a transaction that no event does.
struct TriggerCode {
  TransactionId transaction;
  bool session;
  int64_t period, window;  // of a session: its gap
  TableId table;           // whose rows start it; kNoTable: none
  uint32_t number;         // of a session: which of those over the table
  uint32_t column;         // its first column: start, end, then the parts of the key
  ReasonId not_due;        // why a firing was none after all: its window is empty; kNoReason: it never is
};
inline constexpr TableId kNoTable = 0xFFFFFFFFu;

struct Code {
  std::vector<UsedColumn> columns;  // of the event; then what triggers have in their place
  size_t event_columns = 0;
  std::vector<TriggerCode> triggers;    // in the order of definition
  ReasonId not_due = kNoReason;         // of those that have one; found by Decode
  std::vector<uint32_t> order_columns;  // used columns of the order key
  std::vector<ReasonId> order_reasons;  // `null: <column>` for each of them
  std::vector<Site> sites;
  std::vector<ReturnedColumn> returned;
  std::vector<UserFunction> functions;
  std::vector<TransactionCode> transactions;
  std::vector<ReasonId> reason_blocks;
  std::vector<std::string> reasons;  // [0] is empty: no failure
  std::vector<Value> constants;      // registers 0 … constants.size() - 1
  std::vector<uint8_t> constant_null;
  std::vector<Kind> constant_kinds;
  std::vector<std::string> strings;  // what string constants point to
  uint32_t registers = 0;

  bool uses_windows() const {
    return std::ranges::any_of(transactions, [](const TransactionCode& one) { return !one.windows.empty(); });
  }
  bool calls_functions() const { return !functions.empty(); }
  // May transactions run in parts? They read what may be taken back, which these can't bear: a window depends on many
  // writes, a key tells which rows are read at all, and a function that meets a value which one by one never is may
  // never end.
  bool may_cut() const {
    const auto computes = [](const TransactionCode& one) { return one.computes_keys; };
    return !calls_functions() && !uses_windows() && std::ranges::none_of(transactions, computes);
  }

  // Reads the encoding of lower.py. `tables` are those that the program will run on.
  static Status Decode(std::span<const int64_t> words, std::vector<std::string> strings,
                       std::span<const TableSpec* const> tables, Code* out);
};

}  // namespace morphspark
