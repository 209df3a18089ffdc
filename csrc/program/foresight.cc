#include "program/foresight.h"

#include <algorithm>

#include "program/signature.h"
#include "program/verify_registers.h"

namespace morphspark {
namespace {

class Slicer {
 public:
  Slicer(const Code& code, const TransactionCode& transaction)
      : transaction_(transaction),
        code_(transaction.instructions),
        kept_(code_.size(), false),
        registers_(code.registers, false),
        reductions_(transaction.accumulators.size(), false),
        collections_(transaction.collections, false) {}

  // Until nothing more is needed. What is needed stands before its use, or, in a loop, behind it.
  void Slice() {
    while (more_) {
      more_ = false;
      for (size_t i = code_.size(); i-- > 0;) {
        if (!kept_[i] && IsNeeded(i)) Keep(i);
      }
    }
  }

  bool Keeps(auto of_kind) const {
    for (size_t i = 0; i < code_.size(); ++i) {
      if (kept_[i] && of_kind(code_[i].op)) return true;
    }
    return false;
  }

  std::vector<Instruction> Instructions() const {
    std::vector<Instruction> sliced = code_;
    auto next = static_cast<uint32_t>(code_.size());
    for (size_t i = code_.size(); i-- > 0;) {
      if (!kept_[i]) sliced[i] = {Op::kJump, 0, 0, next, 0, 0, 0};
      if (kept_[i]) next = static_cast<uint32_t>(i);
    }
    return sliced;
  }

 private:
  bool AnyKept(size_t begin, size_t end) const {
    return std::find(kept_.begin() + begin, kept_.begin() + end, true) != kept_.begin() + end;
  }

  bool IsNeeded(size_t i) const {
    const Instruction& one = code_[i];
    switch (one.op) {
      case Op::kStop:
      case Op::kRowOfKey:
        return true;
      case Op::kJump:
        return AnyKept(i + 1, one.a);
      case Op::kSkipUnless:
      case Op::kSkipIfNull:
        return AnyKept(i + 1, one.b);
      case Op::kEach:
        return AnyKept(i + 1, transaction_.loops[one.a].after);
      case Op::kEnd:
        return kept_[transaction_.loops[one.a].body - 1];
      case Op::kNeed:  // what comes behind it relies on it
        return registers_[one.a];
      case Op::kBegin:
        return reductions_[one.a];
      case Op::kAccumulate:
        return reductions_[one.b];
      case Op::kRows:
        return collections_[one.a];
      case Op::kCollect:
      case Op::kCollectElements:
        return collections_[one.b];
      default: {
        bool needed = false;
        verify::EachResult(one, [&](Register result) { needed |= registers_[result]; });
        return needed;
      }
    }
  }

  void Keep(size_t i) {
    const Instruction& one = code_[i];
    kept_[i] = more_ = true;
    verify::EachSource(one, [&](Register source) { registers_[source] = true; });
    if (verify::TakesRow(one.op) || one.op == Op::kAccumulate) registers_[one.a] = true;
    if (one.op == Op::kReduce) reductions_[one.a] = true;
    if (one.op == Op::kChoose) collections_[one.b] = true;
  }

  const TransactionCode& transaction_;
  const std::vector<Instruction>& code_;
  std::vector<bool> kept_;         // by instruction
  std::vector<bool> registers_;    // whose values are needed
  std::vector<bool> reductions_;   // that are needed
  std::vector<bool> collections_;  // that are needed
  bool more_ = true;
};

bool ReadsVersions(Op op) { return op == Op::kWindow || op == Op::kWindowOfRows; }
bool IsCall(Op op) { return op == Op::kCall; }

}  // namespace

Foresight FindForesight(const Code& code, const TransactionCode& transaction,
                        std::span<const TableSpec* const> tables) {
  Slicer slicer(code, transaction);
  slicer.Slice();
  if (slicer.Keeps(ReadsVersions)) return {};  // histories are read by one thread, while no batch runs
  TransactionCode sliced = transaction;
  sliced.instructions = slicer.Instructions();
  try {
    verify::FollowRegisters(code, sliced, tables);
  } catch (const verify::Refused&) {
    return {};  // it relies on something that was left out
  }
  const bool reads = slicer.Keeps(verify::TakesRow), calls = slicer.Keeps(IsCall);
  return {.instructions = std::move(sliced.instructions), .reads = reads, .exact = !reads && !calls};
}

}  // namespace morphspark
