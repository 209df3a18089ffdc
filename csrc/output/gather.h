// Pass-through columns in transaction order, as canonical Arrow: zeros under nulls, no idle validity buffer.
#pragma once

#include <span>

#include "base/column.h"
#include "base/thread_pool.h"

namespace morphspark {

// Fixed-width values of `bits` bits (1, or a multiple of 8) or variable-size ones with offsets of `offset_bytes`
// (4 or 8) each. An empty `order` with identity true means: as they are.
struct GatherLayout {
  int bits = 0;
  int offset_bytes = 0;  // 0: fixed width
};

// True if an array, as it stands, is what `Gather` would make of it: it can be passed on without a copy.
bool IsCanonical(const ArrowArray& array, GatherLayout layout);

ColumnBuffers Gather(const ArrowArray& array, GatherLayout layout, bool identity, std::span<const int64_t> order,
                     ThreadPool* pool);

}  // namespace morphspark
