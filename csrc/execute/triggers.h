// When which trigger fires, and for which rows.
//
// Boundaries of `every` are multiples of its period; one counts if the window before it holds a version (with each) or
// an event. A session's boundary is its deadline (history.h). What has fired is one number: everything up to `clock`.
//
// Rows with a version in a window are those of the history; and, where firings are planned before the events in front
// of them run (stretch.h), those that one of these events may write.
//
// Thread safety: none; used between two pieces of an epoch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/column.h"
#include "base/thread_pool.h"
#include "execute/planned_ages.h"
#include "program/code.h"
#include "state/table.h"

namespace morphspark {

// What firings have in place of an event's columns: one trigger's, from column `trigger.column` on.
std::vector<ColumnBuffers> FiringColumns(const Table* table, std::span<const Slot> slots,
                                         const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                                         ThreadPool* pool);
ColumnView ViewFirings(const ColumnBuffers& column, Kind kind);

// The firings of one trigger at one boundary, as a batch.
struct FiringBatch {
  int64_t rows = 0;
  std::vector<ColumnView> columns;  // as Code::columns; those of the trigger are filled
  std::vector<ColumnBuffers> buffers;
  std::vector<TransactionId> transactions;  // by row: the trigger's
};

class Triggers {
 public:
  Triggers(const Code& code, std::span<const std::unique_ptr<Table>> tables, std::optional<int64_t> clock,
           std::optional<int64_t> last_event, PlannedAges* planned = nullptr);

  // The stream begins here, if it has not begun: nothing was before.
  void Begin(int64_t time) {
    if (!clock_) clock_ = time;
  }
  // The next boundary up to `until`, if there is one.
  std::optional<int64_t> Next(int64_t until);
  // Finds the firings of a trigger at a boundary: their rows, in the order of keys, and where their windows start.
  void Find(const TriggerCode& trigger, int64_t boundary);
  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<int64_t>& starts() const { return starts_; }
  // The same as a batch.
  void Collect(const TriggerCode& trigger, int64_t boundary, ThreadPool* pool, FiringBatch* batch);
  void Reached(int64_t time) { clock_ = std::max(*clock_, time); }
  void Happened(int64_t time) { last_event_ = time; }
  // Events before this time start nothing, whatever they do.
  int64_t Stop() const;

  std::optional<int64_t> clock() const { return clock_; }
  std::optional<int64_t> last_event() const { return last_event_; }

 private:
  std::optional<int64_t> NextOf(const TriggerCode& trigger, int64_t until);
  bool Newest(TableId table, int64_t* time);
  void SortByKey(const Table& table);
  void MergeByKey(TableId table);

  // Rows of a table in the order of their keys. Most of those at a boundary were there at the one before.
  struct ByKey {
    enum : uint8_t { kUnknown, kKnown, kWanted };
    std::vector<Slot> sorted;
    std::vector<uint8_t> state;  // by slot
  };

  const Code& code_;
  std::span<const std::unique_ptr<Table>> tables_;
  std::optional<int64_t> clock_;       // all boundaries up to it have fired
  std::optional<int64_t> last_event_;  // effective timestamp of the last event
  PlannedAges* planned_;               // null: the history knows everything
  std::vector<Slot> slots_;
  std::vector<int64_t> starts_;
  std::vector<ByKey> by_key_;  // by table
};

}  // namespace morphspark
