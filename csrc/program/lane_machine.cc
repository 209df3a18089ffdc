#include "program/lane_machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>

#include "base/lanes.h"
#include "bench/work.h"
#include "program/arithmetic.h"
#include "program/draws.h"
#include "program/row_operations.h"

namespace morphspark {
namespace {

using Words = std::array<int64_t, 2>;

template <class T>
constexpr bool kIsWide = sizeof(T) == sizeof(Words);

}  // namespace

template <class T>
[[gnu::always_inline]] inline T LaneMachine::Lanes::Get(uint32_t lane) const {
  if constexpr (kIsWide<T>) {
    return std::bit_cast<T>(Words{low[lane], high[lane]});
  } else {
    return std::bit_cast<T>(low[lane]);
  }
}

template <class T>
[[gnu::always_inline]] inline void LaneMachine::Lanes::Set(uint32_t lane, T value) const {
  if constexpr (kIsWide<T>) {
    const Words words = std::bit_cast<Words>(value);
    low[lane] = words[0];
    high[lane] = words[1];
  } else if constexpr (std::is_same_v<T, bool>) {
    low[lane] = value;
  } else {
    low[lane] = std::bit_cast<int64_t>(value);
  }
}

LaneMachine::LaneMachine(const BatchContext& context, PlannedRows rows, int worker, LaneMemory* memory)
    : context_(context), rows_(rows), worker_(worker), memory_(*memory) {
  const Code& code = *context.code;
  if (code.registers > kRegistersMax) return;
  memory->words.Resize(uint64_t{code.registers} * 2 * kLanes);
  memory->nulls.Resize(uint64_t{code.registers} * kLanes);
  memory->may_be_null.assign(code.registers, 0);
  may_be_null_ = memory->may_be_null.data();
  for (Register i = 0; i < code.constants.size(); ++i) {
    const Lanes lanes = Of(i);
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes.Set(lane, code.constants[i]);
    may_be_null_[i] = code.constant_null[i];
    std::fill_n(OwnNulls(i), kLanes, code.constant_null[i]);
  }
}

bool LaneMachine::CanRun(const Code& code, const TransactionCode& transaction) {
  return code.registers <= kRegistersMax && transaction.loops.empty() && transaction.accumulators.empty() &&
         !transaction.uses_elements && !transaction.computes_keys && transaction.windows.empty() &&
         transaction.collections == 0;
}

// Asks for the rows of all lanes. A row's newest version is found in three steps, each of which looks at what the one
// before it asked for; most rows are found in the first. Inlined, as GCC drops calls that only prefetch.
[[gnu::always_inline]] inline void LaneMachine::PrefetchRows(const TransactionCode& code) {
  uint32_t left = 0;
  for (const RowLoad& load : code.rows) {
    const TableId table = context_.code->sites[load.site].table;
    const Lanes rows = Of(load.dst);
    for (uint32_t lane = 0; lane < size_; ++lane) left += rows_.PrefetchStored(table, rows.Row(lane));
  }
  if (left == 0) return;
  for (const RowLoad& load : code.rows) {
    const TableId table = context_.code->sites[load.site].table;
    const Lanes rows = Of(load.dst);
    for (uint32_t lane = 0; lane < size_; ++lane) rows_.PrefetchSource(table, rows.Row(lane));
  }
  for (const RowLoad& load : code.rows) {
    const Lanes rows = Of(load.dst);
    for (uint32_t lane = 0; lane < size_; ++lane) rows_.PrefetchImage(rows.Row(lane));
  }
}

std::span<const ReasonId> LaneMachine::Run(const TransactionCode& code, std::span<const BatchRow> rows,
                                           std::span<const int64_t> positions) {
  assert(CanRun(*context_.code, code) && rows.size() <= kLanes && rows.size() == positions.size());
  if (memory_.strings.used()) memory_.strings.Reset();
  size_ = active_size_ = static_cast<uint32_t>(rows.size());
  waiting_ = 0;
  next_resume_ = kNever;
  for (uint32_t lane = 0; lane < size_; ++lane) active_[lane] = lane;
  std::fill_n(resumes_at_, size_, 0);
  std::fill_n(reasons_, size_, kNoReason);
  Load(code, rows);
  PrefetchRows(code);
  for (uint32_t next = 0;; ++next) {
    if (active_size_ == 0) next = next_resume_;  // what is between concerns nobody
    if (next == kNever) break;
    if (next == next_resume_) Resume(next);
    const Instruction& at = code.instructions[next];
    Step(at, positions);
  }
  return {reasons_, size_};
}

// What transactions start with.
void LaneMachine::Load(const TransactionCode& code, std::span<const BatchRow> rows) {
  for (const ColumnLoad& load : code.loads) {
    const ColumnView& column = context_.columns[load.column];
    const Lanes dst = Of(load.dst);
    const bool words = column.kind == Kind::kInt64 || column.kind == Kind::kTimestamp || column.kind == Kind::kFloat64;
    may_be_null_[load.dst] = column.kind == Kind::kNull || column.validity != nullptr;
    if (words && column.validity == nullptr) {
      const int64_t* const values = reinterpret_cast<const int64_t*>(column.values) + column.offset;
      for (uint32_t lane = 0; lane < size_; ++lane) dst.low[lane] = values[rows[lane]];
      continue;
    }
    uint8_t* const null = OwnNulls(load.dst);
    for (uint32_t lane = 0; lane < size_; ++lane) {
      Value value = {.d = 0};
      null[lane] = !column.Load(rows[lane], &value);
      dst.Set(lane, value);
    }
  }
  for (const RowLoad& load : code.rows) {
    const RowHandle* const handles = context_.rows[load.site].data();
    const Lanes dst = Of(load.dst);
    for (uint32_t lane = 0; lane < size_; ++lane) dst.low[lane] = handles[rows[lane]];
  }
}

// ------------------------------------------------------------------------------------------------- which lanes

// The active lanes of which `leaves(lane)` is true wait until `target`.
template <class Leaves>
void LaneMachine::LeaveIf(uint32_t target, Leaves leaves) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < active_size_; ++i) {
    const uint32_t lane = active_[i];
    const bool gone = leaves(lane);
    resumes_at_[lane] = gone ? target : 0;
    active_[kept] = lane;
    kept += !gone;
  }
  if (kept == active_size_) return;
  if (target != kNever) waiting_ += active_size_ - kept;
  next_resume_ = std::min(next_resume_, target);
  active_size_ = kept;
}

void LaneMachine::Leave(uint32_t target) {
  LeaveIf(target, [](uint32_t) { return true; });
}

// Lanes that waited for this instruction are active again.
void LaneMachine::Resume(uint32_t instruction) {
  active_size_ = waiting_ = 0;
  next_resume_ = kNever;
  for (uint32_t lane = 0; lane < size_; ++lane) {
    if (reasons_[lane] != kNoReason || resumes_at_[lane] == kNever) continue;
    if (resumes_at_[lane] > instruction) {
      ++waiting_;
      next_resume_ = std::min(next_resume_, resumes_at_[lane]);
    } else {
      resumes_at_[lane] = 0;
      active_[active_size_++] = lane;
    }
  }
}

template <class Body>
[[gnu::always_inline]] inline void LaneMachine::EachActive(Body body) {
  for (uint32_t i = 0; i < active_size_; ++i) body(active_[i]);
}

// For what may be done for any lane, whatever is in its registers.
template <class Body>
[[gnu::always_inline]] inline void LaneMachine::EachPlain(Body body) {
  const bool worth_it = 2 * active_size_ >= size_;  // else most of the work would be for lanes that are over
  if (together() && worth_it) return EachLane(size_, body);
  EachActive(body);
}

// Calls outcome(lane) for the active lanes; those that fail are over.
template <class Outcome>
[[gnu::always_inline]] inline void LaneMachine::Try(const Instruction& at, Outcome outcome) {
  const ReasonId* const reasons = &context_.code->reason_blocks[at.reasons];
  uint32_t kept = 0;
  for (uint32_t i = 0; i < active_size_; ++i) {
    const uint32_t lane = active_[i];
    const Failure failed = outcome(lane);
    active_[kept++] = lane;
    if (failed != kFine) [[unlikely]] {
      reasons_[lane] = reasons[failed];
      --kept;
    }
  }
  active_size_ = kept;
}

// ----------------------------------------------------------------------------------------------------- nulls

void LaneMachine::NeedA(const Instruction& at) {
  if (!may_be_null_[at.a]) return;
  const uint8_t* const null = Nulls(at.a);
  Try(at, [=](uint32_t lane) { return null[lane] ? kNull0 : kFine; });
}

void LaneMachine::NeedBoth(const Instruction& at) {
  if (!may_be_null_[at.a] && !may_be_null_[at.b]) return;
  const uint8_t* const a = Nulls(at.a);
  const uint8_t* const b = Nulls(at.b);
  Try(at, [=](uint32_t lane) { return a[lane] ? kNull0 : b[lane] ? kNull1 : kFine; });
}

// The active lanes have a value now.
void LaneMachine::SetNotNull(Register dst) {
  if (!may_be_null_[dst]) return;
  if (together()) {
    may_be_null_[dst] = 0;
    return;
  }
  uint8_t* const null = OwnNulls(dst);
  EachActive([=](uint32_t lane) { null[lane] = 0; });
}

// Some of the active lanes become null. Those that wait stay what they are.
void LaneMachine::PrepareNulls(Register dst) {
  if (may_be_null_[dst]) return;
  std::fill_n(OwnNulls(dst), size_, 0);
  may_be_null_[dst] = 1;
}

void LaneMachine::CopyNulls(Register dst, Register a) {
  if (!may_be_null_[a]) return SetNotNull(dst);
  PrepareNulls(dst);
  const uint8_t* const from = Nulls(a);
  uint8_t* const to = OwnNulls(dst);
  EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { to[lane] = from[lane]; });
}

// ------------------------------------------------------------------------------------- shapes of instructions

template <class T, class Function>
void LaneMachine::PlainA(const Instruction& at, Function function) {
  NeedA(at);
  const Lanes a = Of(at.a), dst = Of(at.dst);
  EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.Set(lane, function(a.Get<T>(lane))); });
  SetNotNull(at.dst);
}

template <class T, class Function>
void LaneMachine::PlainBoth(const Instruction& at, Function function) {
  NeedBoth(at);
  const Lanes a = Of(at.a), b = Of(at.b), dst = Of(at.dst);
  const auto one = [=](uint32_t lane) MORPHSPARK_INLINE { dst.Set(lane, function(a.Get<T>(lane), b.Get<T>(lane))); };
  if constexpr (kIsWide<T>) {
    EachActive(one);  // it would not vectorise, and a string may point anywhere
  } else {
    EachPlain(one);
  }
  SetNotNull(at.dst);
}

template <class T, class Function>
void LaneMachine::CheckedA(const Instruction& at, Function function) {
  NeedA(at);
  const Lanes a = Of(at.a), dst = Of(at.dst);
  Try(at, [=](uint32_t lane) {
    T result;
    const Failure failed = function(a.Get<T>(lane), &result);
    if (failed == kFine) dst.Set(lane, result);
    return failed;
  });
  SetNotNull(at.dst);
}

template <class T, class Function>
void LaneMachine::CheckedBoth(const Instruction& at, Function function) {
  NeedBoth(at);
  const Lanes a = Of(at.a), b = Of(at.b), dst = Of(at.dst);
  Try(at, [=](uint32_t lane) {
    T result;
    const Failure failed = function(a.Get<T>(lane), b.Get<T>(lane), &result);
    if (failed == kFine) dst.Set(lane, result);
    return failed;
  });
  SetNotNull(at.dst);
}

// Looks for overflows first, as `dst` may be an operand: both loops vectorise, and an overflow is rare.
template <class Overflow, class Function>
void LaneMachine::SumOfInts(const Instruction& at, Overflow overflow, Function function) {
  NeedBoth(at);
  const Lanes a = Of(at.a), b = Of(at.b), dst = Of(at.dst);
  const auto fails = [=](uint32_t lane) MORPHSPARK_INLINE { return overflow(a.low[lane], b.low[lane]); };
  if (!together() || AnyLane(size_, fails) < 0) {
    Try(at, [=](uint32_t lane) { return fails(lane) < 0 ? kOverflow : kFine; });
  }
  EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.low[lane] = function(a.low[lane], b.low[lane]); });
  SetNotNull(at.dst);
}

template <class T, class Order>
void LaneMachine::Compare(const Instruction& at, Order order) {
  const auto comparison = static_cast<Comparison>(at.aux);
  PlainBoth<T>(at, [=](T a, T b) MORPHSPARK_INLINE { return Holds(comparison, order(a, b)); });
}

// As Compare, in a form that vectorises.
void LaneMachine::CompareInts(const Instruction& at) {
  const int64_t held = kOrdersHeld[at.aux];
  const int64_t less = held & 1, equal = held >> 1 & 1, greater = held >> 2 & 1;
  PlainBoth<int64_t>(at, [=](int64_t a, int64_t b) MORPHSPARK_INLINE {
    return (a < b ? less : 0) | (a == b ? equal : 0) | (a > b ? greater : 0);
  });
}

template <Kind kind>
void LaneMachine::Read(const Instruction& at) {
  const Lanes rows = Of(at.a), dst = Of(at.dst);
  Try(at, [&](uint32_t lane) {
    Value value;
    const Failure failed = ReadColumn<kind>(rows_, at.aux, rows.Row(lane), at.c, &value);
    if (failed != kFine) [[unlikely]]
      return failed;
    if constexpr (kind == Kind::kString || kind == Kind::kDecimal) {
      dst.Set(lane, value);
    } else {
      dst.low[lane] = value.i;
    }
    return kFine;
  });
  SetNotNull(at.dst);
}

template <Kind kind>
void LaneMachine::Write(const Instruction& at) {
  const Lanes rows = Of(at.a), values = Of(at.b);
  const uint8_t* const null = Nulls(at.b);
  Try(at, [&](uint32_t lane) {
    return WriteColumn<kind>(rows_, at.aux, rows.Row(lane), at.c, values.Get<Value>(lane), null[lane]);
  });
}

template <Kind kind, bool increase>
void LaneMachine::Update(const Instruction& at) {
  constexpr Change kChange = increase ? Change::kIncrease : Change::kDecrease;
  const Lanes rows = Of(at.a), values = Of(at.b);
  const uint8_t* const null = Nulls(at.b);
  Try(at, [&](uint32_t lane) {
    const Value by = {.i = values.low[lane]};
    return UpdateColumn<kind, kChange>(rows_, at.aux, rows.Row(lane), at.c, by, null[lane]);
  });
}

// From an integer (c = 1) or a decimal, by aux digits; null stays null.
void LaneMachine::DecimalUp(const Instruction& at) {
  const Lanes a = Of(at.a), dst = Of(at.dst);
  const uint8_t* const null = Nulls(at.a);
  Try(at, [=, &at](uint32_t lane) {
    if (null[lane]) return kFine;
    const Int128 from = at.c ? Int128{a.low[lane]} : a.Get<Int128>(lane);
    Int128 result;
    const Failure failed = ScaleUp(from, at.aux, &result);
    if (failed == kFine) dst.Set(lane, result);
    return failed;
  });
  CopyNulls(at.dst, at.a);
}

void LaneMachine::Concat(const Instruction& at) {
  NeedBoth(at);
  const Lanes a = Of(at.a), b = Of(at.b), dst = Of(at.dst);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < active_size_; ++i) {
    const uint32_t lane = active_[i];
    const Bytes first = a.Get<Bytes>(lane), second = b.Get<Bytes>(lane);
    const uint64_t size = first.size + second.size;
    if (size > context_.max_string_bytes) {
      reasons_[lane] = kStringLimit;
      continue;
    }
    char* const bytes = memory_.strings.Allocate(size);
    std::memcpy(bytes, first.data, first.size);
    std::memcpy(bytes + first.size, second.data, second.size);
    dst.Set(lane, Bytes{bytes, size});
    active_[kept++] = lane;
  }
  active_size_ = kept;
  SetNotNull(at.dst);
}

void LaneMachine::Call(const Instruction& at) {
  const UserFunction& function = context_.code->functions[at.aux];
  if (function.compiled != nullptr) {
    CallCompiled(function, at);
  } else {
    CallHosted(function, at);
  }
}

void LaneMachine::CallCompiled(const UserFunction& function, const Instruction& at) {
  const ReasonId otherwise = context_.code->reason_blocks[at.reasons + kUdfFailure];
  Value* const arguments = memory_.calls.Values(function);
  Value* const results = arguments + at.b;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < active_size_; ++i) {
    const uint32_t lane = active_[i];
    for (uint32_t j = 0; j < at.b; ++j) arguments[j] = Of(at.a + j).Get<Value>(lane);
    if (function.compiled(arguments, arguments, results, results) != 0) [[unlikely]] {
      reasons_[lane] = ReasonOf(function, arguments, otherwise, &memory_.calls, &memory_.strings, context_.texts);
      continue;
    }
    for (uint32_t j = 0; j < at.c; ++j) Of(at.dst + j).Set(lane, results[j]);
    active_[kept++] = lane;
  }
  active_size_ = kept;
  for (uint32_t j = 0; j < at.c; ++j) SetNotNull(at.dst + j);
}

// One call for all lanes.
void LaneMachine::CallHosted(const UserFunction& function, const Instruction& at) {
  CallMemory& memory = memory_.calls;
  UserCall call = memory.Prepare(function, active_size_, &memory_.strings, context_.texts);
  for (uint32_t j = 0; j < at.b; ++j) {
    const Lanes from = Of(at.a + j);
    for (uint32_t i = 0; i < active_size_; ++i) memory.Set(j, i, from.Get<Value>(active_[i]));
  }
  CallHost(function, &call);
  for (uint32_t j = 0; j < at.c; ++j) {
    if (function.nullable) {
      PrepareNulls(at.dst + j);
    } else {
      SetNotNull(at.dst + j);
    }
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < active_size_; ++i) {
    const uint32_t lane = active_[i];
    reasons_[lane] = call.reasons[i];
    for (uint32_t j = 0; j < at.c; ++j) {
      const Value value = CallMemory::Result(call, j, i);
      const bool null = call.result_null[j * call.rows + i];
      if (reasons_[lane] == kNoReason && ExceedsLimit(function, j, value, null, context_.max_string_bytes))
        reasons_[lane] = kStringLimit;
      Of(at.dst + j).Set(lane, value);
      if (function.nullable) OwnNulls(at.dst + j)[lane] = null;
    }
    active_[kept] = lane;
    kept += reasons_[lane] == kNoReason;
  }
  active_size_ = kept;
}

void LaneMachine::Work(const Instruction& at) {
  NeedA(at);
  const Lanes a = Of(at.a), dst = Of(at.dst);
  int64_t values[kLanes];
  for (uint32_t i = 0; i < active_size_; ++i) values[i] = a.low[active_[i]];
  WorkOnLanes(static_cast<WorkKind>(at.aux), values, active_size_, at.c);
  for (uint32_t i = 0; i < active_size_; ++i) dst.low[active_[i]] = values[i];
  SetNotNull(at.dst);
}

void LaneMachine::Emit(const Instruction& at, std::span<const int64_t> positions) {
  ReturnedValues& column = (*context_.returned)[at.b];
  const Lanes a = Of(at.a);
  const uint8_t* const null = Nulls(at.a);
  EachActive([&](uint32_t lane) {
    if (!null[lane]) column.Set(positions[lane], a.Get<Value>(lane), worker_);
  });
}

// ------------------------------------------------------------------------------------------- the instructions

void LaneMachine::Step(const Instruction& at, std::span<const int64_t> positions) {
  const auto fabs = [](double a) MORPHSPARK_INLINE { return std::fabs(a); };
  switch (at.op) {
    // -- control
    case Op::kStop:
      return Leave(kNever);
    case Op::kJump:
      return Leave(at.a);
    case Op::kSkipUnless: {
      const uint8_t* const null = Nulls(at.a);
      const Lanes a = Of(at.a);
      return LeaveIf(at.b, [=, &at](uint32_t lane) { return null[lane] || a.low[lane] != at.aux; });
    }
    case Op::kSkipIfNull: {
      const uint8_t* const null = Nulls(at.a);
      return LeaveIf(at.b, [=](uint32_t lane) { return null[lane]; });
    }
    case Op::kNeed: {
      const uint8_t* const null = Nulls(at.a);
      return Try(at, [=, &at](uint32_t lane) { return null[lane] ? static_cast<Failure>(at.aux) : kFine; });
    }
    case Op::kRequire: {
      NeedA(at);
      const Lanes a = Of(at.a);
      return Try(at, [=](uint32_t lane) { return a.low[lane] ? kFine : kRequireFailure; });
    }
    case Op::kWhen:
      return PlainA<int64_t>(at, [](int64_t a) MORPHSPARK_INLINE { return a; });

    // -- conversions keep null
    case Op::kCopy: {
      const Lanes a = Of(at.a), dst = Of(at.dst);
      EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.low[lane] = a.low[lane]; });
      EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.high[lane] = a.high[lane]; });
      return CopyNulls(at.dst, at.a);
    }
    case Op::kSetNull: {
      PrepareNulls(at.dst);
      uint8_t* const null = OwnNulls(at.dst);
      return EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { null[lane] = 1; });
    }
    case Op::kIsNull: {
      const uint8_t* const null = Nulls(at.a);
      const Lanes dst = Of(at.dst);
      EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.low[lane] = null[lane]; });
      return SetNotNull(at.dst);
    }
    case Op::kIntToFloat: {
      const Lanes a = Of(at.a), dst = Of(at.dst);
      EachPlain([=](uint32_t lane) MORPHSPARK_INLINE { dst.Set(lane, static_cast<double>(a.low[lane])); });
      return CopyNulls(at.dst, at.a);
    }
    case Op::kDecimalToFloat: {
      const Lanes a = Of(at.a), dst = Of(at.dst);
      const uint8_t* const null = Nulls(at.a);
      EachActive([=, &at](uint32_t lane) {
        if (!null[lane]) dst.Set(lane, decimal::ToDouble(a.Get<Int128>(lane), at.aux));
      });
      return CopyNulls(at.dst, at.a);
    }
    case Op::kDecimalUp:
      return DecimalUp(at);
    case Op::kDecimalAssign:
      return CheckedA<Int128>(
          at, [&](Int128 a, Int128* out) { return Assign(a, static_cast<int32_t>(at.c), at.aux, out); });

    // -- integers
    case Op::kAddI:
      return SumOfInts(
          at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return AddOverflow(a, b); },
          [](int64_t a, int64_t b) MORPHSPARK_INLINE { return WrappedAdd(a, b); });
    case Op::kSubI:
      return SumOfInts(
          at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return SubOverflow(a, b); },
          [](int64_t a, int64_t b) MORPHSPARK_INLINE { return WrappedSub(a, b); });
    case Op::kMulI:
      return CheckedBoth<int64_t>(at, [](int64_t a, int64_t b, int64_t* out) { return Mul(a, b, out); });
    case Op::kFloorDivI:
      return CheckedBoth<int64_t>(at, [](int64_t a, int64_t b, int64_t* out) { return FloorDivide(a, b, out); });
    case Op::kModI:
      return CheckedBoth<int64_t>(at, [](int64_t a, int64_t b, int64_t* out) { return FloorModulo(a, b, out); });
    case Op::kNegI:
      return CheckedA<int64_t>(at, [](int64_t a, int64_t* out) { return Negate(a, out); });
    case Op::kAbsI:
      return CheckedA<int64_t>(at, [](int64_t a, int64_t* out) { return Absolute(a, out); });

    // -- floats
    case Op::kAddF:
      return PlainBoth<double>(at, [](double a, double b) MORPHSPARK_INLINE { return a + b; });
    case Op::kSubF:
      return PlainBoth<double>(at, [](double a, double b) MORPHSPARK_INLINE { return a - b; });
    case Op::kMulF:
      return PlainBoth<double>(at, [](double a, double b) MORPHSPARK_INLINE { return a * b; });
    case Op::kDivF:
      return CheckedBoth<double>(at, [](double a, double b, double* out) { return Divide(a, b, out); });
    case Op::kFloorDivF:
      return CheckedBoth<double>(at, [](double a, double b, double* out) { return FloorDivide(a, b, out); });
    case Op::kModF:
      return CheckedBoth<double>(at, [](double a, double b, double* out) { return FloorModulo(a, b, out); });
    case Op::kNegF:
      return PlainA<double>(at, [](double a) MORPHSPARK_INLINE { return -a; });
    case Op::kAbsF:
      return PlainA<double>(at, fabs);

    // -- decimals
    case Op::kAddD:
      return CheckedBoth<Int128>(at, [](Int128 a, Int128 b, Int128* out) { return Add(a, b, out); });
    case Op::kSubD:
      return CheckedBoth<Int128>(at, [](Int128 a, Int128 b, Int128* out) { return Sub(a, b, out); });
    case Op::kMulD:
      return CheckedBoth<Int128>(at, [](Int128 a, Int128 b, Int128* out) { return Mul(a, b, out); });
    case Op::kDivD:
      return CheckedBoth<Int128>(at, [&](Int128 a, Int128 b, Int128* out) { return Divide(a, b, at.c, out); });
    case Op::kFloorDivD:
      return CheckedBoth<Int128>(at, [](Int128 a, Int128 b, Int128* out) { return FloorDivide(a, b, out); });
    case Op::kModD:
      return CheckedBoth<Int128>(at, [](Int128 a, Int128 b, Int128* out) { return FloorModulo(a, b, out); });
    case Op::kNegD:
      return CheckedA<Int128>(at, [](Int128 a, Int128* out) { return *out = -a, kFine; });
    case Op::kAbsD:
      return CheckedA<Int128>(at, [](Int128 a, Int128* out) { return *out = decimal::Abs(a), kFine; });

    case Op::kConcat:
      return Concat(at);

    // -- comparison and logic
    case Op::kCompareI:
      return CompareInts(at);
    case Op::kCompareF:
      return Compare<double>(at, [](double a, double b) MORPHSPARK_INLINE { return CompareFloat(a, b); });
    case Op::kCompareS:
      return Compare<Bytes>(at, [](Bytes a, Bytes b) MORPHSPARK_INLINE { return CompareBytes(a, b); });
    case Op::kCompareD: {
      const auto shift = static_cast<int32_t>(at.c);
      return Compare<Int128>(at, [=](Int128 a, Int128 b) MORPHSPARK_INLINE { return CompareDecimal(a, b, shift); });
    }
    case Op::kAnd:
      return PlainBoth<int64_t>(at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return a & b; });
    case Op::kOr:
      return PlainBoth<int64_t>(at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return a | b; });
    case Op::kXor:
      return PlainBoth<int64_t>(at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return a ^ b; });
    case Op::kNot:
      return PlainA<int64_t>(at, [](int64_t a) MORPHSPARK_INLINE { return int64_t{a == 0}; });
    case Op::kMinI:
      return PlainBoth<int64_t>(at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return Smaller(a, b); });
    case Op::kMaxI:
      return PlainBoth<int64_t>(at, [](int64_t a, int64_t b) MORPHSPARK_INLINE { return Larger(a, b); });
    case Op::kMinF:
      return PlainBoth<double>(at, [](double a, double b) MORPHSPARK_INLINE { return Smaller(a, b); });
    case Op::kMaxF:
      return PlainBoth<double>(at, [](double a, double b) MORPHSPARK_INLINE { return Larger(a, b); });
    case Op::kMinD:
      return PlainBoth<Int128>(at, [](Int128 a, Int128 b) MORPHSPARK_INLINE { return Smaller(a, b); });
    case Op::kMaxD:
      return PlainBoth<Int128>(at, [](Int128 a, Int128 b) MORPHSPARK_INLINE { return Larger(a, b); });
    case Op::kMinS:
      return PlainBoth<Bytes>(at, [](Bytes a, Bytes b) MORPHSPARK_INLINE { return Smaller(a, b); });
    case Op::kMaxS:
      return PlainBoth<Bytes>(at, [](Bytes a, Bytes b) MORPHSPARK_INLINE { return Larger(a, b); });

    // -- state
    case Op::kCheckKey: {
      const Lanes rows = Of(at.a);
      return Try(at, [=](uint32_t lane) { return CheckKey(rows.Row(lane)); });
    }
    case Op::kExists: {
      const Lanes rows = Of(at.a), dst = Of(at.dst);
      Try(at, [&](uint32_t lane) {
        const Failure failed = CheckKey(rows.Row(lane));
        if (failed == kFine) dst.low[lane] = rows_.Exists(at.aux, rows.Row(lane));
        return failed;
      });
      return SetNotNull(at.dst);
    }
    case Op::kReadI:
      return Read<Kind::kInt64>(at);
    case Op::kReadB:
      return Read<Kind::kBool>(at);
    case Op::kReadS:
      return Read<Kind::kString>(at);
    case Op::kReadD:
      return Read<Kind::kDecimal>(at);
    case Op::kWriteI:
      return Write<Kind::kInt64>(at);
    case Op::kWriteF:
      return Write<Kind::kFloat64>(at);
    case Op::kWriteB:
      return Write<Kind::kBool>(at);
    case Op::kWriteS:
      return Write<Kind::kString>(at);
    case Op::kWriteD:
      return Write<Kind::kDecimal>(at);
    case Op::kIncreaseI:
      return Update<Kind::kInt64, true>(at);
    case Op::kDecreaseI:
      return Update<Kind::kInt64, false>(at);
    case Op::kIncreaseF:
      return Update<Kind::kFloat64, true>(at);
    case Op::kDecreaseF:
      return Update<Kind::kFloat64, false>(at);
    case Op::kInsert: {
      const Lanes rows = Of(at.a);
      return Try(at, [&](uint32_t lane) { return InsertRow(rows_, at.aux, rows.Row(lane)); });
    }
    case Op::kStore: {
      const Lanes rows = Of(at.a), values = Of(at.b);
      return EachActive([&](uint32_t lane) { rows_.Store(at.aux, rows.Row(lane), at.c, values.Get<Value>(lane)); });
    }
    case Op::kDelete: {
      const Lanes rows = Of(at.a);
      return Try(at, [&](uint32_t lane) { return DeleteRow(rows_, at.aux, rows.Row(lane)); });
    }

    case Op::kEmit:
      return Emit(at, positions);
    case Op::kCall:
      return Call(at);
    case Op::kRandom: {
      const Lanes dst = Of(at.dst);
      EachPlain(
          [&](uint32_t lane) { dst.Set(lane, draws::Uniform(draws::Of(context_.draws, positions[lane], at.a))); });
      return SetNotNull(at.dst);
    }
    case Op::kNow: {
      const Lanes dst = Of(at.dst);
      EachPlain([=, now = context_.wall_us](uint32_t lane) MORPHSPARK_INLINE { dst.low[lane] = now; });
      return SetNotNull(at.dst);
    }
    case Op::kWork:
      return Work(at);

    // -- see CanRun
    case Op::kEach:
    case Op::kEnd:
    case Op::kRowOfElement:
    case Op::kRowOfKey:
    case Op::kWindow:
    case Op::kRows:
    case Op::kCollect:
    case Op::kWindowOfRows:
    case Op::kCollectElements:
    case Op::kChoose:
    case Op::kBegin:
    case Op::kAccumulate:
    case Op::kReduce:
      assert(false);
  }
}

}  // namespace morphspark
