#include "plan/row_uses.h"

#include <algorithm>

#include "plan/graph.h"

namespace morphspark {

void RowUses::List(const Graph& graph) {
  const Access accesses = graph.accesses();
  const uint32_t rows = NumberRows(graph, &row_);
  // Counted two places ahead, so that filling moves each to where its successor begins.
  first_.Resize(uint64_t{rows} + 2);
  std::ranges::fill(first_, 0);
  for (Access access = 0; access < accesses; ++access) {
    if (!(graph.flags[access] & Graph::kHole)) ++first_[row_[access] + 2];
  }
  for (uint64_t row = 2; row < first_.size(); ++row) first_[row] += first_[row - 1];
  list_.Resize(first_[rows + 1]);
  for (Access access = 0; access < accesses; ++access) {
    if (!(graph.flags[access] & Graph::kHole)) list_[first_[row_[access] + 1]++] = access;
  }
  known_ = true;
}

}  // namespace morphspark
