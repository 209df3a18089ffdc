// The rows that transactions of a batch will name by keys that they compute, as far as can be told before they run.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/ids.h"
#include "state/foreseen_rows.h"

namespace morphspark {

struct Foreseen {
  std::vector<Task> tasks;  // that compute keys, in order
  std::vector<ForeseenRow> rows;
  std::vector<ReadRow> reads;
  std::vector<uint32_t> first_row, first_read;  // by place in `tasks`, and one more

  size_t PlaceOf(Task task) const { return std::ranges::lower_bound(tasks, task) - tasks.begin(); }
  std::span<const ForeseenRow> RowsAt(size_t place) const {
    return std::span(rows).subspan(first_row[place], first_row[place + 1] - first_row[place]);
  }
  std::span<const ForeseenRow> RowsOf(Task task) const { return RowsAt(PlaceOf(task)); }
  std::span<const ReadRow> ReadsAt(size_t place) const {
    return std::span(reads).subspan(first_read[place], first_read[place + 1] - first_read[place]);
  }
  // Forgets the tasks from this place on.
  void Cut(size_t place) { tasks.resize(place); }
};

}  // namespace morphspark
