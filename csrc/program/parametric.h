// Parametric dependencies (PD) of a transaction: the rows, besides its own, that a write's value, condition or key
// reads. Only what is read directly: a value that went through another row belongs to that row's write.
//
//        require(a.x >= e.n)
//        a.x -= e.n                   reads a, its own row: none
//        b.x += e.n                   {b, a}: its condition reads a
//        c.x = b.x                    {c, b} and {c, a}
#pragma once

#include <vector>

#include "program/code.h"

namespace morphspark {

std::vector<ParametricRead> FindParametricReads(const Code& code, const TransactionCode& transaction);

// How many dependencies a transaction has in a batch. accesses(use): of the rows of a use; waiting(use): of those of
// its accesses that have an earlier write.
template <class Accesses, class Waiting>
int64_t CountParametric(const TransactionCode& transaction, Accesses accesses, Waiting waiting) {
  int64_t count = 0;
  for (const ParametricRead& one : transaction.parametric)
    count += waiting(one.read) * (one.in_step ? 1 : accesses(one.write));
  return count;
}

}  // namespace morphspark
