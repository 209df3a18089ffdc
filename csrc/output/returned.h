// The columns that transactions return, filled position by position while they run.
//
// Thread safety: different positions of a fixed-width column may be set by different threads.
#pragma once

#include <vector>

#include "base/arena.h"
#include "base/column.h"

namespace morphspark {

class ReturnedValues {
 public:
  ReturnedValues(Kind kind, int64_t positions);

  void Set(int64_t position, const Value& value);
  // The column in Arrow's layout; positions that were never set are null.
  ColumnBuffers Finish() &&;

 private:
  Kind kind_;
  Buffer set_;                  // one byte per position
  Buffer values_;               // fixed-width values; booleans as bytes
  std::vector<Bytes> strings_;  // into arena_
  Arena arena_;
};

}  // namespace morphspark
