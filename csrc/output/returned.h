// The columns that transactions return, filled position by position while they run.
//
// Thread safety: different positions may be set by different threads, each under its own worker's number.
#pragma once

#include <span>
#include <vector>

#include "base/arena.h"
#include "base/column.h"

namespace morphspark {

class ReturnedValues {
 public:
  ReturnedValues(Kind kind, int64_t positions, int workers = 1);

  void Set(int64_t position, const Value& value, int worker = 0);
  // There are more positions than was thought.
  void Grow(int64_t positions);
  // From now on there are only these positions, which ascend.
  void Keep(std::span<const int64_t> positions);
  // Takes back what was set.
  void Clear(int64_t position);
  // The column in Arrow's layout; positions that were never set are null.
  ColumnBuffers Finish() &&;
  // A copy of the positions [begin, end), while others may be set.
  ColumnBuffers Column(int64_t begin, int64_t end) const;

 private:
  void FinishBits(int64_t begin, ColumnBuffers* column) const;
  void FinishStrings(int64_t begin, ColumnBuffers* column) const;

  Kind kind_;
  Buffer set_;                  // one byte per position
  Buffer values_;               // fixed-width values; booleans as bytes
  std::vector<Bytes> strings_;  // into arenas_
  std::vector<Arena> arenas_;   // by worker
};

}  // namespace morphspark
