// What tells, before a transaction runs, which rows it will name by keys that it computes: the part of its code that
// these keys depend on, and nothing else. It writes nothing.
//
//     t = pointers[e.k].target                  read pointers
//     x = work(records[e.k].value)      ──▶
//     records[t].value += x                     row of records   (not: increase)
//
// What is left out becomes a jump to what is not, so that loops and jumps stand where they stood.
#pragma once

#include <span>
#include <vector>

#include "program/code.h"

namespace morphspark {

struct Foresight {
  std::vector<Instruction> instructions;  // empty: nobody can tell
  bool reads = false;                     // the keys depend on rows
  bool exact = false;                     // the keys depend on the event alone, and on no function
};

Foresight FindForesight(const Code& code, const TransactionCode& transaction, std::span<const TableSpec* const> tables);

}  // namespace morphspark
