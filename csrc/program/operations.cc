#include "program/operations.h"

#include <algorithm>

#include "program/signature.h"
#include "program/verify_registers.h"

namespace morphspark {
namespace {

constexpr uint32_t kOperationsMax = 64;  // sets of them are words
// What operations repeat for themselves is bounded, as long programs must not take long to cut: to so many
// instructions, or so many times those of the transaction.
constexpr size_t kInstructionsMax = 1 << 14, kTimesMax = 4;
using Set = uint64_t;

constexpr uint32_t kNone = 0xFFFFFFFFu;

Set One(uint32_t index) { return Set{1} << index; }

template <class Visit>
void Each(Set set, Visit visit) {
  for (; set; set &= set - 1) visit(static_cast<uint32_t>(__builtin_ctzll(set)));
}

bool CanBeCut(Op op) {
  switch (op) {
    case Op::kEach:
    case Op::kEnd:
    case Op::kBegin:
    case Op::kAccumulate:
    case Op::kReduce:
    case Op::kRowOfElement:
    case Op::kRowOfKey:
    case Op::kWindow:
    case Op::kRows:
    case Op::kCollect:
    case Op::kWindowOfRows:
    case Op::kCollectElements:
    case Op::kChoose:
      return false;
    default:
      return true;
  }
}

// Instructions that belong together: one, or everything between a skip and the place where its ways meet again. An
// insertion and the storing of its columns belong together, too.
struct Atom {
  uint32_t begin, end;
  Set uses = 0;  // site uses whose rows it takes
  bool changes = false;
  bool has_condition = false;
  std::vector<Register> sources;  // values that it needs and does not make
  std::vector<Register> results;  // values that it makes
};

class Cutter {
 public:
  Cutter(const Code& code, const TransactionCode& transaction, std::span<const TableSpec* const> tables)
      : code_(code),
        transaction_(transaction),
        tables_(tables),
        use_of_(code.registers, kNone),
        made_in_(code.registers, kNone),
        makers_(code.registers),
        tests_(code.registers) {}

  Operations Cut() {
    if (!Possible()) return {};
    FindAtoms();
    for (uint32_t atom = 0; atom < atoms_.size(); ++atom) {
      if (!Assign(atom)) return {};
    }
    if (groups_.size() < 2 || !EveryValueHasOneHome()) return {};
    types_ = verify::TypesOfRegisters(code_, transaction_, tables_);
    if (types_.empty()) return {};
    Operations operations;
    return Arrange(&operations) && Verified(operations) ? operations : Operations();
  }

 private:
  static constexpr uint32_t kUnmade = kNone - 1;

  struct Group {
    Set before = 0;  // groups that it waits for, and those that they wait for
    std::vector<uint32_t> atoms;
  };

  bool Possible() {
    if (transaction_.uses.size() < 2 || transaction_.uses.size() > kOperationsMax) return false;
    for (const RowLoad& load : transaction_.rows) {
      for (uint32_t use = 0; use < transaction_.uses.size(); ++use) {
        if (transaction_.uses[use].site == load.site) use_of_[load.dst] = use;
      }
    }
    return std::ranges::all_of(transaction_.instructions, [&](const Instruction& one) {
      // An instruction that is never reached may name anything.
      return CanBeCut(one.op) && !(verify::TakesRow(one.op) && use_of_[one.a] == kNone);
    });
  }

  // -- atoms

  // Where the ways of a skip meet again: at its target, or behind the other way that a jump before it leaves out.
  uint32_t Meet(uint32_t begin, uint32_t end) const {
    for (uint32_t i = begin; i < end; ++i) {
      const Instruction& one = transaction_.instructions[i];
      if (one.op == Op::kSkipUnless || one.op == Op::kSkipIfNull) end = std::max(end, one.b);
      if (one.op == Op::kJump) end = std::max(end, one.a);
      if (one.op == Op::kInsert) {
        while (transaction_.instructions[end].op == Op::kStore) ++end;
      }
    }
    return end;
  }

  void FindAtoms() {
    const auto count = static_cast<uint32_t>(transaction_.instructions.size());
    for (uint32_t begin = 0; begin < count;) {
      if (transaction_.instructions[begin].op == Op::kStop) break;  // the last; each operation gets its own
      Atom atom{.begin = begin, .end = Meet(begin, begin + 1), .sources = {}, .results = {}};
      for (uint32_t i = begin; i < atom.end; ++i) Look(transaction_.instructions[i], &atom);
      List(atom, static_cast<uint32_t>(atoms_.size()));
      begin = atom.end;
      atoms_.push_back(std::move(atom));
    }
  }

  void Look(const Instruction& one, Atom* atom) {
    verify::EachSource(one, [&](Register source) {
      if (std::ranges::find(atom->results, source) == atom->results.end()) atom->sources.push_back(source);
    });
    if (verify::TakesRow(one.op)) {
      atom->uses |= One(use_of_[one.a]);
      atom->changes |= verify::ChangesRow(one.op);
    }
    atom->has_condition |= one.op == Op::kRequire;
    verify::EachResult(one, [&](Register result) { atom->results.push_back(result); });
  }

  void List(const Atom& atom, uint32_t index) {
    for (Register result : atom.results) {
      if (makers_[result].empty() || makers_[result].back() != index) makers_[result].push_back(index);
    }
    const Instruction& first = transaction_.instructions[atom.begin];
    if (first.op == Op::kNeed) tests_[first.a].push_back(index);
  }

  // -- groups: what becomes an operation

  // Atoms of the event alone belong to no group; whoever needs them has a copy.
  bool OfEvent(const Atom& atom) const { return atom.uses == 0 && GroupsBefore(atom) == 0; }

  Set GroupsBefore(const Atom& atom) const {
    Set groups = 0;
    for (Register source : atom.sources) {
      const uint32_t maker = made_in_[source];
      if (maker != kNone && group_of_[maker] != kNone) groups |= One(group_of_[maker]);
    }
    return groups;
  }

  bool Assign(uint32_t index) {
    const Atom& atom = atoms_[index];
    group_of_.push_back(kNone);
    Set needed = GroupsBefore(atom);
    if (!OfEvent(atom)) {
      if (atom.changes) needed |= conditions_;
      const uint32_t group = atom.uses ? GroupOfRows(atom, needed) : LastOf(needed);
      if (group == kNone) return false;
      Join(index, group, needed);
      if (atom.has_condition) conditions_ |= One(group);
    }
    for (Register result : atom.results) made_in_[result] = index;
    return true;
  }

  // The group that may wait for all others: none of them waits for it.
  uint32_t LastOf(Set groups) const {
    uint32_t last = kNone;
    Each(groups, [&](uint32_t group) {
      if (last == kNone || (groups_[group].before & One(last))) last = group;
    });
    return last;
  }

  // The present group of the atom's rows if it can take the atom in; else a new one, which waits for it.
  uint32_t GroupOfRows(const Atom& atom, Set& needed) {
    Set present = 0;
    Each(atom.uses, [&](uint32_t use) {
      if (exit_.size() > use && exit_[use] != kNone) present |= One(exit_[use]);
    });
    exit_.resize(transaction_.uses.size(), kNone);
    entry_.resize(transaction_.uses.size(), kNone);
    uint32_t group = kNone;
    if (__builtin_popcountll(present) == 1 && UsesOf(present) == atom.uses) {
      const auto candidate = static_cast<uint32_t>(__builtin_ctzll(present));
      bool cyclic = false;
      Each(needed & ~present, [&](uint32_t other) { cyclic |= (groups_[other].before & present) != 0; });
      if (!cyclic) group = candidate;
    }
    if (group == kNone) {
      if (groups_.size() == kOperationsMax) return kNone;
      group = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back();
      needed |= present;
    }
    Each(atom.uses, [&](uint32_t use) {
      if (entry_[use] == kNone) entry_[use] = group;
      exit_[use] = group;
    });
    return group;
  }

  // The rows whose present group is among these.
  Set UsesOf(Set groups) const {
    Set uses = 0;
    for (uint32_t use = 0; use < exit_.size(); ++use) {
      if (exit_[use] != kNone && (groups & One(exit_[use]))) uses |= One(use);
    }
    return uses;
  }

  void Join(uint32_t atom, uint32_t group, Set needed) {
    needed &= ~One(group);
    Set before = needed;
    Each(needed, [&](uint32_t other) { before |= groups_[other].before; });
    groups_[group].before |= before;
    // Whoever waits for the group now waits for these, too.
    for (Group& other : groups_) {
      if (other.before & One(group)) other.before |= groups_[group].before;
    }
    groups_[group].atoms.push_back(atom);
    group_of_[atom] = group;
  }

  // A value that several groups make would have no place in the exchange.
  bool EveryValueHasOneHome() const {
    std::vector<uint32_t> home(made_in_.size(), kUnmade);
    for (uint32_t atom = 0; atom < atoms_.size(); ++atom) {
      for (Register result : atoms_[atom].results) {
        if (home[result] != kUnmade && home[result] != group_of_[atom]) return false;
        home[result] = group_of_[atom];
      }
    }
    return true;
  }

  // -- operations

  // False if that would be too much.
  bool Arrange(Operations* operations) {
    const auto count = static_cast<uint32_t>(groups_.size());
    std::vector<uint32_t> order(count);
    for (uint32_t group = 0; group < count; ++group) order[group] = group;
    // A group has more before it than any that it waits for.
    std::ranges::stable_sort(order, {}, [&](uint32_t g) { return __builtin_popcountll(groups_[g].before); });
    std::vector<uint32_t> place_of_group(count);
    for (uint32_t i = 0; i < count; ++i) place_of_group[order[i]] = i;
    std::vector<uint32_t> exchange(made_in_.size(), kNone);
    std::vector<uint8_t> placed(atoms_.size(), 0);
    operations->list.resize(count);
    size_t instructions = 0;
    for (uint32_t i = 0; i < count; ++i) {
      Operation& operation = operations->list[i];
      const Group& group = groups_[order[i]];
      Each(group.before, [&](uint32_t other) { operation.after.push_back(place_of_group[other]); });
      std::ranges::sort(operation.after);
      Set uses = 0;
      for (uint32_t atom : group.atoms) uses |= atoms_[atom].uses;
      Each(uses, [&](uint32_t use) { operation.uses.push_back(use); });
      Fill(order[i], group.atoms, exchange, &placed, operations, &operation);
      instructions += operation.instructions.size();
      if (instructions > std::max(kInstructionsMax, kTimesMax * transaction_.instructions.size())) return false;
    }
    // What nobody needs, but may fail or be returned, goes to the first.
    std::vector<uint32_t> rest;
    for (uint32_t atom = 0; atom < atoms_.size(); ++atom) {
      if (!placed[atom]) rest.push_back(atom);
    }
    if (!rest.empty()) {
      const std::vector<uint32_t>& first = groups_[order[0]].atoms;
      rest.insert(rest.begin(), first.begin(), first.end());
      operations->list[0].instructions.clear();
      Fill(order[0], std::move(rest), exchange, &placed, operations, &operations->list[0]);
    }
    for (uint32_t i = 0; i < count; ++i) Export(groups_[order[i]], exchange, &operations->list[i]);
    const uint32_t none = 0;
    operations->entry.assign(transaction_.uses.size(), 1);
    operations->exit.assign(transaction_.uses.size(), none);
    for (uint32_t use = 0; use < exit_.size(); ++use) {
      if (exit_[use] == kNone) continue;
      operations->entry[use] = place_of_group[entry_[use]];
      operations->exit[use] = place_of_group[exit_[use]];
    }
    Flatten(operations);
    return true;
  }

  void Flatten(Operations* operations) const {
    const auto uses = static_cast<uint32_t>(operations->entry.size());
    for (uint32_t i = 0; i < operations->list.size(); ++i) {
      for (uint32_t use = 0; use < uses; ++use) {
        const bool used = operations->entry[use] <= operations->exit[use];
        if ((used ? operations->entry[use] : 0) == i) operations->enters.push_back(use);
      }
      const std::vector<uint32_t>& after = operations->list[i].after;
      operations->after.insert(operations->after.end(), after.begin(), after.end());
      operations->ends.push_back(
          {static_cast<uint32_t>(operations->enters.size()), static_cast<uint32_t>(operations->after.size())});
    }
  }

  // The wanted atoms of a group, and copies of those of the event that they need, and of tests, in program order.
  void Fill(uint32_t group, std::vector<uint32_t> wanted, std::vector<uint32_t>& exchange, std::vector<uint8_t>* placed,
            Operations* operations, Operation* operation) {
    // A condition on the event alone is tested before every write.
    for (uint32_t index = 0; index < atoms_.size(); ++index) {
      if (group_of_[index] == kNone && atoms_[index].has_condition) wanted.push_back(index);
    }
    std::vector<uint8_t> chosen(atoms_.size(), 0);
    operation->imports.clear();
    while (!wanted.empty()) {
      const uint32_t index = wanted.back();
      wanted.pop_back();
      if (chosen[index]) continue;
      chosen[index] = (*placed)[index] = 1;
      for (Register source : atoms_[index].sources) {
        for (uint32_t test : tests_[source]) {
          if (test < index) wanted.push_back(test);
        }
        for (uint32_t maker : makers_[source]) {
          if (maker >= index) break;
          if (group_of_[maker] == kNone) {
            wanted.push_back(maker);
          } else if (group_of_[maker] != group) {
            if (exchange[source] == kNone) exchange[source] = operations->exchange++;
            AddTransfer({source, exchange[source], IsText(source)}, &operation->imports);
          }
        }
      }
    }
    for (uint32_t index = 0; index < atoms_.size(); ++index) {
      if (!chosen[index]) continue;
      const auto shift = static_cast<uint32_t>(operation->instructions.size()) - atoms_[index].begin;
      for (uint32_t i = atoms_[index].begin; i < atoms_[index].end; ++i) {
        Instruction one = transaction_.instructions[i];
        if (one.op == Op::kSkipUnless || one.op == Op::kSkipIfNull) one.b += shift;
        if (one.op == Op::kJump) one.a += shift;
        operation->instructions.push_back(one);
      }
    }
    operation->instructions.push_back(transaction_.instructions.back());
  }

  void Export(const Group& group, const std::vector<uint32_t>& exchange, Operation* operation) {
    for (uint32_t atom : group.atoms) {
      for (Register result : atoms_[atom].results) {
        if (exchange[result] == kNone) continue;
        AddTransfer({result, exchange[result], IsText(result)}, &operation->exports);
        const bool conditional = atoms_[atom].end - atoms_[atom].begin > 1;
        if (conditional && (IsText(result) || types_[result] == verify::Type::kNull))
          operation->perhaps.push_back(result);
      }
    }
  }

  static void AddTransfer(const Transfer& transfer, std::vector<Transfer>* transfers) {
    if (std::ranges::find(*transfers, transfer.value, &Transfer::value) == transfers->end())
      transfers->push_back(transfer);
  }

  // What it imports has a value or none: the operation that should have left it may have failed.
  bool Verified(const Operations& operations) const {
    TransactionCode part = transaction_;
    for (const Operation& operation : operations.list) {
      part.instructions = operation.instructions;
      std::vector<verify::Given> given;
      for (const Transfer& one : operation.imports) given.push_back({one.value, types_[one.value]});
      try {
        verify::FollowRegisters(code_, part, tables_, given);
      } catch (const verify::Refused&) {
        return false;
      }
    }
    return true;
  }

  bool IsText(Register value) const { return types_[value] == verify::Type::kString; }

  const Code& code_;
  const TransactionCode& transaction_;
  const std::span<const TableSpec* const> tables_;
  std::vector<uint32_t> use_of_;               // by register that holds a row
  std::vector<uint32_t> made_in_;              // by register: the newest atom that makes it
  std::vector<std::vector<uint32_t>> makers_;  // by register: atoms that make it
  std::vector<std::vector<uint32_t>> tests_;   // by register: atoms that only see to it that it is not null
  std::vector<verify::Type> types_;            // by register
  std::vector<Atom> atoms_;
  std::vector<uint32_t> group_of_;  // by atom; kNone: of the event
  std::vector<Group> groups_;
  std::vector<uint32_t> entry_, exit_;  // by site use: the first and the newest group of its row
  Set conditions_ = 0;                  // groups with a require
};

}  // namespace

Operations CutTransaction(const Code& code, const TransactionCode& transaction,
                          std::span<const TableSpec* const> tables) {
  return Cutter(code, transaction, tables).Cut();
}

}  // namespace morphspark
