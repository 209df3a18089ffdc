// Which rows the transactions of an epoch may use, as far as events alone name them.
#pragma once

#include "plan/graph.h"

namespace morphspark {

// The code of the transaction at a position; null if none runs there.
inline const TransactionCode* CodeAt(const PlanInput& input, int64_t position) {
  if (position >= input.order.keyed) return nullptr;
  const TransactionId id = input.transactions[input.order.Row(position)];
  return id == kUnmatched ? nullptr : &input.code.transactions[id];
}

// The elements of a row's list, for a site that is named by them.
inline ListRange Elements(std::span<const ColumnView> columns, const Site& site, BatchRow row) {
  const ColumnView& lists = columns[site.parts[0]];
  if (lists.kind != Kind::kList || lists.IsNull(row)) return {0, 0};
  return lists.List(row);
}

// Calls visit(use, index) for each row that a transaction may use, in the order of its accesses. `index` leads into
// the site's slots and handles.
template <class Visit>
void EachUse(const PlanInput& input, const TransactionCode& code, BatchRow row, Visit visit) {
  for (const SiteUse& use : code.uses) {
    const Site& site = input.code.sites[use.site];
    if (!site.of_element) {
      visit(use, row);
      continue;
    }
    const ListRange range = Elements(input.columns, site, row);
    for (int64_t element = 0; element < range.size; ++element) visit(use, range.start + element);
  }
}

}  // namespace morphspark
