// The register machine over many transactions of one type (v-schedule): instruction by instruction, and each of them
// over all transactions, one per *lane*. So an instruction is looked at once for hundreds of transactions, plain
// arithmetic vectorises, and what many lanes will read from memory can be asked for beforehand. The transactions must
// not depend on each other; what comes out is what machine.h says of each of them.
//
//              lane 0   lane 1   lane 2   lane 3
//     r5  low     100      250       30        7        A register is an array of low words and one of high
//         high                                          words, the halves of a Value; only decimals and strings
//     r6  low       1        0        0        1        have a high one. Nulls are bytes, which are looked at
//         null      0        0        1        0        only if there may be some.
//
// A lane is
//   active    it takes part in the next instruction: listed in `active_`, ascending
//   waiting   it jumped, and takes part again from `resumes_at_` on. Jumps lead forward, so every lane is met again
//   over      it failed or stopped
//
// While no lane waits, plain operations run over all lanes: nobody sees what those that are over compute. All others
// run over the active lanes only, as they might trap, follow a pointer or change a row.
//
// Thread safety: one machine and one memory per thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/scratch.h"
#include "program/machine.h"
#include "state/planned_rows.h"

namespace morphspark {

// Kept from batch to batch.
struct LaneMemory {
  Scratch<int64_t> words;  // by register: low words of its lanes, then high ones
  Scratch<uint8_t> nulls;  // by register, by lane
  std::vector<uint8_t> may_be_null;
  Arena strings;
  CallMemory calls;

  uint64_t bytes() const {
    return words.bytes() + nulls.bytes() + may_be_null.capacity() + strings.reserved() + calls.bytes();
  }
};

class LaneMachine {
 public:
  static constexpr uint32_t kLanes = 512;

  LaneMachine(const BatchContext& context, PlannedRows rows, int worker, LaneMemory* memory);

  // Programs of more registers (those of their longest transaction, and all constants) would take more than 18 MB for
  // each worker, and leave the caches.
  static constexpr uint32_t kRegistersMax = 2048;

  // Not those with loops, and so with reductions: their lanes would take turns, and wait for the longest list. Nor
  // those that read windows or compute keys: how much that is differs from lane to lane, too.
  static bool CanRun(const Code& code, const TransactionCode& transaction);

  // Runs a transaction for each of these rows of the batch, kLanes at most; their outputs go to these positions. The
  // reasons, by lane, are good until the next run.
  std::span<const ReasonId> Run(const TransactionCode& code, std::span<const BatchRow> rows,
                                std::span<const int64_t> positions);

 private:
  static constexpr uint32_t kNever = 0xFFFFFFFFu;

  // A register's arrays, by lane.
  struct Lanes {
    int64_t* low;
    int64_t* high;

    template <class T>
    T Get(uint32_t lane) const;
    template <class T>
    void Set(uint32_t lane, T value) const;
    RowHandle Row(uint32_t lane) const { return static_cast<RowHandle>(low[lane]); }
  };

  Lanes Of(Register index) {
    int64_t* const low = memory_.words.data() + uint64_t{index} * 2 * kLanes;
    return {low, low + kLanes};
  }
  // To read: whatever the register may hold.
  const uint8_t* Nulls(Register index) { return may_be_null_[index] ? OwnNulls(index) : no_nulls_; }
  // To write, once `may_be_null_` says so.
  uint8_t* OwnNulls(Register index) { return memory_.nulls.data() + uint64_t{index} * kLanes; }

  void Load(const TransactionCode& code, std::span<const BatchRow> rows);
  void PrefetchRows(const TransactionCode& code);
  void Step(const Instruction& at, std::span<const int64_t> positions);

  // -- which lanes
  bool together() const { return waiting_ == 0; }
  void Leave(uint32_t target);
  template <class Leaves>
  void LeaveIf(uint32_t target, Leaves leaves);
  void Resume(uint32_t instruction);
  template <class Body>
  void EachActive(Body body);
  template <class Body>
  void EachPlain(Body body);
  template <class Outcome>
  void Try(const Instruction& at, Outcome outcome);

  // -- nulls
  void NeedA(const Instruction& at);
  void NeedBoth(const Instruction& at);
  void SetNotNull(Register dst);
  void PrepareNulls(Register dst);
  void CopyNulls(Register dst, Register a);

  // -- shapes of instructions: T is what the operands are
  template <class T, class Function>
  void PlainA(const Instruction& at, Function function);
  template <class T, class Function>
  void PlainBoth(const Instruction& at, Function function);
  template <class T, class Function>
  void CheckedA(const Instruction& at, Function function);
  template <class T, class Function>
  void CheckedBoth(const Instruction& at, Function function);
  template <class Overflow, class Function>
  void SumOfInts(const Instruction& at, Overflow overflow, Function function);
  template <class T, class Order>
  void Compare(const Instruction& at, Order order);
  template <Kind kind>
  void Read(const Instruction& at);
  template <Kind kind>
  void Write(const Instruction& at);
  template <Kind kind, bool increase>
  void Update(const Instruction& at);
  void CompareInts(const Instruction& at);
  void Concat(const Instruction& at);
  void Call(const Instruction& at);
  void CallCompiled(const UserFunction& function, const Instruction& at);
  void CallHosted(const UserFunction& function, const Instruction& at);
  void DecimalUp(const Instruction& at);
  void Work(const Instruction& at);
  void Emit(const Instruction& at, std::span<const int64_t> positions);

  const BatchContext& context_;
  PlannedRows rows_;
  const int worker_;  // whose memory strings that are returned go to
  LaneMemory& memory_;
  uint8_t* may_be_null_;  // by register: its nulls have to be looked at

  // Of the transactions that run:
  uint32_t size_ = 0;  // lanes
  uint32_t active_size_ = 0;
  uint32_t waiting_ = 0;           // lanes
  uint32_t next_resume_ = kNever;  // the first instruction that a lane waits for
  uint32_t active_[kLanes];
  uint32_t resumes_at_[kLanes];  // by lane; 0: active, kNever: stopped
  ReasonId reasons_[kLanes];     // by lane
  uint8_t no_nulls_[kLanes] = {};
};

}  // namespace morphspark
