// A transaction cut into operations: the parts that can be scheduled by themselves (f-schedule, c-schedule).
//
// An operation is what a transaction does to one row, as far as it can be done in one go: reading it, testing it,
// writing it. Between the operations of a transaction there are parametric dependencies (PD):
//
//   - a value that one reads and another uses; it travels through the transaction's exchange
//   - a `require` on a read value, for every later write: a write waits for the conditions that come before it
//   - the order of two operations on the same row
//
//        require(a.x >= e.n)          operation 0: read a, require        ──┐
//        a.x -= e.n                                write a                  ├──▶ operation 1: write b
//        b.x += e.n                                                       ──┘
//
// Values that come from the event alone are computed wherever they are needed. So is the test that a value is not null:
// an operation may run though another of its transaction has failed, and must not rely on what that one would have
// found. The verifier follows each operation by itself, as it follows whole transactions.
//
// Not cut, but one operation as a whole: transactions with loops, computed keys or windows, those of one row or more
// than 64, those that are one condition, long ones that would be repeated many times, and, as long as a column has no
// type, those that always fail of it.
#pragma once

#include <span>
#include <vector>

#include "program/code.h"

namespace morphspark {

struct Transfer {
  Register value;
  uint32_t place;  // in the transaction's exchange
  bool text;       // a string: whoever leaves it copies it, as it may lie where the next operation puts its own
};

struct Operation {
  std::vector<Instruction> instructions;
  std::vector<Transfer> imports;  // what operations before it left
  std::vector<Transfer> exports;  // what operations after it need
  std::vector<uint32_t> after;    // operations that it waits for; all of them come before it
  std::vector<uint32_t> uses;     // site uses whose rows it takes
  // What it leaves, perhaps a string, and makes only under a condition. If it does not, whoever gets it has no use for
  // it either; but what is left must not be a number, from another kind of transaction, that is taken for a string.
  std::vector<Register> perhaps;
};

struct Operations {
  std::vector<Operation> list;  // empty: the transaction is not cut
  uint32_t exchange = 0;        // places that a transaction's operations share
  // By site use, as TransactionCode::uses: the first and the last operation on its row. A use without operations has
  // entry > exit.
  std::vector<uint32_t> entry, exit;
  // What each operation waits for, flat, since planning copies it for every transaction: [i] is the end of operation
  // i's part of `enters` and of `after`.
  struct End {
    uint32_t enters, after;
  };
  std::vector<End> ends;
  // Uses by the operation that waits for their rows; those without any wait with the first.
  std::vector<uint32_t> enters;
  std::vector<uint32_t> after;  // as Operation::after
};

Operations CutTransaction(const Code& code, const TransactionCode& transaction,
                          std::span<const TableSpec* const> tables);

}  // namespace morphspark
