// The register machine: runs one transaction over one event. Where the rows are that it reads and writes, its `Rows`
// know: state/current_rows.h changes tables in place, state/planned_rows.h keeps a version per transaction.
//
// No allocation per operation: a frame is sized once per batch, strings that a transaction makes live in its scratch
// arena, and failures are numbers. Arithmetic is checked; a failure stops the transaction and gives its reason, and the
// caller takes the writes back.
//
// Thread safety: one frame per thread; the caller sees to it that no two threads run conflicting transactions.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/column.h"
#include "base/exact_sum.h"
#include "output/returned.h"
#include "plan/times.h"
#include "program/code.h"
#include "program/operations.h"
#include "program/window.h"
#include "state/table.h"
#include "state/table_door.h"

namespace morphspark {

// A string grew over the limit: not a transaction's failure but the end of the epoch.
inline constexpr ReasonId kStringLimit = 0xFFFFFFFFu;

// It named a row that was not foreseen: no failure either, it runs again. See execute/repair.h.
inline constexpr ReasonId kUnforeseen = 0xFFFFFFFEu;

// What a batch gives to every transaction in it.
struct BatchContext {
  const Code* code;
  std::span<const ColumnView> columns;
  std::span<const std::vector<RowHandle>> rows;    // per site: by batch row, or by element of the list column
  std::span<const std::unique_ptr<Table>> tables;  // unique_ptr: a table must not move
  std::vector<ReturnedValues>* returned;
  uint64_t max_string_bytes;
  ReasonTexts* texts = nullptr;  // where user functions put their reasons
  Times times = {};
  bool recompute = false;     // windows, for benchmarks
  TableDoor* door = nullptr;  // closed by the thread that runs transactions; null: it changes no tables
  uint64_t draws = 0;         // what all random numbers begin with: see draws.h
  int64_t wall_us = 0;        // the wall clock
};

// What a thread needs to run transactions.
class Frame {
 public:
  explicit Frame(const Code& code, int worker = 0);

 private:
  template <class Rows>
  friend class Machine;

  struct LoopState {
    int64_t next = 0;
    int64_t size = 0;
    std::vector<int64_t> starts;  // first element of each list
  };
  struct Reducer {
    int64_t count = 0;
    Int128 high = 0, low = 0;  // the sum is high × 10^19 + low, so that no sum of decimals overflows on the way
    ExactSum floats;
    Value best;
    bool found = false;  // any: a true one; all: a false one
  };

  const int worker_;  // whose memory strings that are returned go to, and whose sums windows use
  std::vector<Value> registers_;
  std::vector<uint8_t> null_;  // one byte per register
  std::vector<LoopState> loops_;
  std::vector<Reducer> reducers_;
  std::vector<std::vector<RowHandle>> collections_;
  WindowReader window_;
  std::string key_;
  CallMemory calls_;
  Arena scratch_;
};

// What the operations of a transaction leave to each other.
struct Exchange {
  Value* values;
  uint8_t* null;
  Arena* strings;  // where strings go that the one that runs leaves
};

template <class Rows>
class Machine {
 public:
  Machine(const BatchContext& context, Rows rows, Frame* frame);

  Rows& rows() { return rows_; }

  // The door that the thread has closed around what it runs next, if any.
  void BehindDoor(TableDoor* door) { door_ = door; }

  // Runs a transaction; kNoReason if it succeeded. Its output goes to `position`.
  ReasonId Run(const TransactionCode& code, BatchRow row, int64_t position);
  // Runs what tells which rows it will name; its Rows hear of them.
  void Foresee(const TransactionCode& code, BatchRow row, int64_t position);
  // Runs one of its operations. The exchange is the transaction's.
  ReasonId RunOperation(const TransactionCode& code, const Operation& operation, BatchRow row, int64_t position,
                        const Exchange& exchange);

 private:
  void Enter(const TransactionCode& code, BatchRow row);
  ReasonId Execute(const TransactionCode& code, const Instruction* begin, int64_t position);
  bool EnterLoop(const Loop& loop, Frame::LoopState* state);
  void LoadElements(const Loop& loop, Frame::LoopState* state);
  // Calls use(key) with the key in these registers; kNullKey if a part of it is null.
  template <class Use>
  RowHandle WithKey(TableId table, Register first, uint32_t parts, Use use);
  RowHandle Choose(const Instruction& at);
  double Draw(const TransactionCode& code, const Instruction& at, int64_t position) const;
  bool Concat(const Value& a, const Value& b, Value* out);
  ReasonId Call(const Instruction& at);
  ReasonId CallHosted(const UserFunction& function, const Instruction& at);
  void Accumulate(const Accumulator& accumulator, const Value& value, Frame::Reducer* reducer);
  Failure ReadWindow(const TransactionCode& code, const Instruction& at, std::span<const RowHandle> rows);
  // The result of a reduction: false on overflow.
  bool Reduce(const Accumulator& accumulator, const Frame::Reducer& reducer, Value* out, uint8_t* null);

  // What a transaction starts with. Columns of 8-byte values without nulls, the usual ones, cost a load and a store.
  struct Entry {
    struct Words {
      Register dst;
      const int64_t* values;
    };
    struct Handles {
      Register dst;
      const RowHandle* handles;
    };
    std::vector<Words> words;
    std::vector<ColumnLoad> others;
    std::vector<Handles> rows;
  };

  const BatchContext& context_;
  TableDoor* door_;  // open while a function of the user's runs, which may take its time
  Rows rows_;
  Frame& frame_;
  std::vector<Entry> entries_;  // by transaction
  BatchRow row_ = 0;            // of the transaction that runs
};

}  // namespace morphspark
