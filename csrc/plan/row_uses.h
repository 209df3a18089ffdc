// The planned uses of each row, in order. `Graph::earlier` leads from the last one back, which is enough for planning;
// a transaction that comes late to a row that many use would go that way again and again. So they are listed when the
// first one asks: two passes over the accesses.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/scratch.h"

namespace morphspark {

struct Graph;

class RowUses {
 public:
  // There is another graph.
  void Forget() { known_ = false; }
  // All uses of the row that this access is one of.
  std::span<const Access> Of(const Graph& graph, Access any) {
    if (!known_) List(graph);
    const uint32_t row = row_[any];
    return {list_.data() + first_[row], list_.data() + first_[row + 1]};
  }
  uint64_t bytes() const { return row_.bytes() + first_.bytes() + list_.bytes(); }

 private:
  void List(const Graph& graph);

  bool known_ = false;
  Scratch<uint32_t> row_;    // by access: a number of its row
  Scratch<uint32_t> first_;  // by row, and one more: its uses are [first_[row], first_[row + 1]) of `list_`
  Scratch<Access> list_;
};

}  // namespace morphspark
