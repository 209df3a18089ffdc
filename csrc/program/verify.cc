#include "program/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/decimal.h"

namespace morphspark {
namespace {

constexpr size_t kTransactionsMax = 0xFFFE;  // their numbers have 16 bits, one of which means: none

// What a register holds.
enum class Type : uint8_t { kNull, kBool, kWord, kFloat, kDecimal, kString, kList, kRow, kReduction };

Type TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return Type::kNull;
    case Kind::kBool:
      return Type::kBool;
    case Kind::kInt64:
    case Kind::kTimestamp:
      return Type::kWord;
    case Kind::kFloat64:
      return Type::kFloat;
    case Kind::kString:
      return Type::kString;
    case Kind::kDecimal:
      return Type::kDecimal;
    case Kind::kList:
      return Type::kList;
  }
  return Type::kNull;
}

// What a register may hold: any of these. A value that is no bool counts as both of them.
enum May : uint8_t { kMayBeNull = 1, kMayBeFalse = 2, kMayBeTrue = 4, kMayBeValue = 6, kMayBeAnything = 7 };

// Conditions that must hold for a register to be written, as an index into `Paths`.
using PathId = uint32_t;
constexpr PathId kAlways = 0;
constexpr PathId kNever = 0xFFFFFFFFu;

// A bool register that has this value.
struct Literal {
  Register condition;
  bool wanted;
  auto operator<=>(const Literal&) const = default;
};
using Path = std::vector<Literal>;  // sorted

class Paths {
 public:
  Paths() { Id({}); }

  const Path& operator[](PathId id) const { return paths_[id]; }
  bool Mentions(PathId id, Register condition) const {
    return id != kNever && std::any_of(paths_[id].begin(), paths_[id].end(),
                                       [&](const Literal& one) { return one.condition == condition; });
  }
  PathId Both(PathId a, PathId b) {
    if (a == b || b == kAlways) return a;
    Path joined;
    std::set_union(paths_[a].begin(), paths_[a].end(), paths_[b].begin(), paths_[b].end(), std::back_inserter(joined));
    return Id(joined);
  }
  PathId With(PathId id, const Literal& literal) { return Both(id, Id({literal})); }

 private:
  PathId Id(const Path& path) {
    const auto [found, added] = ids_.try_emplace(path, static_cast<PathId>(paths_.size()));
    if (added) paths_.push_back(path);
    return found->second;
  }

  std::vector<Path> paths_;
  std::map<Path, PathId> ids_;
};

struct Cell {
  Type type = Type::kNull;
  uint8_t may = kMayBeAnything;
  TableId table = 0;  // of a row
  PathId written = kNever;
};

// What is known of all registers, and behind them of all reductions, at one point of a transaction.
using Cells = std::vector<Cell>;

// A way to an instruction that is not the one before it. `refuted` does not hold on this way.
struct Edge {
  Cells cells;
  std::optional<Literal> refuted;
};

bool IsValue(Type type) { return type >= Type::kBool && type <= Type::kString; }

// How an operation of values alone is typed and can fail. Operands must not be null.
//   b bool   w word: int64 or timestamp   i word or bool   f float64   d decimal   s string   . nothing
struct Signature {
  char dst, a, b;
  uint32_t failures;
};

constexpr uint32_t Bit(Failure failure) { return 1u << failure; }

std::optional<Signature> SignatureOf(Op op) {
  switch (op) {
    case Op::kAddI:
    case Op::kSubI:
    case Op::kMulI:
      return Signature{'w', 'w', 'w', Bit(kOverflow)};
    case Op::kFloorDivI:
      return Signature{'w', 'w', 'w', Bit(kOverflow) | Bit(kDivision)};
    case Op::kModI:
      return Signature{'w', 'w', 'w', Bit(kDivision)};
    case Op::kNegI:
    case Op::kAbsI:
      return Signature{'w', 'w', '.', Bit(kOverflow)};
    case Op::kAddF:
    case Op::kSubF:
    case Op::kMulF:
      return Signature{'f', 'f', 'f', 0};
    case Op::kDivF:
    case Op::kFloorDivF:
    case Op::kModF:
      return Signature{'f', 'f', 'f', Bit(kDivision)};
    case Op::kNegF:
    case Op::kAbsF:
      return Signature{'f', 'f', '.', 0};
    case Op::kAddD:
    case Op::kSubD:
    case Op::kMulD:
      return Signature{'d', 'd', 'd', Bit(kOverflow)};
    case Op::kDivD:
      return Signature{'d', 'd', 'd', Bit(kOverflow) | Bit(kDivision)};
    case Op::kFloorDivD:
    case Op::kModD:
      return Signature{'d', 'd', 'd', Bit(kDivision)};
    case Op::kNegD:
    case Op::kAbsD:
      return Signature{'d', 'd', '.', 0};
    case Op::kDecimalAssign:
      return Signature{'d', 'd', '.', Bit(kOverflow)};
    case Op::kConcat:
      return Signature{'s', 's', 's', 0};
    case Op::kCompareI:
      return Signature{'b', 'i', 'i', 0};
    case Op::kCompareF:
      return Signature{'b', 'f', 'f', 0};
    case Op::kCompareD:
      return Signature{'b', 'd', 'd', 0};
    case Op::kCompareS:
      return Signature{'b', 's', 's', 0};
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      return Signature{'b', 'b', 'b', 0};
    case Op::kNot:
    case Op::kWhen:
      return Signature{'b', 'b', '.', 0};
    case Op::kRequire:
      return Signature{'.', 'b', '.', Bit(kRequireFailure)};
    case Op::kMinI:
    case Op::kMaxI:
      return Signature{'w', 'w', 'w', 0};
    case Op::kMinF:
    case Op::kMaxF:
      return Signature{'f', 'f', 'f', 0};
    case Op::kMinD:
    case Op::kMaxD:
      return Signature{'d', 'd', 'd', 0};
    case Op::kMinS:
    case Op::kMaxS:
      return Signature{'s', 's', 's', 0};
    default:
      return std::nullopt;
  }
}

bool WritesDst(Op op) {
  if (const auto signature = SignatureOf(op)) return signature->dst != '.';
  switch (op) {
    case Op::kCopy:
    case Op::kSetNull:
    case Op::kIsNull:
    case Op::kIntToFloat:
    case Op::kDecimalToFloat:
    case Op::kDecimalUp:
    case Op::kRowOfElement:
    case Op::kRowOfKey:
    case Op::kExists:
    case Op::kReadI:
    case Op::kReadB:
    case Op::kReadS:
    case Op::kReadD:
    case Op::kReduce:
      return true;
    default:
      return false;
  }
}

Type TypeOf(char letter) {
  switch (letter) {
    case 'b':
      return Type::kBool;
    case 'f':
      return Type::kFloat;
    case 'd':
      return Type::kDecimal;
    case 's':
      return Type::kString;
    default:
      return Type::kWord;
  }
}

const char* NameOf(Op op) {
  static constexpr const char* kNames[] = {
#define MORPHSPARK_OP(name) #name,
      MORPHSPARK_OPS(MORPHSPARK_OP)
#undef MORPHSPARK_OP
  };
  return kNames[static_cast<size_t>(op)];
}

class Refused {
 public:
  explicit Refused(std::string what) : what_(std::move(what)) {}
  const std::string& what() const { return what_; }

 private:
  std::string what_;
};

void Check(bool holds, const char* what) {
  if (!holds) throw Refused(what);
}

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

// Follows a transaction from its first instruction to its last. Jumps lead forward, so when an instruction is met all
// ways to it are known. A loop's body is followed once, from a state that holds before every iteration: what the body
// writes counts as not written there.
class TransactionVerifier {
 public:
  TransactionVerifier(const Code& code, const TransactionCode& transaction, std::span<const TableSpec* const> tables)
      : code_(code),
        transaction_(transaction),
        instructions_(transaction.instructions),
        tables_(tables),
        edges_(instructions_.size()),
        is_condition_(code.registers, false) {}

  void Run() {
    CheckParts();
    CheckLoops();
    Start();
    for (at_ = 0; at_ < instructions_.size(); ++at_) {
      JoinEdges();
      if (!reached_) continue;
      try {
        Follow(instructions_[at_]);
      } catch (const Refused& refused) {
        throw Refused("instruction " + std::to_string(at_) + " (" + NameOf(instructions_[at_].op) +
                      "): " + refused.what());
      }
    }
  }

 private:
  static constexpr uint32_t kOutside = 0xFFFFFFFFu;  // of every loop

  // -- before the first instruction

  void CheckParts() const {
    for (const Condition& condition : transaction_.on) CheckCondition(code_, condition);
    for (SiteId site : transaction_.sites) Check(site < code_.sites.size(), "a site is not there");
    for (const Loop& loop : transaction_.loops) {
      Check(!loop.lists.empty(), "a loop has no list");
      for (uint32_t list : loop.lists) {
        Check(list < code_.columns.size(), "a loop's list is not there");
        const Kind kind = code_.columns[list].kind;
        Check(kind == Kind::kNull || kind == Kind::kList, "a loop has no list");
      }
      for (const ColumnLoad& load : loop.elements)
        Check(load.column < loop.lists.size(), "a loop's element is not there");
    }
    for (const Accumulator& one : transaction_.accumulators) CheckAccumulator(one);
    Check(!instructions_.empty() && instructions_.back().op == Op::kStop, "a transaction does not stop");
    for (const Instruction& one : instructions_) {
      Check(one.op <= Op::kEmit, "an operation is not known");
      Check(uint64_t{one.reasons} + kFailures <= code_.reason_blocks.size(), "reasons are not there");
    }
  }

  static void CheckAccumulator(const Accumulator& one) {
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

  // Every loop stands once, whole and inside its parents, and no jump leads into or out of one, or backward.
  void CheckLoops() {
    std::vector<uint32_t> open = {kOutside};
    std::vector<bool> seen(transaction_.loops.size(), false);
    inside_.resize(instructions_.size());
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const Instruction& one = instructions_[i];
      inside_[i] = open.back();
      if (one.op == Op::kEach) {
        Check(one.a < seen.size() && !seen[one.a], "a loop is not there");
        Check(transaction_.loops[one.a].body == i + 1, "a loop's body is somewhere else");
        seen[one.a] = true;
        open.push_back(one.a);
      } else if (one.op == Op::kEnd) {
        Check(open.size() > 1 && open.back() == one.a, "a loop ends that has not begun");
        Check(transaction_.loops[one.a].after == i + 1, "a loop's end is somewhere else");
        open.pop_back();
      }
    }
    Check(open.size() == 1 && std::find(seen.begin(), seen.end(), false) == seen.end(), "a loop does not end");
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const Instruction& one = instructions_[i];
      const bool skip = one.op == Op::kSkipUnless || one.op == Op::kSkipIfNull;
      if (one.op != Op::kJump && !skip) continue;
      const uint32_t target = skip ? one.b : one.a;
      Check(target > i && target < instructions_.size(), "a jump leads back or away");
      Check(inside_[target] == inside_[i], "a jump leads into or out of a loop");
    }
  }

  void Start() {
    cells_.resize(code_.registers + transaction_.accumulators.size());
    for (Register i = 0; i < code_.constants.size(); ++i) {
      const Kind kind = code_.constant_kinds[i];
      cells_[i] = {TypeOf(kind), MayBe(TypeOf(kind)), 0, kAlways};
      if (kind == Kind::kBool)
        cells_[i].may = code_.constants[i].i ? kMayBeTrue : kMayBeFalse;
      else
        cells_[i].may &= static_cast<uint8_t>(kind == Kind::kNull ? kMayBeNull : ~kMayBeNull);
    }
    for (const ColumnLoad& load : transaction_.loads) {
      Check(load.column < code_.columns.size(), "a load names no column");
      Write(load.dst, TypeOf(code_.columns[load.column].kind));
    }
    for (const RowLoad& load : transaction_.rows) {
      Check(!UsedSite(load.site).of_element, "a row is named by an element");
      WriteRow(load.dst, code_.sites[load.site].table);
    }
  }

  // -- registers

  static uint8_t MayBe(Type type) { return type == Type::kNull ? kMayBeNull : kMayBeAnything; }

  bool Holds(const Literal& one) const { return cells_[one.condition].may == (one.wanted ? kMayBeTrue : kMayBeFalse); }

  Cell& Written(size_t cell) {
    const PathId written = cells_[cell].written;
    Check(written != kNever, "something is read that may not have been written");
    const Path& path = paths_[written];
    Check(std::all_of(path.begin(), path.end(), [&](const Literal& one) { return Holds(one); }),
          "something is read that was written under another condition");
    return cells_[cell];
  }

  Cell& ReadAny(Register index) {
    Check(index < code_.registers, "a register is not there");
    Cell& cell = Written(index);
    Check(cell.type != Type::kRow, "a row is no value");
    return cell;
  }

  Cell& Read(Register index, Type type) {
    Cell& cell = ReadAny(index);
    Check(cell.type == Type::kNull || cell.type == type, "a register holds another type");
    return cell;
  }

  Cell& Read(Register index, char letter) {
    if (letter == 'i' && ReadAny(index).type == Type::kBool) return cells_[index];
    return Read(index, TypeOf(letter));
  }

  void ReadRow(const Instruction& one) {
    Check(one.aux < tables_.size(), "a table is not there");
    Check(one.a < code_.registers, "a register is not there");
    const Cell& cell = Written(one.a);
    Check(cell.type == Type::kRow && cell.table == one.aux, "a register holds no row of this table");
  }

  // The register is not null from here on; else the instruction fails.
  void Need(const Instruction& one, Cell* cell, uint32_t failure) {
    if (cell->may & kMayBeNull) CheckReasons(one, 1u << failure);
    cell->may &= static_cast<uint8_t>(~kMayBeNull);
    if (cell->may == 0) reached_ = false;
  }

  void Put(size_t index, Cell cell) {
    cell.written = kAlways;
    Forget(index);
    cells_[index] = cell;
  }
  void Write(Register index, Type type) { Write(index, type, MayBe(type)); }
  void Write(Register index, Type type, uint8_t may) {
    Check(index >= code_.constants.size() && index < code_.registers, "a register can't be written");
    Put(index, {type, may, 0, kAlways});
  }
  void WriteRow(Register index, TableId table) {
    Write(index, Type::kRow, kMayBeValue);
    cells_[index].table = table;
  }

  // Nothing is known of a register, nor of what was written where it was a condition.
  void Forget(size_t index) {
    cells_[index] = Cell();
    if (index >= is_condition_.size() || !is_condition_[index]) return;
    for (Cell& cell : cells_) {
      if (paths_.Mentions(cell.written, static_cast<Register>(index))) cell.written = kNever;
    }
  }

  void CheckReasons(const Instruction& one, uint32_t failures) const {
    for (uint32_t failure = 0; failure < kFailures; ++failure) {
      const bool possible = failures >> failure & 1;
      Check(!possible || code_.reason_blocks[one.reasons + failure] != kNoReason, "a failure has no reason");
    }
  }

  // -- ways through the program

  void Branch(uint32_t target, const Cells& cells, std::optional<Literal> refuted = std::nullopt) {
    Check(stores_left_ == 0, "an insert is left before its last column");
    edges_[target].push_back({cells, refuted});
  }

  // The newest first: of nested guards the inner ones, so that each meets what the outer one still knows.
  void JoinEdges() {
    std::vector<Edge>& edges = edges_[at_];
    Check(edges.empty() || stores_left_ == 0, "an insert is entered behind its beginning");
    while (!edges.empty()) {
      if (reached_) {
        Join(edges.back());
      } else {
        cells_ = std::move(edges.back().cells);
        reached_ = true;
      }
      edges.pop_back();
    }
    edges.shrink_to_fit();
  }

  void Join(const Edge& edge) {
    for (size_t i = 0; i < cells_.size(); ++i) {
      Cell& here = cells_[i];
      const Cell& there = edge.cells[i];
      here.may |= there.may;
      if (here.written == kNever) continue;
      if (there.written == kNever) {
        // Written on this way only. Who finds the other way's condition to hold has not come that way.
        here.written = edge.refuted ? paths_.With(here.written, *edge.refuted) : kNever;
        if (edge.refuted) is_condition_[edge.refuted->condition] = true;
        continue;
      }
      const bool same = here.type == there.type && here.table == there.table;
      const bool null_here = here.type == Type::kNull && IsValue(there.type);
      const bool null_there = there.type == Type::kNull && IsValue(here.type);
      here.written = same || null_here || null_there ? paths_.Both(here.written, there.written) : kNever;
      if (null_here) here.type = there.type;
    }
  }

  // -- instructions

  void Follow(const Instruction& one) {
    if (one.op != Op::kStore) Check(stores_left_ == 0, "an insert is left before its last column");
    if (const auto signature = SignatureOf(one.op)) return FollowValues(one, *signature);
    switch (one.op) {
      case Op::kStop:
        reached_ = false;
        return;
      case Op::kJump:
        Branch(one.a, cells_);
        reached_ = false;
        return;
      case Op::kSkipUnless:
        return FollowSkipUnless(one);
      case Op::kSkipIfNull:
        return FollowSkipIfNull(one);
      case Op::kEach:
        return FollowEach(one);
      case Op::kEnd:
        return;
      case Op::kNeed:
        Check(one.aux < kFailures, "a failure is not known");
        return Need(one, &ReadAny(one.a), one.aux);
      case Op::kCopy: {
        const Cell from = ReadAny(one.a);
        Check(from.type != Type::kList, "a list is no value");
        return Write(one.dst, from.type, from.may);
      }
      case Op::kSetNull:
        return Write(one.dst, Type::kNull);
      case Op::kIsNull:
        ReadAny(one.a);
        return Write(one.dst, Type::kBool, kMayBeValue);
      case Op::kIntToFloat:
        return Convert(one, Type::kWord, Type::kFloat);
      case Op::kDecimalToFloat:
        Check(one.aux <= decimal::kDigitsMax, "a decimal has no such scale");
        return Convert(one, Type::kDecimal, Type::kFloat);
      case Op::kDecimalUp:
        if (one.aux) CheckReasons(one, Bit(kOverflow));
        return Convert(one, one.c ? Type::kWord : Type::kDecimal, Type::kDecimal);
      case Op::kRowOfElement:
        return FollowRowOfElement(one);
      case Op::kRowOfKey:
        return FollowRowOfKey(one);
      case Op::kCheckKey:
        Check(one.a < code_.registers && Written(one.a).type == Type::kRow, "a register holds no row");
        return CheckReasons(one, Bit(kKeyFailure));
      case Op::kExists:
        ReadRow(one);
        CheckReasons(one, Bit(kKeyFailure));
        return Write(one.dst, Type::kBool, kMayBeValue);
      case Op::kDelete:
        ReadRow(one);
        return CheckReasons(one, Bit(kKeyFailure));
      case Op::kReadI:
        return FollowRead(one, {Kind::kInt64, Kind::kTimestamp, Kind::kFloat64});
      case Op::kReadB:
        return FollowRead(one, {Kind::kBool});
      case Op::kReadS:
        return FollowRead(one, {Kind::kString});
      case Op::kReadD:
        return FollowRead(one, {Kind::kDecimal});
      case Op::kWriteI:
        return FollowWrite(one, {Kind::kInt64, Kind::kTimestamp}, 0);
      case Op::kWriteF:
        return FollowWrite(one, {Kind::kFloat64}, 0);
      case Op::kWriteB:
        return FollowWrite(one, {Kind::kBool}, 0);
      case Op::kWriteS:
        return FollowWrite(one, {Kind::kString}, 0);
      case Op::kWriteD:
        return FollowWrite(one, {Kind::kDecimal}, 0);
      case Op::kIncreaseI:
      case Op::kDecreaseI:
        return FollowWrite(one, {Kind::kInt64, Kind::kTimestamp}, Bit(kOverflow));
      case Op::kIncreaseF:
      case Op::kDecreaseF:
        return FollowWrite(one, {Kind::kFloat64}, 0);
      case Op::kInsert:
        return FollowInsert(one);
      case Op::kStore:
        return FollowStore(one);
      case Op::kBegin:
        Check(one.a < transaction_.accumulators.size(), "a reduction is not there");
        return Put(code_.registers + one.a, {Type::kReduction, kMayBeValue, 0, kAlways});
      case Op::kAccumulate: {
        const Accumulator& accumulator = Begun(one.b);
        return Need(one, &Read(one.a, TypeOf(accumulator.kind)), kNull0);
      }
      case Op::kReduce:
        return FollowReduce(one);
      case Op::kEmit:
        Check(one.b < code_.returned.size(), "a returned column is not there");
        Read(one.a, TypeOf(code_.returned[one.b].kind));
        return;
      default:
        throw Refused("nothing is known of this operation");
    }
  }

  void FollowValues(const Instruction& one, const Signature& signature) {
    const auto digits = static_cast<int32_t>(one.c);
    if (signature.dst == 'b' && signature.b != '.' && one.op != Op::kAnd && one.op != Op::kOr && one.op != Op::kXor) {
      Check(one.aux <= static_cast<uint16_t>(Comparison::kGe), "a comparison is not known");
    }
    if (one.op == Op::kCompareD) Check(std::abs(int64_t{digits}) <= decimal::kDigitsMax, "a scale is not known");
    if (one.op == Op::kDivD) Check(digits >= 0, "a scale is not known");
    if (one.op == Op::kDecimalAssign) {
      Check(digits >= -decimal::kDigitsMax && one.aux <= decimal::kDigitsMax, "a scale is not known");
    }
    Need(one, &Read(one.a, signature.a), kNull0);
    if (reached_ && signature.b != '.') Need(one, &Read(one.b, signature.b), kNull1);
    if (!reached_) return;
    CheckReasons(one, signature.failures);
    if (signature.dst != '.') Write(one.dst, TypeOf(signature.dst), kMayBeValue);
  }

  void FollowSkipUnless(const Instruction& one) {
    Check(one.aux <= 1, "a bool is neither true nor false");
    Cell& condition = Read(one.a, Type::kBool);
    const uint8_t wanted = one.aux ? kMayBeTrue : kMayBeFalse;
    const uint8_t may = condition.may;
    if (may & ~wanted) {
      condition.may = static_cast<uint8_t>(may & ~wanted);
      Branch(one.b, cells_, Literal{one.a, one.aux != 0});
    }
    condition.may = may & wanted;
    if (condition.may == 0) reached_ = false;
  }

  void FollowSkipIfNull(const Instruction& one) {
    Cell& cell = ReadAny(one.a);
    const uint8_t may = cell.may;
    if (may & kMayBeNull) {
      cell.may = kMayBeNull;
      Branch(one.b, cells_);
    }
    cell.may = static_cast<uint8_t>(may & ~kMayBeNull);
    if (cell.may == 0) reached_ = false;
  }

  void FollowEach(const Instruction& one) {
    const Loop& loop = transaction_.loops[one.a];
    if (loop.lists.size() > 1) CheckReasons(one, Bit(kListFailure));
    Branch(loop.after, cells_);  // no element
    for (uint32_t i = loop.body; i < loop.after; ++i) ForgetWritten(instructions_[i]);
    for (const ColumnLoad& load : loop.elements) WriteElement(loop, load);
  }

  void WriteElement(const Loop& loop, const ColumnLoad& load) {
    Write(load.dst, TypeOf(code_.columns[loop.lists[load.column]].element));
  }

  // What an instruction of a loop's body may have written in the iteration before.
  void ForgetWritten(const Instruction& one) {
    if (WritesDst(one.op) && one.dst < code_.registers) Forget(one.dst);
    if (one.op == Op::kBegin && one.a < transaction_.accumulators.size()) Forget(code_.registers + one.a);
    if (one.op == Op::kEach) {
      for (const ColumnLoad& load : transaction_.loops[one.a].elements) {
        if (load.dst < code_.registers) Forget(load.dst);
      }
    }
  }

  void Convert(const Instruction& one, Type from, Type to) {
    const uint8_t may = Read(one.a, from).may;
    Write(one.dst, to, may & kMayBeValue ? static_cast<uint8_t>(may | kMayBeValue) : may);
  }

  // -- state

  const Site& UsedSite(SiteId site) const {
    const auto& sites = transaction_.sites;
    Check(std::find(sites.begin(), sites.end(), site) != sites.end(), "a site is not resolved for this transaction");
    return code_.sites[site];
  }

  void FollowRowOfElement(const Instruction& one) {
    const Site& site = UsedSite(one.a);
    Check(site.of_element, "a row is not named by an element");
    Check(one.b < transaction_.loops.size(), "a loop is not there");
    const Loop& loop = transaction_.loops[one.b];
    Check(at_ >= loop.body && at_ < loop.after, "an element is read outside of its loop");
    Check(one.c < loop.lists.size() && loop.lists[one.c] == site.parts[0], "a list is not there");
    WriteRow(one.dst, site.table);
  }

  void FollowRowOfKey(const Instruction& one) {
    Check(one.aux < tables_.size(), "a table is not there");
    const std::vector<Kind>& key = tables_[one.aux]->key;
    Check(one.b == key.size(), "a key has not the parts of its table's");
    Check(uint64_t{one.a} + one.b <= code_.registers, "a register is not there");
    for (uint32_t part = 0; part < one.b; ++part) Read(one.a + part, TypeOf(key[part]));
    WriteRow(one.dst, one.aux);
  }

  Kind StoredKind(const Instruction& one) const {
    Check(one.c < tables_[one.aux]->columns.size(), "a column is not there");
    return tables_[one.aux]->columns[one.c];
  }

  static void CheckKind(Kind kind, std::initializer_list<Kind> kinds) {
    Check(std::find(kinds.begin(), kinds.end(), kind) != kinds.end(), "a column has another type");
  }

  void FollowRead(const Instruction& one, std::initializer_list<Kind> kinds) {
    ReadRow(one);
    const Kind kind = StoredKind(one);
    CheckKind(kind, kinds);
    CheckReasons(one, Bit(kKeyFailure) | Bit(kMissing));
    Write(one.dst, TypeOf(kind), kMayBeValue);
  }

  void FollowWrite(const Instruction& one, std::initializer_list<Kind> kinds, uint32_t failures) {
    ReadRow(one);
    const Kind kind = StoredKind(one);
    CheckKind(kind, kinds);
    CheckReasons(one, Bit(kKeyFailure) | Bit(kMissing) | failures);
    Need(one, &Read(one.b, TypeOf(kind)), kNull1);
  }

  void FollowInsert(const Instruction& one) {
    ReadRow(one);
    CheckReasons(one, Bit(kKeyFailure) | Bit(kExistsFailure));
    stores_left_ = tables_[one.aux]->columns.size();
  }

  // Insert and the stores of all its columns, in order, stand together.
  void FollowStore(const Instruction& one) {
    Check(stores_left_ > 0, "a column is stored without an insert");
    const size_t columns = tables_[instructions_[at_ - 1].aux]->columns.size();
    const Instruction& insert = instructions_[at_ - (columns - stores_left_) - 1];
    Check(one.a == insert.a && one.aux == insert.aux, "a column is stored in another row than the inserted");
    Check(one.c == columns - stores_left_, "a column is stored out of turn");
    const Cell& cell = Read(one.b, TypeOf(StoredKind(one)));
    Check(!(cell.may & kMayBeNull), "a column may become null");
    --stores_left_;
  }

  // -- reductions

  const Accumulator& Begun(uint32_t index) {
    Check(index < transaction_.accumulators.size(), "a reduction is not there");
    Written(code_.registers + index);
    return transaction_.accumulators[index];
  }

  void FollowReduce(const Instruction& one) {
    const Accumulator& accumulator = Begun(one.a);
    const Type type = TypeOf(accumulator.kind);
    switch (accumulator.reduction) {
      case Reduction::kCount:
        return Write(one.dst, Type::kWord, kMayBeValue);
      case Reduction::kAny:
      case Reduction::kAll:
        return Write(one.dst, Type::kBool, kMayBeValue);
      case Reduction::kMin:
      case Reduction::kMax:
        return Write(one.dst, type);
      case Reduction::kMean:
        if (type == Type::kDecimal) CheckReasons(one, Bit(kOverflow));
        return Write(one.dst, type == Type::kWord ? Type::kFloat : type);
      case Reduction::kSum:
        if (type == Type::kWord || type == Type::kDecimal) CheckReasons(one, Bit(kOverflow));
        return Write(one.dst, type == Type::kNull ? Type::kWord : type, kMayBeValue);
    }
  }

  const Code& code_;
  const TransactionCode& transaction_;
  const std::vector<Instruction>& instructions_;
  const std::span<const TableSpec* const> tables_;
  std::vector<uint32_t> inside_;          // by instruction: the innermost loop around it
  std::vector<std::vector<Edge>> edges_;  // by instruction: ways to it that are still to be joined
  std::vector<bool> is_condition_;        // by register: some path mentions it
  Paths paths_;

  size_t at_ = 0;
  Cells cells_;
  bool reached_ = true;  // some way leads to the present instruction
  size_t stores_left_ = 0;
};

}  // namespace

Status VerifyCode(const Code& code, std::span<const TableSpec* const> tables) {
  std::string where;
  try {
    CheckColumns(code);
    CheckConstants(code);
    for (ReasonId reason : code.reason_blocks) Check(reason < code.reasons.size(), "a reason is not there");
    for (const Site& site : code.sites) CheckSite(code, site, tables);
    Check(code.transactions.size() <= kTransactionsMax, "there are too many transactions");
    for (size_t i = 0; i < code.transactions.size(); ++i) {
      where = "transaction " + std::to_string(i) + ": ";
      TransactionVerifier(code, code.transactions[i], tables).Run();
    }
  } catch (const Refused& refused) {
    return Status::Invalid("compiled program: " + where + refused.what());
  }
  return Status::Ok();
}

}  // namespace morphspark
