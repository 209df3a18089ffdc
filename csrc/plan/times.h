// Effective timestamps of the rows of a batch: their own, but not before `floor`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace morphspark {

struct Times {
  const int64_t* own = nullptr;  // by batch row; null: there are none
  int64_t floor = INT64_MIN;

  int64_t At(BatchRow row) const { return own == nullptr ? floor : std::max(own[row], floor); }
};

}  // namespace morphspark
