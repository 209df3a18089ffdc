#include "program/code.h"

namespace morphspark {
namespace {

// Reads words one by one; past the end it gives zeros and remembers.
class Reader {
 public:
  explicit Reader(std::span<const int64_t> words) : words_(words) {}

  int64_t Next() {
    if (at_ < words_.size()) return words_[at_++];
    overrun_ = true;
    return 0;
  }
  uint32_t Index() { return static_cast<uint32_t>(Next()); }
  template <class T, class Read>
  std::vector<T> List(Read read) {
    std::vector<T> items;
    for (int64_t left = Next(); left > 0 && !overrun_; --left) items.push_back(read());
    return items;
  }
  std::vector<uint32_t> Indexes() {
    return List<uint32_t>([this] { return Index(); });
  }
  bool finished() const { return !overrun_ && at_ == words_.size(); }

 private:
  std::span<const int64_t> words_;
  size_t at_ = 0;
  bool overrun_ = false;
};

Value ReadValue(Reader* in, const std::vector<std::string>& strings, Kind kind) {
  Value value;
  value.d = 0;
  const int64_t low = in->Next();
  const int64_t high = in->Next();
  if (kind == Kind::kString) {
    const auto index = static_cast<uint64_t>(low);
    if (index < strings.size()) value.s = {strings[index].data(), strings[index].size()};
  } else if (kind == Kind::kDecimal) {
    value.d = static_cast<Int128>(high) << 64 | static_cast<uint64_t>(low);
  } else {
    value.i = low;  // float64: its bits
  }
  return value;
}

Instruction ReadInstruction(Reader* in) {
  Instruction one;
  one.op = static_cast<Op>(in->Next());
  one.aux = static_cast<uint16_t>(in->Next());
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
  one.reduction = static_cast<Reduction>(in->Next());
  one.kind = static_cast<Kind>(in->Next());
  one.scale = static_cast<int32_t>(in->Next());
  return one;
}

Site ReadSite(Reader* in) {
  Site site;
  site.table = in->Index();
  site.of_element = in->Next() != 0;
  site.parts = in->Indexes();
  return site;
}

Accepted ReadAccepted(Reader* in, const std::vector<std::string>& strings) {
  const auto match = static_cast<Match>(in->Next());
  const Kind kind = match == Match::kString    ? Kind::kString
                    : match == Match::kDecimal ? Kind::kDecimal
                                               : Kind::kInt64;
  return {match, ReadValue(in, strings, kind)};
}

Condition ReadCondition(Reader* in, const std::vector<std::string>& strings) {
  Condition condition;
  condition.column = in->Index();
  condition.scale = static_cast<int32_t>(in->Next());
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

}  // namespace

Status Code::Decode(std::span<const int64_t> words, std::vector<std::string> strings,
                    std::span<const uint32_t> table_columns, Code* out) {
  Reader in(words);
  Code code;
  code.strings = std::move(strings);
  code.registers = in.Index();
  code.columns = in.List<UsedColumn>([&] {
    const Kind kind = static_cast<Kind>(in.Next());
    return UsedColumn{kind, static_cast<Kind>(in.Next())};
  });
  code.order_columns = in.Indexes();
  code.order_reasons = in.Indexes();
  code.sites = in.List<Site>([&] { return ReadSite(&in); });
  code.returned = in.List<ReturnedColumn>([&] { return ReturnedColumn{static_cast<Kind>(in.Next())}; });
  code.reason_blocks = in.Indexes();
  code.reasons = in.List<std::string>([&] {
    const uint32_t index = in.Index();
    return index < code.strings.size() ? code.strings[index] : std::string();
  });
  code.constants = in.List<Value>([&] {
    const Kind kind = static_cast<Kind>(in.Next());
    code.constant_null.push_back(kind == Kind::kNull);
    return ReadValue(&in, code.strings, kind);
  });
  code.transactions = in.List<TransactionCode>([&] { return ReadTransaction(&in, code.strings); });
  if (!in.finished()) return Status::Invalid("the compiled program has the wrong length");
  MORPHSPARK_RETURN_IF_ERROR(code.Validate(table_columns));
  *out = std::move(code);
  return Status::Ok();
}

Status Code::Validate(std::span<const uint32_t> table_columns) const {
  const auto wrong = [](const char* what) { return Status::Invalid(std::string("compiled program: ") + what); };
  const auto is_list = [&](uint32_t column) {
    return column < columns.size() && (columns[column].kind == Kind::kList || columns[column].kind == Kind::kNull);
  };
  if (constants.size() > registers) return wrong("more constants than registers");
  if (order_reasons.size() != order_columns.size()) return wrong("order columns and reasons differ");
  for (uint32_t column : order_columns) {
    if (column >= columns.size()) return wrong("an order column is not there");
  }
  for (ReasonId reason : reason_blocks) {
    if (reason >= reasons.size()) return wrong("a reason is not there");
  }
  for (const Site& site : sites) {
    if (site.table >= table_columns.size() || site.parts.empty()) return wrong("a site names no table");
    for (uint32_t part : site.parts) {
      const bool constant = part & kConstantPart;
      if (constant ? (part & ~kConstantPart) >= constants.size() : part >= columns.size()) {
        return wrong("a site names no column");
      }
    }
    if (site.of_element && !is_list(site.parts[0])) return wrong("an element site has no list");
  }
  for (const TransactionCode& transaction : transactions) {
    const auto count = transaction.instructions.size();
    if (count == 0 || transaction.instructions.back().op != Op::kStop) return wrong("a transaction does not stop");
    for (const Condition& condition : transaction.on) {
      if (condition.column >= columns.size()) return wrong("a condition names no column");
    }
    for (const ColumnLoad& load : transaction.loads) {
      if (load.dst >= registers || load.column >= columns.size()) return wrong("a load names no column");
    }
    for (const RowLoad& load : transaction.rows) {
      if (load.dst >= registers || load.site >= sites.size()) return wrong("a row names no site");
    }
    for (const Loop& loop : transaction.loops) {
      if (loop.lists.empty() || loop.body >= count || loop.after >= count) return wrong("a loop has no body");
      for (uint32_t list : loop.lists) {
        if (!is_list(list)) return wrong("a loop has no list");
      }
      for (const ColumnLoad& load : loop.elements) {
        if (load.dst >= registers || load.column >= loop.lists.size()) return wrong("a loop's element is not there");
      }
    }
    for (SiteId site : transaction.sites) {
      if (site >= sites.size()) return wrong("a site is not there");
    }
    for (const Instruction& one : transaction.instructions) {
      if (static_cast<uint32_t>(one.op) > static_cast<uint32_t>(Op::kEmit)) return wrong("an operation is unknown");
      if (one.dst >= registers) return wrong("a register is not there");
      if (uint64_t{one.reasons} + kFailures > reason_blocks.size()) return wrong("reasons are not there");
      switch (one.op) {
        case Op::kJump:
          if (one.a >= count) return wrong("a jump leaves the program");
          break;
        case Op::kSkipUnless:
        case Op::kSkipIfNull:
          if (one.a >= registers || one.b >= count) return wrong("a jump leaves the program");
          break;
        case Op::kEach:
        case Op::kEnd:
          if (one.a >= transaction.loops.size()) return wrong("a loop is not there");
          break;
        case Op::kBegin:
        case Op::kReduce:
          if (one.a >= transaction.accumulators.size()) return wrong("a reduction is not there");
          break;
        case Op::kAccumulate:
          if (one.a >= registers || one.b >= transaction.accumulators.size()) return wrong("a reduction is not there");
          break;
        case Op::kRowOfElement:
          if (one.a >= sites.size() || one.b >= transaction.loops.size()) return wrong("a site is not there");
          if (one.c >= transaction.loops[one.b].lists.size()) return wrong("a list is not there");
          break;
        case Op::kRowOfKey:
          if (one.aux >= table_columns.size() || uint64_t{one.a} + one.b > registers) return wrong("a key is not there");
          break;
        case Op::kReadI:
        case Op::kReadB:
        case Op::kReadS:
        case Op::kReadD:
        case Op::kWriteI:
        case Op::kWriteF:
        case Op::kWriteB:
        case Op::kWriteS:
        case Op::kWriteD:
        case Op::kIncreaseI:
        case Op::kDecreaseI:
        case Op::kIncreaseF:
        case Op::kDecreaseF:
        case Op::kStore:
          if (one.a >= registers || one.b >= registers) return wrong("a register is not there");
          if (one.aux >= table_columns.size() || one.c >= table_columns[one.aux]) return wrong("a column is not there");
          break;
        case Op::kExists:
        case Op::kInsert:
        case Op::kDelete:
          if (one.a >= registers || one.aux >= table_columns.size()) return wrong("a table is not there");
          break;
        case Op::kEmit:
          if (one.a >= registers || one.b >= returned.size()) return wrong("a returned column is not there");
          break;
        default:
          if (one.a >= registers || one.b >= registers) return wrong("a register is not there");
      }
    }
  }
  return Status::Ok();
}

}  // namespace morphspark
