// What registers hold: follows a transaction and tracks, for every register at every instruction, its type, whether it
// may be null, and under which conditions it was written. A read of anything else is refused.
#include "program/verify_registers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/decimal.h"
#include "program/signature.h"

namespace morphspark::verify {
namespace {

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

// Conjunctions of literals. A path is another one and a literal more, so that guards n deep, in which a path grows at
// every join, take n² small nodes and not as many lists. Two paths may say the same; nobody asks.
class Paths {
 public:
  template <class Holds>
  bool All(PathId id, Holds holds) const {
    for (; id != kAlways; id = nodes_[id].rest) {
      if (!holds(nodes_[id].literal)) return false;
    }
    return true;
  }
  bool Mentions(PathId id, Register condition) const {
    return id != kNever && !All(id, [&](const Literal& one) { return one.condition != condition; });
  }

  // Between two calls of this one, `Both` and `With` remember what they made: many registers have the same path.
  void BeginJoin() { made_.clear(); }
  PathId With(PathId id, const Literal& literal) {
    const auto [found, added] = made_.try_emplace(uint64_t{id} << 32 | kNever, kAlways);
    if (added) found->second = Add(id, literal);
    return found->second;
  }
  PathId Both(PathId a, PathId b) {
    if (a == b || b == kAlways) return a;
    if (a == kAlways) return b;
    const auto [found, added] = made_.try_emplace(uint64_t{a} << 32 | b, a);
    if (added) {
      std::set<Literal> known;
      All(a, [&](const Literal& one) { return known.insert(one), true; });
      PathId both = a;
      std::vector<Literal> more;
      All(b, [&](const Literal& one) { return more.push_back(one), true; });
      for (const Literal& one : more) {
        if (known.insert(one).second) both = Add(both, one);
      }
      found->second = both;
    }
    return found->second;
  }

 private:
  struct Node {
    PathId rest;
    Literal literal;
  };

  PathId Add(PathId rest, const Literal& literal) {
    Check(nodes_.size() < kNever, "its conditions are too deep");
    nodes_.push_back({rest, literal});
    return static_cast<PathId>(nodes_.size() - 1);
  }

  std::vector<Node> nodes_ = {{kAlways, {}}};  // the first is kAlways, and never looked at
  std::unordered_map<uint64_t, PathId> made_;
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

// How an operation on a row fails whose handle names none.
constexpr uint32_t kBadHandle = Bit(kKeyFailure) | Bit(kOutsideFailure);

bool IsValue(Type type) { return type >= Type::kBool && type <= Type::kString; }

const char* NameOf(Op op) {
  static constexpr const char* kNames[] = {
#define MORPHSPARK_OP(name) #name,
      MORPHSPARK_OPS(MORPHSPARK_OP)
#undef MORPHSPARK_OP
  };
  return kNames[static_cast<size_t>(op)];
}

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
        is_condition_(code.registers, false),
        types_(code.registers, Type::kNull) {}

  void Run(std::span<const Given> given) {
    Start();
    for (const Given& one : given) Write(one.value, one.type);
    for (at_ = 0; at_ < instructions_.size(); ++at_) {
      JoinEdges();
      if (!reached_) {
        EachResult(instructions_[at_], [&](Register result) { unreached_.push_back(result); });
        continue;
      }
      try {
        Follow(instructions_[at_]);
      } catch (const Refused& refused) {
        throw Refused("instruction " + std::to_string(at_) + " (" + NameOf(instructions_[at_].op) +
                      "): " + refused.what());
      }
    }
  }

  // By register; empty if one has had values of two types, or nobody knows what it would have.
  std::vector<Type> types() && {
    const auto unknown = [&](Register one) { return one < types_.size() && types_[one] == Type::kNull; };
    return mixed_ || std::ranges::any_of(unreached_, unknown) ? std::vector<Type>() : std::move(types_);
  }

 private:
  // -- before the first instruction

  void Start() {
    cells_.resize(code_.registers + transaction_.accumulators.size() + transaction_.collections);
    for (Register i = 0; i < code_.constants.size(); ++i) {
      const Kind kind = code_.constant_kinds[i];
      cells_[i] = {TypeOf(kind), MayBe(TypeOf(kind)), 0, kAlways};
      types_[i] = TypeOf(kind);
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
    Check(paths_.All(written, [&](const Literal& one) { return Holds(one); }),
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
    mixed_ |= type != Type::kNull && types_[index] != Type::kNull && types_[index] != type;
    if (type != Type::kNull) types_[index] = type;
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
    paths_.BeginJoin();
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
      case Op::kRandom:
        return Write(one.dst, Type::kFloat, kMayBeValue);
      case Op::kNow:
        return Write(one.dst, Type::kWord, kMayBeValue);
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
        ReadKey(one, one.b);
        return WriteRow(one.dst, one.aux);
      case Op::kCollectElements:
        return FollowCollectElements(one);
      case Op::kChoose:
        CheckCollection(one, one.b);
        ReadKey(one, one.c);
        return WriteRow(one.dst, one.aux);
      case Op::kCheckKey:
        Check(one.a < code_.registers && Written(one.a).type == Type::kRow, "a register holds no row");
        return CheckReasons(one, kBadHandle);
      case Op::kExists:
        ReadRow(one);
        CheckReasons(one, kBadHandle);
        return Write(one.dst, Type::kBool, kMayBeValue);
      case Op::kDelete:
        ReadRow(one);
        return CheckReasons(one, kBadHandle);
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
      case Op::kWindow:
        ReadRow(one);
        return FollowWindow(one);
      case Op::kRows:
        Check(one.aux < tables_.size() && one.a < transaction_.collections, "a collection is not there");
        return Put(Collection(one.a), {Type::kReduction, kMayBeValue, one.aux, kAlways});
      case Op::kCollect:
        ReadRow(one);
        return CheckCollection(one, one.b);
      case Op::kWindowOfRows:
        CheckCollection(one, one.a);
        return FollowWindow(one);
      case Op::kBegin:
        Check(one.a < transaction_.accumulators.size(), "a reduction is not there");
        return Put(code_.registers + one.a, {Type::kReduction, kMayBeValue, 0, kAlways});
      case Op::kAccumulate: {
        const Accumulator& accumulator = Begun(one.b);
        return Need(one, &Read(one.a, TypeOf(accumulator.kind)), kNull0);
      }
      case Op::kReduce:
        return FollowReduce(one);
      case Op::kCall:
        return FollowCall(one);
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
    EachResult(one, [&](Register result) {
      if (result < code_.registers) Forget(result);
    });
    if (one.op == Op::kBegin && one.a < transaction_.accumulators.size()) Forget(code_.registers + one.a);
    if (one.op == Op::kRows && one.a < transaction_.collections) Forget(Collection(one.a));
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

  void FollowCall(const Instruction& one) {
    const UserFunction& function = code_.functions[one.aux];
    for (uint32_t i = 0; i < one.b; ++i) {
      const Kind kind = function.arguments[i];
      const Cell& cell = Read(one.a + i, IsArray(kind) ? ArrayTypeOf(ElementOf(kind)) : TypeOf(kind));
      Check(!(cell.may & kMayBeNull), "an argument may be null");
    }
    CheckReasons(one, Bit(kUdfFailure));
    for (uint32_t i = 0; i < one.c; ++i) {
      Write(one.dst + i, TypeOf(function.results[i]), function.nullable ? kMayBeAnything : kMayBeValue);
    }
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

  void ReadKey(const Instruction& one, uint32_t parts) {
    Check(one.aux < tables_.size(), "a table is not there");
    const std::vector<Kind>& key = tables_[one.aux]->key;
    Check(parts == key.size(), "a key has not the parts of its table's");
    Check(uint64_t{one.a} + parts <= code_.registers, "a register is not there");
    for (uint32_t part = 0; part < parts; ++part) Read(one.a + part, TypeOf(key[part]));
  }

  void FollowCollectElements(const Instruction& one) {
    const Site& site = UsedSite(one.a);
    Check(site.of_element && site.parts[0] == one.c, "a row is not named by an element");
    Check(site.table == one.aux, "a register holds no row of this table");
    CheckCollection(one, one.b);
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
    CheckReasons(one, kBadHandle | Bit(kMissing));
    Write(one.dst, TypeOf(kind), kMayBeValue);
  }

  void FollowWrite(const Instruction& one, std::initializer_list<Kind> kinds, uint32_t failures) {
    ReadRow(one);
    const Kind kind = StoredKind(one);
    CheckKind(kind, kinds);
    CheckReasons(one, kBadHandle | Bit(kMissing) | failures);
    Need(one, &Read(one.b, TypeOf(kind)), kNull1);
  }

  void FollowInsert(const Instruction& one) {
    ReadRow(one);
    CheckReasons(one, kBadHandle | Bit(kExistsFailure));
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

  // -- windows

  size_t Collection(uint32_t index) const { return code_.registers + transaction_.accumulators.size() + index; }

  void CheckCollection(const Instruction& one, uint32_t index) {
    Check(index < transaction_.collections && Written(Collection(index)).table == one.aux, "a collection is not there");
  }

  void FollowWindow(const Instruction& one) {
    Check(one.b < transaction_.windows.size(), "a window is not there");
    Check(one.aux < tables_.size() && tables_[one.aux]->keeps_versions, "a window's table keeps no versions");
    const WindowCode& window = transaction_.windows[one.b];
    Check(window.kind == StoredKind(one), "a window's column has another type");
    Check(window.scale >= 0 && window.scale <= decimal::kDigitsMax, "a scale is not known");
    if (window.by == WindowBy::kSince) {
      const Cell& since = Read(window.since, Type::kWord);
      Check(since.type == Type::kWord, "a window begins nowhere");
    }
    const Type type = TypeOf(window.kind);
    const bool number = type == Type::kFloat || type == Type::kDecimal || window.kind == Kind::kInt64;
    uint32_t failures = kBadHandle;
    switch (window.aggregate) {
      case WindowAggregate::kCount:
      case WindowAggregate::kNunique:
        CheckReasons(one, failures);
        return Write(one.dst, Type::kWord, kMayBeValue);
      case WindowAggregate::kValues:
        CheckReasons(one, failures);
        return Write(one.dst, ArrayTypeOf(window.kind), kMayBeValue);
      case WindowAggregate::kFirst:
      case WindowAggregate::kLast:
        CheckReasons(one, failures);
        return Write(one.dst, type);
      case WindowAggregate::kMin:
      case WindowAggregate::kMax:
        Check(type != Type::kBool, "a bool has no order");
        CheckReasons(one, failures);
        return Write(one.dst, type);
      case WindowAggregate::kSum:
        Check(number, "a sum has no numbers");
        if (type != Type::kFloat) failures |= Bit(kOverflow);
        CheckReasons(one, failures);
        return Write(one.dst, type, kMayBeValue);
      case WindowAggregate::kMean:
        Check(number, "a sum has no numbers");
        if (type == Type::kDecimal) failures |= Bit(kOverflow);
        CheckReasons(one, failures);
        return Write(one.dst, type == Type::kWord ? Type::kFloat : type);
    }
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
  std::vector<std::vector<Edge>> edges_;  // by instruction: ways to it that are still to be joined
  std::vector<bool> is_condition_;        // by register: some path mentions it
  std::vector<Type> types_;               // by register: of the values that it has had
  std::vector<Register> unreached_;       // made where nothing leads
  bool mixed_ = false;                    // one has had values of two types
  Paths paths_;

  size_t at_ = 0;
  Cells cells_;
  bool reached_ = true;  // some way leads to the present instruction
  size_t stores_left_ = 0;
};

}  // namespace

void FollowRegisters(const Code& code, const TransactionCode& transaction, std::span<const TableSpec* const> tables,
                     std::span<const Given> given) {
  TransactionVerifier(code, transaction, tables).Run(given);
}

std::vector<Type> TypesOfRegisters(const Code& code, const TransactionCode& transaction,
                                   std::span<const TableSpec* const> tables) {
  TransactionVerifier verifier(code, transaction, tables);
  verifier.Run({});
  return std::move(verifier).types();
}

}  // namespace morphspark::verify
