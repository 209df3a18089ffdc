#include "program/machine.h"

#include <cmath>
#include <type_traits>

#include "base/decimal.h"
#include "bench/work.h"
#include "program/arithmetic.h"
#include "program/draws.h"
#include "program/foresight.h"
#include "program/row_operations.h"
#include "state/current_rows.h"
#include "state/foreseen_rows.h"
#include "state/past_rows.h"
#include "state/planned_rows.h"

namespace morphspark {
namespace {

constexpr Int128 kReducerBase = Int128{10'000'000'000} * 1'000'000'000;  // 10^19

}  // namespace

Frame::Frame(const Code& code, int worker)
    : worker_(worker), registers_(code.registers), null_(code.registers, 0), window_(worker) {
  for (size_t i = 0; i < code.constants.size(); ++i) {
    registers_[i] = code.constants[i];
    null_[i] = code.constant_null[i];
  }
  size_t loops = 0, reducers = 0, collections = 0;
  for (const TransactionCode& transaction : code.transactions) {
    loops = std::max(loops, transaction.loops.size());
    reducers = std::max(reducers, transaction.accumulators.size());
    collections = std::max<size_t>(collections, transaction.collections);
  }
  loops_.resize(loops);
  reducers_.resize(reducers);
  collections_.resize(collections);
}

template <class Rows>
Machine<Rows>::Machine(const BatchContext& context, Rows rows, Frame* frame)
    : context_(context), door_(context.door), rows_(rows), frame_(*frame) {
  frame_.window_.Recompute(context.recompute);
  for (const TransactionCode& code : context.code->transactions) {
    Entry& entry = entries_.emplace_back();
    for (const ColumnLoad& load : code.loads) {
      const ColumnView& column = context.columns[load.column];
      const bool words =
          column.kind == Kind::kInt64 || column.kind == Kind::kTimestamp || column.kind == Kind::kFloat64;
      if (words && column.validity == nullptr) {
        entry.words.push_back({load.dst, reinterpret_cast<const int64_t*>(column.values) + column.offset});
      } else {
        entry.others.push_back(load);
      }
    }
    for (const RowLoad& load : code.rows) entry.rows.push_back({load.dst, context.rows[load.site].data()});
  }
}

template <class Rows>
ReasonId Machine<Rows>::Run(const TransactionCode& code, BatchRow row, int64_t position) {
  if (frame_.scratch_.used()) frame_.scratch_.Reset();
  Enter(code, row);
  return Execute(code, code.instructions.data(), position);
}

template <class Rows>
void Machine<Rows>::Foresee(const TransactionCode& code, BatchRow row, int64_t position) {
  if (frame_.scratch_.used()) frame_.scratch_.Reset();
  Enter(code, row);
  Execute(code, code.foresight->instructions.data(), position);
}

template <class Rows>
ReasonId Machine<Rows>::RunOperation(const TransactionCode& code, const Operation& operation, BatchRow row,
                                     int64_t position, const Exchange& exchange) {
  if (frame_.scratch_.used()) frame_.scratch_.Reset();
  Enter(code, row);
  for (const Transfer& one : operation.imports) {
    frame_.registers_[one.value] = exchange.values[one.place];
    frame_.null_[one.value] = exchange.null[one.place];
  }
  for (Register one : operation.perhaps) frame_.null_[one] = 1;
  const ReasonId reason = Execute(code, operation.instructions.data(), position);
  for (const Transfer& one : operation.exports) {
    if (reason == kNoReason) {
      Value& left = exchange.values[one.place];
      left = frame_.registers_[one.value];
      exchange.null[one.place] = frame_.null_[one.value];
      if (one.text && !frame_.null_[one.value]) left.s = exchange.strings->Copy(left.s);
    } else {
      // It may have stopped before it made the value, and the register may have that of another kind of transaction,
      // such as a number where a string is expected. With l-abort the rest runs all the same: on nothing.
      std::memset(&exchange.values[one.place], 0, sizeof(Value));
      exchange.null[one.place] = 1;
    }
  }
  return reason;
}

// Puts into registers what the transaction starts with.
template <class Rows>
[[gnu::always_inline]] inline void Machine<Rows>::Enter(const TransactionCode& code, BatchRow row) {
  Value* const r = frame_.registers_.data();
  uint8_t* const null = frame_.null_.data();
  row_ = row;
  const Entry& entry = entries_[&code - context_.code->transactions.data()];
  for (const typename Entry::Words& load : entry.words) {
    r[load.dst].i = load.values[row];
    null[load.dst] = 0;
  }
  for (const ColumnLoad& load : entry.others) null[load.dst] = !context_.columns[load.column].Load(row, &r[load.dst]);
  for (const typename Entry::Handles& load : entry.rows) r[load.dst].row = load.handles[row];
}

template <class Rows>
ReasonId Machine<Rows>::Execute(const TransactionCode& code, const Instruction* const begin, int64_t position) {
  Value* const r = frame_.registers_.data();
  uint8_t* const null = frame_.null_.data();
  Rows& rows = rows_;
  const Instruction* at = begin;

#define FAIL(failure) return context_.code->reason_blocks[at->reasons + (failure)]
#define NEED_A()                \
  if (null[at->a]) [[unlikely]] \
  FAIL(kNull0)
#define NEED_AB()                             \
  if (null[at->a] | null[at->b]) [[unlikely]] \
  FAIL(null[at->a] ? kNull0 : kNull1)
#define RESULT(field, expression)  \
  r[at->dst].field = (expression); \
  null[at->dst] = 0;               \
  break
#define FAIL_UNLESS_FINE(outcome)                                     \
  if (const Failure failed = (outcome); failed != kFine) [[unlikely]] \
  FAIL(failed)
// A result in `field` that `expression` puts into `out`.
#define CHECKED(field, expression)       \
  {                                      \
    auto* const out = &r[at->dst].field; \
    FAIL_UNLESS_FINE(expression);        \
    null[at->dst] = 0;                   \
    break;                               \
  }
#define CHECKED_AB(field, function) \
  NEED_AB();                        \
  CHECKED(field, function(r[at->a].field, r[at->b].field, out))

#define READ(kind)                                                                           \
  FAIL_UNLESS_FINE(ReadColumn<Kind::kind>(rows, at->aux, r[at->a].row, at->c, &r[at->dst])); \
  null[at->dst] = 0;                                                                         \
  break
#define WRITE(kind)                                                                                     \
  FAIL_UNLESS_FINE(WriteColumn<Kind::kind>(rows, at->aux, r[at->a].row, at->c, r[at->b], null[at->b])); \
  break
#define UPDATE(kind, change)                                                                                  \
  FAIL_UNLESS_FINE(                                                                                           \
      (UpdateColumn<Kind::kind, Change::change>(rows, at->aux, r[at->a].row, at->c, r[at->b], null[at->b]))); \
  break

  for (;; ++at) {
    switch (at->op) {
      // -- control
      case Op::kStop:
        return kNoReason;
      case Op::kJump:
        at = begin + at->a - 1;
        break;
      case Op::kSkipUnless:
        if (null[at->a] || r[at->a].i != at->aux) at = begin + at->b - 1;
        break;
      case Op::kSkipIfNull:
        if (null[at->a]) at = begin + at->b - 1;
        break;
      case Op::kEach: {
        const Loop& loop = code.loops[at->a];
        Frame::LoopState& state = frame_.loops_[at->a];
        if (!EnterLoop(loop, &state)) FAIL(kListFailure);
        if (state.size == 0) {
          at = begin + loop.after - 1;
        } else {
          LoadElements(loop, &state);
        }
        break;
      }
      case Op::kEnd: {
        const Loop& loop = code.loops[at->a];
        Frame::LoopState& state = frame_.loops_[at->a];
        if (state.next < state.size) {
          LoadElements(loop, &state);
          at = begin + loop.body - 1;
        }
        break;
      }
      case Op::kNeed:
        if (null[at->a]) FAIL(at->aux);
        break;
      case Op::kRequire:
        NEED_A();
        if (!r[at->a].i) FAIL(kRequireFailure);
        break;
      case Op::kWhen:
        NEED_A();
        RESULT(i, r[at->a].i);

      // -- conversions
      case Op::kCopy:
        r[at->dst] = r[at->a];
        null[at->dst] = null[at->a];
        break;
      case Op::kSetNull:
        null[at->dst] = 1;
        break;
      case Op::kIsNull:
        r[at->dst].i = null[at->a];
        null[at->dst] = 0;
        break;
      case Op::kIntToFloat:
        null[at->dst] = null[at->a];
        if (!null[at->a]) r[at->dst].f = static_cast<double>(r[at->a].i);
        break;
      case Op::kDecimalToFloat:
        null[at->dst] = null[at->a];
        if (!null[at->a]) r[at->dst].f = decimal::ToDouble(r[at->a].d, at->aux);
        break;
      case Op::kDecimalUp: {  // from an integer (c = 1) or a decimal, by aux digits
        null[at->dst] = null[at->a];
        if (null[at->a]) break;
        const Int128 from = at->c ? Int128{r[at->a].i} : r[at->a].d;
        CHECKED(d, ScaleUp(from, at->aux, out));
      }
      case Op::kDecimalAssign:  // c: digits to gain (positive) or to round away; aux: digits that fit
        NEED_A();
        CHECKED(d, Assign(r[at->a].d, static_cast<int32_t>(at->c), at->aux, out));

      // -- integers
      case Op::kAddI:
        CHECKED_AB(i, Add);
      case Op::kSubI:
        CHECKED_AB(i, Sub);
      case Op::kMulI:
        CHECKED_AB(i, Mul);
      case Op::kFloorDivI:
        CHECKED_AB(i, FloorDivide);
      case Op::kModI:
        CHECKED_AB(i, FloorModulo);
      case Op::kNegI:
        NEED_A();
        CHECKED(i, Negate(r[at->a].i, out));
      case Op::kAbsI:
        NEED_A();
        CHECKED(i, Absolute(r[at->a].i, out));

      // -- floats
      case Op::kAddF:
        NEED_AB();
        RESULT(f, r[at->a].f + r[at->b].f);
      case Op::kSubF:
        NEED_AB();
        RESULT(f, r[at->a].f - r[at->b].f);
      case Op::kMulF:
        NEED_AB();
        RESULT(f, r[at->a].f * r[at->b].f);
      case Op::kDivF:
        CHECKED_AB(f, Divide);
      case Op::kFloorDivF:
        CHECKED_AB(f, FloorDivide);
      case Op::kModF:
        CHECKED_AB(f, FloorModulo);
      case Op::kNegF:
        NEED_A();
        RESULT(f, -r[at->a].f);
      case Op::kAbsF:
        NEED_A();
        RESULT(f, std::fabs(r[at->a].f));

      // -- decimals: the operands have one scale, except of a product and a quotient
      case Op::kAddD:
        CHECKED_AB(d, Add);
      case Op::kSubD:
        CHECKED_AB(d, Sub);
      case Op::kMulD:
        CHECKED_AB(d, Mul);
      case Op::kDivD:  // c: digits that the numerator gains
        NEED_AB();
        CHECKED(d, Divide(r[at->a].d, r[at->b].d, at->c, out));
      case Op::kFloorDivD:
        CHECKED_AB(d, FloorDivide);
      case Op::kModD:
        CHECKED_AB(d, FloorModulo);
      case Op::kNegD:
        NEED_A();
        RESULT(d, -r[at->a].d);
      case Op::kAbsD:
        NEED_A();
        RESULT(d, decimal::Abs(r[at->a].d));

      case Op::kConcat:
        NEED_AB();
        if (!Concat(r[at->a], r[at->b], &r[at->dst])) return kStringLimit;
        null[at->dst] = 0;
        break;

      // -- comparison
      case Op::kCompareI:
        NEED_AB();
        RESULT(i, Holds(static_cast<Comparison>(at->aux), CompareInt(r[at->a].i, r[at->b].i)));
      case Op::kCompareF:
        NEED_AB();
        RESULT(i, Holds(static_cast<Comparison>(at->aux), CompareFloat(r[at->a].f, r[at->b].f)));
      case Op::kCompareS:
        NEED_AB();
        RESULT(i, Holds(static_cast<Comparison>(at->aux), CompareBytes(r[at->a].s, r[at->b].s)));
      case Op::kCompareD: {  // c: digits that a (positive) or b (negative) lacks
        NEED_AB();
        const int order = CompareDecimal(r[at->a].d, r[at->b].d, static_cast<int32_t>(at->c));
        RESULT(i, Holds(static_cast<Comparison>(at->aux), order));
      }

      case Op::kAnd:
        NEED_AB();
        RESULT(i, r[at->a].i & r[at->b].i);
      case Op::kOr:
        NEED_AB();
        RESULT(i, r[at->a].i | r[at->b].i);
      case Op::kXor:
        NEED_AB();
        RESULT(i, r[at->a].i ^ r[at->b].i);
      case Op::kNot:
        NEED_A();
        RESULT(i, !r[at->a].i);

      // -- of equal values the first
      case Op::kMinI:
        NEED_AB();
        RESULT(i, Smaller(r[at->a].i, r[at->b].i));
      case Op::kMaxI:
        NEED_AB();
        RESULT(i, Larger(r[at->a].i, r[at->b].i));
      case Op::kMinF:
        NEED_AB();
        RESULT(f, Smaller(r[at->a].f, r[at->b].f));
      case Op::kMaxF:
        NEED_AB();
        RESULT(f, Larger(r[at->a].f, r[at->b].f));
      case Op::kMinD:
        NEED_AB();
        RESULT(d, Smaller(r[at->a].d, r[at->b].d));
      case Op::kMaxD:
        NEED_AB();
        RESULT(d, Larger(r[at->a].d, r[at->b].d));
      case Op::kMinS:
        NEED_AB();
        RESULT(s, Smaller(r[at->a].s, r[at->b].s));
      case Op::kMaxS:
        NEED_AB();
        RESULT(s, Larger(r[at->a].s, r[at->b].s));

      // -- state; aux is the table
      case Op::kRowOfElement: {
        const Frame::LoopState& state = frame_.loops_[at->b];
        r[at->dst].row = context_.rows[at->a][state.starts[at->c] + state.next - 1];
        break;
      }
      case Op::kRowOfKey:
        r[at->dst].row = WithKey(at->aux, at->a, at->b, [&](auto key) { return rows.Find(at->aux, key, at->c); });
        if (r[at->dst].row == kUnforeseenKey) [[unlikely]]
          return kUnforeseen;
        break;
      case Op::kCheckKey:
        FAIL_UNLESS_FINE(CheckKey(r[at->a].row));
        break;
      case Op::kReadI:
        READ(kInt64);
      case Op::kReadB:
        READ(kBool);
      case Op::kReadS:
        READ(kString);
      case Op::kReadD:
        READ(kDecimal);
      case Op::kWriteI:
        WRITE(kInt64);
      case Op::kWriteF:
        WRITE(kFloat64);
      case Op::kWriteB:
        WRITE(kBool);
      case Op::kWriteS:
        WRITE(kString);
      case Op::kWriteD:
        WRITE(kDecimal);
      case Op::kIncreaseI:
        UPDATE(kInt64, kIncrease);
      case Op::kDecreaseI:
        UPDATE(kInt64, kDecrease);
      case Op::kIncreaseF:
        UPDATE(kFloat64, kIncrease);
      case Op::kDecreaseF:
        UPDATE(kFloat64, kDecrease);
      case Op::kExists:
        FAIL_UNLESS_FINE(CheckKey(r[at->a].row));
        RESULT(i, rows.Exists(at->aux, r[at->a].row));
      case Op::kInsert:
        FAIL_UNLESS_FINE(InsertRow(rows, at->aux, r[at->a].row));
        break;
      case Op::kStore:
        rows.Store(at->aux, r[at->a].row, at->c, r[at->b]);
        break;
      case Op::kDelete:
        FAIL_UNLESS_FINE(DeleteRow(rows, at->aux, r[at->a].row));
        break;

      // -- windows; b is the window, c the column
      case Op::kWindow: {
        const RowHandle row = r[at->a].row;
        FAIL_UNLESS_FINE(ReadWindow(code, *at, {&row, 1}));
        break;
      }
      case Op::kRows:
        frame_.collections_[at->a].clear();
        break;
      case Op::kCollect:
        frame_.collections_[at->b].push_back(r[at->a].row);
        break;
      case Op::kCollectElements: {
        const ColumnView& lists = context_.columns[at->c];
        if (lists.kind != Kind::kList || lists.IsNull(row_)) break;
        const ListRange range = lists.List(row_);
        const RowHandle* const handles = context_.rows[at->a].data() + range.start;
        frame_.collections_[at->b].insert(frame_.collections_[at->b].end(), handles, handles + range.size);
        break;
      }
      case Op::kChoose:
        r[at->dst].row = Choose(*at);
        break;
      case Op::kWindowOfRows:
        FAIL_UNLESS_FINE(ReadWindow(code, *at, frame_.collections_[at->a]));
        break;

      // -- reductions
      case Op::kBegin: {
        Frame::Reducer& reducer = frame_.reducers_[at->a];
        reducer.count = 0;
        reducer.high = reducer.low = 0;
        reducer.found = false;
        if (code.accumulators[at->a].kind == Kind::kFloat64) reducer.floats.Reset();
        break;
      }
      case Op::kAccumulate:
        NEED_A();
        Accumulate(code.accumulators[at->b], r[at->a], &frame_.reducers_[at->b]);
        break;
      case Op::kReduce:
        if (!Reduce(code.accumulators[at->a], frame_.reducers_[at->a], &r[at->dst], &null[at->dst])) FAIL(kOverflow);
        break;

      case Op::kRandom:
        RESULT(f, Draw(code, *at, position));
      case Op::kNow:
        RESULT(i, context_.wall_us);

      case Op::kWork:
        NEED_A();
        RESULT(i, Work(static_cast<WorkKind>(at->aux), r[at->a].i, at->c));

      case Op::kCall:
        if (const ReasonId reason = Call(*at); reason != kNoReason) [[unlikely]]
          return reason;
        break;

      case Op::kEmit:
        if (!null[at->a]) (*context_.returned)[at->b].Set(position, r[at->a], frame_.worker_);
        break;
    }
  }
#undef FAIL
#undef NEED_A
#undef NEED_AB
#undef RESULT
#undef FAIL_UNLESS_FINE
#undef CHECKED
#undef CHECKED_AB
#undef READ
#undef WRITE
#undef UPDATE
}

template <class Rows>
Failure Machine<Rows>::ReadWindow(const TransactionCode& code, const Instruction& at, std::span<const RowHandle> rows) {
  const WindowCode& window = code.windows[at.b];
  const int64_t since = window.by == WindowBy::kSince ? frame_.registers_[window.since].i : 0;
  History* const history = context_.tables[at.aux]->history();
  frame_.window_.Begin(window, history, history->offset(at.c), context_.times.At(row_), since, rows.size());
  WindowReader& reader = frame_.window_;
  // What a row needs is asked for in three steps, each some rows behind the one before it.
  constexpr size_t kAhead = 8;
  const size_t count = rows.size();
  if (count > 1) {
    for (size_t i = 0; i < std::min(count, 3 * kAhead); ++i) reader.PrefetchSum(rows_.SlotOf(rows[i]));
    for (size_t i = 0; i < std::min(count, 2 * kAhead); ++i) rows_.PrefetchWindow(at.aux, rows[i], reader);
    for (size_t i = 0; i < std::min(count, kAhead); ++i) rows_.PrefetchVersions(at.aux, rows[i], reader);
  }
  for (size_t i = 0; i < count; ++i) {
    if (i + 3 * kAhead < count) reader.PrefetchSum(rows_.SlotOf(rows[i + 3 * kAhead]));
    if (i + 2 * kAhead < count) rows_.PrefetchWindow(at.aux, rows[i + 2 * kAhead], reader);
    if (i + kAhead < count) rows_.PrefetchVersions(at.aux, rows[i + kAhead], reader);
    if (const Failure failed = CheckKey(rows[i]); failed != kFine) return failed;
    if (reader.Meet(rows[i])) rows_.AddVersions(at.aux, at.c, rows[i], &reader);
  }
  return reader.Read(&frame_.scratch_, &frame_.registers_[at.dst], &frame_.null_[at.dst]);
}

// Finds how many iterations a loop has; false if its lists differ in length. A null list is empty.
template <class Rows>
bool Machine<Rows>::EnterLoop(const Loop& loop, Frame::LoopState* state) {
  state->next = 0;
  state->starts.resize(loop.lists.size());
  for (size_t i = 0; i < loop.lists.size(); ++i) {
    Value list;
    const ColumnView& column = context_.columns[loop.lists[i]];
    if (column.kind != Kind::kList || !column.Load(row_, &list)) list.list = {0, 0};
    state->starts[i] = list.list.start;
    if (i > 0 && list.list.size != state->size) return false;
    state->size = list.list.size;
  }
  return true;
}

template <class Rows>
void Machine<Rows>::LoadElements(const Loop& loop, Frame::LoopState* state) {
  for (const ColumnLoad& load : loop.elements) {
    const ColumnView& elements = *context_.columns[loop.lists[load.column]].child;
    const int64_t element = state->starts[load.column] + state->next;
    frame_.null_[load.dst] = !elements.Load(element, &frame_.registers_[load.dst]);
  }
  ++state->next;
}

template <class Rows>
double Machine<Rows>::Draw(const TransactionCode& code, const Instruction& at, int64_t position) const {
  uint64_t drawn = draws::Of(context_.draws, position, at.a);
  for (uint32_t loop = at.b - 1; loop != kNoLoop; loop = code.loops[loop].parent)
    drawn = draws::With(drawn, static_cast<uint64_t>(frame_.loops_[loop].next - 1));
  return draws::Uniform(drawn);
}

template <class Rows>
template <class Use>
RowHandle Machine<Rows>::WithKey(TableId id, Register first, uint32_t parts, Use use) {
  for (Register part = first; part < first + parts; ++part) {
    if (frame_.null_[part]) return kNullKey;
  }
  const Value* values = &frame_.registers_[first];
  const TableSpec& spec = context_.tables[id]->spec();
  if (parts == 1 && spec.key[0] == Kind::kInt64) return use(values[0].i);
  if (parts == 1) return use(values[0].s);
  frame_.key_.clear();
  for (uint32_t part = 0; part < parts; ++part) AppendKeyPart(spec.key[part], values[part], &frame_.key_);
  return use(Bytes{frame_.key_.data(), frame_.key_.size()});
}

// The candidate with the key. Every candidate has a slot, so a key without one is none of them.
template <class Rows>
RowHandle Machine<Rows>::Choose(const Instruction& at) {
  return WithKey(at.aux, at.a, at.c, [&](auto key) {
    const Slot slot = context_.tables[at.aux]->index().Find(key);
    for (RowHandle candidate : frame_.collections_[at.b]) {
      if (candidate < kOutsideKey && rows_.SlotOf(candidate) == slot) return candidate;
    }
    return kOutsideKey;
  });
}

template <class Rows>
bool Machine<Rows>::Concat(const Value& a, const Value& b, Value* out) {
  const uint64_t size = a.s.size + b.s.size;
  if (size > context_.max_string_bytes) return false;
  char* bytes = frame_.scratch_.Allocate(size);
  std::memcpy(bytes, a.s.data, a.s.size);
  std::memcpy(bytes + a.s.size, b.s.data, b.s.size);
  out->s = {bytes, size};
  return true;
}

// kNoReason, or why it failed.
template <class Rows>
ReasonId Machine<Rows>::Call(const Instruction& at) {
  const UserFunction& function = context_.code->functions[at.aux];
  if (function.compiled == nullptr) return CallHosted(function, at);
  const Value* const arguments = &frame_.registers_[at.a];
  Value* const results = &frame_.registers_[at.dst];
  if (function.compiled(arguments, arguments, results, results) != 0) [[unlikely]] {
    const ReasonId otherwise = context_.code->reason_blocks[at.reasons + kUdfFailure];
    const TableDoor::Pause pause(door_);  // the host is asked
    return ReasonOf(function, arguments, otherwise, &frame_.calls_, &frame_.scratch_, context_.texts);
  }
  std::fill_n(&frame_.null_[at.dst], at.c, uint8_t{0});
  return kNoReason;
}

template <class Rows>
ReasonId Machine<Rows>::CallHosted(const UserFunction& function, const Instruction& at) {
  CallMemory& memory = frame_.calls_;
  UserCall call = memory.Prepare(function, 1, &frame_.scratch_, context_.texts);
  for (uint32_t i = 0; i < at.b; ++i) memory.Set(i, 0, frame_.registers_[at.a + i]);
  {
    const TableDoor::Pause pause(door_);  // it looks at no table
    CallHost(function, &call);
  }
  if (call.reasons[0] != kNoReason) return call.reasons[0];
  for (uint32_t i = 0; i < at.c; ++i) {
    const Value value = memory.Result(call, i, 0);
    const bool null = call.result_null[i];
    if (ExceedsLimit(function, i, value, null, context_.max_string_bytes)) return kStringLimit;
    frame_.registers_[at.dst + i] = value;
    frame_.null_[at.dst + i] = null;
  }
  return kNoReason;
}

template <class Rows>
void Machine<Rows>::Accumulate(const Accumulator& accumulator, const Value& value, Frame::Reducer* reducer) {
  const bool first = reducer->count++ == 0;
  switch (accumulator.reduction) {
    case Reduction::kCount:
      return;
    case Reduction::kAny:
      reducer->found |= value.i != 0;
      return;
    case Reduction::kAll:
      reducer->found |= value.i == 0;
      return;
    case Reduction::kSum:
    case Reduction::kMean:
      if (accumulator.kind == Kind::kFloat64) {
        reducer->floats.Add(value.f);
      } else {
        const Int128 whole = accumulator.kind == Kind::kDecimal ? value.d : Int128{value.i};
        reducer->high += whole / kReducerBase;
        reducer->low += whole % kReducerBase;
      }
      return;
    case Reduction::kMin:
    case Reduction::kMax: {
      int order = first ? -1 : 0;
      if (!first) {
        order = CompareValues(accumulator.kind, value, reducer->best);
        if (accumulator.reduction == Reduction::kMax) order = -order;
      }
      if (order < 0) reducer->best = value;
    }
  }
}

template <class Rows>
bool Machine<Rows>::Reduce(const Accumulator& accumulator, const Frame::Reducer& reducer, Value* out, uint8_t* null) {
  const Kind kind = accumulator.kind;
  *null = 0;
  switch (accumulator.reduction) {
    case Reduction::kCount:
      out->i = reducer.count;
      return true;
    case Reduction::kAny:
      out->i = reducer.found;
      return true;
    case Reduction::kAll:
      out->i = !reducer.found;
      return true;
    case Reduction::kMin:
    case Reduction::kMax:
      *null = reducer.count == 0;
      if (reducer.count) *out = reducer.best;
      return true;
    case Reduction::kMean:
      *null = reducer.count == 0;
      if (*null) return true;
      break;
    case Reduction::kSum:
      break;
  }
  const bool mean = accumulator.reduction == Reduction::kMean;
  if (kind == Kind::kFloat64) {
    const double sum = reducer.floats.Round();
    out->f = mean ? sum / static_cast<double>(reducer.count) : sum;
    return true;
  }
  const Int128 carry = reducer.low / kReducerBase;
  Int128 sum;
  if (__builtin_mul_overflow(reducer.high + carry, kReducerBase, &sum)) return false;
  if (__builtin_add_overflow(sum, reducer.low % kReducerBase, &sum)) return false;
  if (kind == Kind::kDecimal) {
    if (!mean) {
      out->d = sum;
      return decimal::Fits(sum);
    }
    if (!decimal::ScaleUp(sum, accumulator.scale, &sum)) return false;
    out->d = decimal::DivideHalfUp(sum, reducer.count);
    return true;
  }
  if (mean) {
    out->f = static_cast<double>(sum) / static_cast<double>(reducer.count);
    return true;
  }
  out->i = static_cast<int64_t>(sum);
  return out->i == sum;
}

template class Machine<CurrentRows>;
template class Machine<PlannedRows>;
template class Machine<ForeseenRows>;
template class Machine<PastRows>;

}  // namespace morphspark
