// The rows that transactions of a batch will name by keys that they compute, as far as can be told before they run.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/ids.h"
#include "state/foreseen_rows.h"

namespace morphspark {

struct Foreseen {
  std::vector<Task> tasks;      // that compute keys, in order
  std::vector<uint32_t> first;  // by place in `tasks`, and one more: its rows
  std::vector<ForeseenRow> rows;

  std::span<const ForeseenRow> Of(Task task) const {
    const auto place = std::ranges::lower_bound(tasks, task) - tasks.begin();
    return std::span(rows).subspan(first[place], first[place + 1] - first[place]);
  }
};

}  // namespace morphspark
