// A stretch of an epoch: events, and between them the firings of triggers, all known before any of them runs. So they
// are planned and run together, as if the firings were events.
//
// Which boundaries of `every` are passed is told by the timestamps of events, and without `each` so are the firings.
// With `each` a firing needs a version in its window, and who will have left one is known only when it runs. So one is
// planned for every row that has a version there or that an event before it may write. A firing looks first if its
// window is empty (lower_steps.py); then its reason is `not_due`, and the engine drops it.
//
// Rows of firings are numbered behind those of events, those of one trigger side by side: their columns begin there, so
// their offset is negative.
//
// Sessions are not planned: when one ends depends on who aborts. Nor are firings that write to rows that start others.
//
// Thread safety: none.
#pragma once

#include <span>
#include <vector>

#include "execute/planned_ages.h"
#include "execute/triggers.h"
#include "plan/graph.h"
#include "plan/times.h"

namespace morphspark {

// Positions [begin, end) are firings at this boundary.
struct FiredRange {
  int64_t begin, end;
  int64_t boundary;
};

class Stretch {
 public:
  // Of more firings than that the rest waits for the next stretch, as many of them may be dropped.
  static constexpr int64_t kFiringsMax = 1 << 18;

  static bool CanPlan(const Code& code);

  // An epoch of events begins. Transactions and slots, which are theirs, get those of firings behind them.
  void Start(const PlanInput& events, const Times& times, std::span<const std::unique_ptr<Table>> tables,
             std::vector<TransactionId>* transactions, std::vector<std::vector<Slot>>* slots);
  PlannedAges* ages() { return &ages_; }
  int64_t firings() const { return firings_; }

  // A stretch begins.
  void Begin();
  // An event is next.
  void AddEvent(BatchRow row);
  // The firings that were found for a trigger are next; `order` has their positions.
  void AddFirings(size_t trigger, int64_t boundary, const Triggers& found, Order* order);
  // All are there: what they have in place of an event's columns, and their keys.
  void Finish(Order* order, ThreadPool* pool);

  // By batch row.
  std::span<const ColumnView> columns() const { return columns_; }
  Times times() const { return {times_.data(), INT64_MIN}; }
  // Of this stretch, in order.
  std::span<const FiredRange> fired() const { return fired_; }

 private:
  // The firings of a trigger.
  struct Fired {
    std::vector<Slot> slots;
    std::vector<int64_t> starts, ends;
    std::vector<ColumnBuffers> buffers;
  };

  const Code* code_ = nullptr;
  size_t events_ = 0;
  std::span<const std::unique_ptr<Table>> tables_;
  std::vector<TransactionId>* transactions_ = nullptr;
  std::vector<std::vector<Slot>>* slots_ = nullptr;
  std::vector<std::vector<SiteUse>> writes_;  // by transaction: what may start firings
  PlannedAges ages_;
  int64_t firings_ = 0;
  std::vector<Fired> by_trigger_;
  std::vector<FiredRange> fired_;
  std::vector<size_t> trigger_of_;  // of each range
  std::vector<ColumnView> columns_;
  std::vector<int64_t> times_;
};

}  // namespace morphspark
