#include "program/code.h"

#include <algorithm>

#include "program/foresight.h"
#include "program/operations.h"
#include "program/parametric.h"
#include "program/signature.h"
#include "program/verify.h"

namespace morphspark {
namespace {

// Reads words one by one. A word that is missing or out of its range reads as zero, and is remembered.
class Reader {
 public:
  explicit Reader(std::span<const int64_t> words) : words_(words) {}

  int64_t Next() {
    if (at_ < words_.size()) return words_[at_++];
    good_ = false;
    return 0;
  }
  int64_t NextBetween(int64_t min, int64_t max) {
    const int64_t word = Next();
    if (word >= min && word <= max) return word;
    good_ = false;
    return 0;
  }
  int64_t NextUpTo(int64_t max) { return NextBetween(0, max); }
  uint32_t Index() { return static_cast<uint32_t>(NextUpTo(UINT32_MAX)); }
  int32_t Scale() { return static_cast<int32_t>(NextBetween(INT32_MIN, INT32_MAX)); }
  Kind NextKind() { return static_cast<Kind>(NextUpTo(static_cast<int64_t>(Kind::kList))); }
  const std::string& NextString(const std::vector<std::string>& strings) {
    static const std::string kNone;
    const uint32_t index = Index();
    if (index < strings.size()) return strings[index];
    good_ = false;
    return kNone;
  }
  template <class T, class Read>
  std::vector<T> List(Read read) {
    std::vector<T> items;
    for (int64_t left = NextUpTo(INT64_MAX); left > 0 && good_; --left) items.push_back(read());
    return items;
  }
  std::vector<uint32_t> Indexes() {
    return List<uint32_t>([this] { return Index(); });
  }
  bool more() const { return at_ < words_.size(); }
  bool finished() const { return good_ && at_ == words_.size(); }

 private:
  std::span<const int64_t> words_;
  size_t at_ = 0;
  bool good_ = true;
};

Value ReadValue(Reader* in, const std::vector<std::string>& strings, Kind kind) {
  Value value;
  value.d = 0;
  if (kind == Kind::kString) {
    const std::string& text = in->NextString(strings);
    value.s = {text.data(), text.size()};
    in->Next();
    return value;
  }
  const int64_t low = in->Next();
  const int64_t high = in->Next();
  if (kind == Kind::kDecimal) {
    value.d = static_cast<Int128>(high) << 64 | static_cast<uint64_t>(low);
  } else {
    value.i = low;  // float64: its bits
  }
  return value;
}

Instruction ReadInstruction(Reader* in) {
  Instruction one;
  one.op = static_cast<Op>(in->NextUpTo(static_cast<int64_t>(Op::kWork)));
  one.aux = static_cast<uint16_t>(in->NextUpTo(UINT16_MAX));
  one.dst = in->Index();
  one.a = in->Index();
  one.b = in->Index();
  one.c = in->Index();
  one.reasons = in->Index();
  return one;
}

ColumnLoad ReadLoad(Reader* in) {
  const Register dst = in->Index();
  return {dst, in->Index()};
}

RowLoad ReadRow(Reader* in) {
  const Register dst = in->Index();
  return {dst, in->Index()};
}

Loop ReadLoop(Reader* in) {
  Loop loop;
  loop.lists = in->Indexes();
  loop.elements = in->List<ColumnLoad>([&] { return ReadLoad(in); });
  loop.body = in->Index();
  loop.after = in->Index();
  return loop;
}

Accumulator ReadAccumulator(Reader* in) {
  Accumulator one;
  one.reduction = static_cast<Reduction>(in->NextUpTo(static_cast<int64_t>(Reduction::kAll)));
  one.kind = in->NextKind();
  one.scale = in->Scale();
  return one;
}

Site ReadSite(Reader* in) {
  Site site;
  site.table = in->Index();
  site.of_element = in->NextUpTo(1) != 0;
  site.parts = in->Indexes();
  return site;
}

UserFunction ReadFunction(Reader* in) {
  UserFunction one;
  one.nullable = in->NextUpTo(1) != 0;
  one.arguments = in->List<Kind>([in] { return static_cast<Kind>(in->NextUpTo(2 * kArrayMark - 1)); });
  one.results = in->List<Kind>([in] { return in->NextKind(); });
  return one;
}

Accepted ReadAccepted(Reader* in, const std::vector<std::string>& strings) {
  const auto match = static_cast<Match>(in->NextUpTo(static_cast<int64_t>(Match::kString)));
  const Kind kind = match == Match::kString ? Kind::kString : match == Match::kDecimal ? Kind::kDecimal : Kind::kInt64;
  return {match, ReadValue(in, strings, kind)};
}

Condition ReadCondition(Reader* in, const std::vector<std::string>& strings) {
  Condition condition;
  condition.column = in->Index();
  condition.scale = in->Scale();
  condition.accepted = in->List<Accepted>([&] { return ReadAccepted(in, strings); });
  return condition;
}

TransactionCode ReadTransaction(Reader* in, const std::vector<std::string>& strings) {
  TransactionCode code;
  code.on = in->List<Condition>([&] { return ReadCondition(in, strings); });
  code.instructions = in->List<Instruction>([&] { return ReadInstruction(in); });
  code.loads = in->List<ColumnLoad>([&] { return ReadLoad(in); });
  code.rows = in->List<RowLoad>([&] { return ReadRow(in); });
  code.loops = in->List<Loop>([&] { return ReadLoop(in); });
  code.accumulators = in->List<Accumulator>([&] { return ReadAccumulator(in); });
  code.sites = in->Indexes();
  return code;
}

WindowCode ReadWindow(Reader* in) {
  WindowCode one;
  one.aggregate = static_cast<WindowAggregate>(in->NextUpTo(static_cast<int64_t>(WindowAggregate::kValues)));
  one.by = static_cast<WindowBy>(in->NextUpTo(static_cast<int64_t>(WindowBy::kSince)));
  one.size = in->NextUpTo(INT64_MAX / 2);
  one.since = in->Index();
  one.kind = in->NextKind();
  one.scale = in->Scale();
  return one;
}

TriggerCode ReadTrigger(Reader* in) {
  TriggerCode one;
  one.transaction = static_cast<TransactionId>(in->NextUpTo(UINT16_MAX));
  one.session = in->NextUpTo(1) != 0;
  one.period = in->NextBetween(1, INT64_MAX / 2);
  one.window = in->NextBetween(1, INT64_MAX / 2);
  one.table = in->Index();
  one.number = in->Index();
  one.column = in->Index();
  one.not_due = in->Index();
  return one;
}

// What programs with windows or triggers have behind the rest.
void ReadWindows(Reader* in, Code* code) {
  code->event_columns = in->Index();
  for (TransactionCode& one : code->transactions) {
    one.windows = in->List<WindowCode>([&] { return ReadWindow(in); });
    one.collections = in->Index();
  }
  code->triggers = in->List<TriggerCode>([&] { return ReadTrigger(in); });
}

// Loops nest, so the one around another is the last that begins before it and ends behind it.
void FindParents(std::vector<Loop>* loops) {
  for (Loop& inner : *loops) {
    for (uint32_t i = 0; i < loops->size(); ++i) {
      const Loop& outer = (*loops)[i];
      const bool around = outer.body < inner.body && inner.after < outer.after;
      if (around && (inner.parent == kNoLoop || (*loops)[inner.parent].body < outer.body)) inner.parent = i;
    }
  }
}

// What the transaction does with rows, as far as its code tells.
void FindUses(const Code& code, std::span<const TableSpec* const> tables, TransactionCode* transaction) {
  constexpr SiteId kComputed = 1u << 31;  // and the number of an instruction: no site, but a key that it computes
  std::vector<std::vector<SiteId>> named_by(code.registers);             // by register that holds a row
  std::vector<std::vector<SiteId>> collected(transaction->collections);  // by collection
  for (const RowLoad& load : transaction->rows) named_by[load.dst] = {load.site};
  const auto add = [](const std::vector<SiteId>& from, std::vector<SiteId>* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  for (SiteId site : transaction->sites) {
    transaction->uses.push_back({site, static_cast<uint16_t>(code.sites[site].table), false});
    transaction->uses_elements |= code.sites[site].of_element;
  }
  std::vector<Instruction>& instructions = transaction->instructions;
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const Instruction& one = instructions[i];
    if (one.op == Op::kRowOfElement) named_by[one.dst] = {one.a};
    if (one.op == Op::kCollect) add(named_by[one.a], &collected[one.b]);
    if (one.op == Op::kCollectElements) collected[one.b].push_back(one.a);
    if (one.op == Op::kChoose) add(collected[one.b], &named_by[one.dst]);
    if (one.op == Op::kRowOfKey) {
      transaction->computes_keys = true;
      named_by[one.dst] = {kComputed | i};
      instructions[i].c = 0;
    }
    if (!verify::ChangesRow(one.op) || one.op == Op::kStore) continue;
    if (std::ranges::find(transaction->written, one.aux) == transaction->written.end())
      transaction->written.push_back(one.aux);
    for (SiteUse& use : transaction->uses) use.writes |= std::ranges::count(named_by[one.a], use.site) > 0;
    for (SiteId name : named_by[one.a]) {
      if (name & kComputed) instructions[name & ~kComputed].c = 1;
    }
  }
  for (TableId table : transaction->written) {
    if (tables[table]->keeps_versions) transaction->left.push_back(table);
  }
}

}  // namespace

Status Code::Decode(std::span<const int64_t> words, std::vector<std::string> strings,
                    std::span<const TableSpec* const> tables, Code* out) {
  Reader in(words);
  Code code;
  code.strings = std::move(strings);
  code.registers = in.Index();
  code.columns = in.List<UsedColumn>([&] {
    const Kind kind = in.NextKind();
    return UsedColumn{kind, in.NextKind()};
  });
  code.order_columns = in.Indexes();
  code.order_reasons = in.Indexes();
  code.sites = in.List<Site>([&] { return ReadSite(&in); });
  code.returned = in.List<ReturnedColumn>([&] { return ReturnedColumn{in.NextKind()}; });
  code.functions = in.List<UserFunction>([&] { return ReadFunction(&in); });
  code.reason_blocks = in.Indexes();
  code.reasons = in.List<std::string>([&] { return in.NextString(code.strings); });
  code.constants = in.List<Value>([&] {
    const Kind kind = in.NextKind();
    code.constant_kinds.push_back(kind);
    code.constant_null.push_back(kind == Kind::kNull);
    return ReadValue(&in, code.strings, kind);
  });
  code.transactions = in.List<TransactionCode>([&] { return ReadTransaction(&in, code.strings); });
  code.event_columns = code.columns.size();
  if (in.more()) ReadWindows(&in, &code);
  if (!in.finished()) return Status::Invalid("compiled program: it is cut off, or a word is out of its range");
  // Every register takes several words to fill, so this refuses only what would make a frame of gigabytes.
  if (code.registers > words.size()) return Status::Invalid("compiled program: it has registers that nobody writes");
  MORPHSPARK_RETURN_IF_ERROR(VerifyCode(code, tables));
  for (const TriggerCode& one : code.triggers) {
    code.transactions[one.transaction].is_trigger = true;
    if (one.not_due != kNoReason) code.not_due = one.not_due;
  }
  for (TransactionCode& one : code.transactions) {
    FindParents(&one.loops);
    FindUses(code, tables, &one);
    one.operations = std::make_shared<const Operations>(CutTransaction(code, one, tables));
    if (one.computes_keys) one.foresight = std::make_shared<const Foresight>(FindForesight(code, one, tables));
    one.parametric = FindParametricReads(code, one);
  }
  *out = std::move(code);
  return Status::Ok();
}

}  // namespace morphspark
