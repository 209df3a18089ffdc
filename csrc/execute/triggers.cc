#include "execute/triggers.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/saturating.h"
#include "state/row_columns.h"

namespace morphspark {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// The first multiple of the period behind a time.
int64_t NextMultiple(int64_t time, int64_t period) {
  const int64_t floor = time / period - (time % period < 0);
  int64_t next;
  return __builtin_mul_overflow(floor + 1, period, &next) ? kForever : next;
}

bool IsMultiple(int64_t time, int64_t period) { return time % period == 0; }

ColumnBuffers Words(const std::vector<int64_t>& words) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(words.size());
  column.values.resize(words.size() * sizeof(int64_t));
  if (!words.empty()) std::memcpy(column.values.data(), words.data(), words.size() * sizeof(int64_t));
  return column;
}

// Keys of several parts, part by part.
int CompareComposite(std::span<const Kind> parts, const char* a, const char* b) {
  for (size_t part = 0; part < parts.size(); ++part) {
    int order;
    if (parts[part] == Kind::kInt64) {
      int64_t left, right;
      std::memcpy(&left, a, sizeof(left));
      std::memcpy(&right, b, sizeof(right));
      order = (left > right) - (left < right);
    } else {
      order = CompareBytes(StringPart(a), StringPart(b));
    }
    if (order != 0) return order;
    a = SkipParts(a, parts.subspan(part, 1));
    b = SkipParts(b, parts.subspan(part, 1));
  }
  return 0;
}

// Is the key of one row before that of another?
auto KeyLess(const Table& table) {
  return [&index = table.index(), parts = std::span<const Kind>(table.spec().key)](Slot a, Slot b) {
    if (index.integer_keys()) return index.IntegerKey(a) < index.IntegerKey(b);
    if (parts.size() == 1) return CompareBytes(index.BytesKey(a), index.BytesKey(b)) < 0;
    return CompareComposite(parts, index.BytesKey(a).data, index.BytesKey(b).data) < 0;
  };
}

}  // namespace

std::vector<ColumnBuffers> FiringColumns(const Table* table, std::span<const Slot> slots,
                                         const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                                         ThreadPool* pool) {
  std::vector<ColumnBuffers> columns;
  columns.push_back(Words(starts));
  columns.push_back(Words(ends));
  for (size_t part = 0; table != nullptr && part < table->spec().key.size(); ++part)
    columns.push_back(table->ExportKey(part, slots, pool));
  return columns;
}

ColumnView ViewFirings(const ColumnBuffers& column, Kind kind) {
  ColumnView view;
  view.kind = kind;
  view.length = column.length;
  view.values = column.values.data();
  view.offsets = column.offsets.empty() ? nullptr : reinterpret_cast<const int32_t*>(column.offsets.data());
  return view;
}

Triggers::Triggers(const Code& code, std::span<const std::unique_ptr<Table>> tables, std::optional<int64_t> clock,
                   std::optional<int64_t> last_event, PlannedAges* planned)
    : code_(code), tables_(tables), clock_(clock), last_event_(last_event), planned_(planned), by_key_(tables.size()) {}

bool Triggers::Newest(TableId table, int64_t* time) {
  const bool found = tables_[table]->history()->Newest(time);
  return (planned_ != nullptr && planned_->Newest(table, time)) || found;
}

std::optional<int64_t> Triggers::Next(int64_t until) {
  std::optional<int64_t> next;
  for (const TriggerCode& trigger : code_.triggers) {
    const auto one = NextOf(trigger, until);
    if (one && (!next || *one < *next)) next = one;
  }
  return next;
}

std::optional<int64_t> Triggers::NextOf(const TriggerCode& trigger, int64_t until) {
  int64_t newest = last_event_.value_or(0);
  if (trigger.session) {
    int64_t deadline;
    const bool found = tables_[trigger.table]->history()->NextDeadline(trigger.number, *clock_, &deadline);
    return found && deadline <= until ? std::optional(deadline) : std::nullopt;
  }
  if (trigger.table == kNoTable ? !last_event_ : !Newest(trigger.table, &newest)) return {};
  // Nothing is newer than the clock, so the first boundary behind it has the fullest window.
  const int64_t boundary = NextMultiple(*clock_, trigger.period);
  return boundary <= std::min(until, Plus(newest, trigger.window)) ? std::optional(boundary) : std::nullopt;
}

int64_t Triggers::Stop() const {
  int64_t stop = kForever;
  for (const TriggerCode& trigger : code_.triggers) {
    if (!trigger.session) {
      stop = std::min(stop, NextMultiple(*clock_, trigger.period));
      continue;
    }
    History& history = *tables_[trigger.table]->history();
    int64_t deadline;
    if (history.NextDeadline(trigger.number, *clock_, &deadline)) stop = std::min(stop, deadline);
    stop = std::min(stop, Plus(*clock_, history.ShortestSession(trigger.number)));  // of one that begins now
  }
  return stop;
}

void Triggers::Find(const TriggerCode& trigger, int64_t boundary) {
  slots_.clear();
  starts_.clear();
  const int64_t start = boundary - trigger.window;
  if (trigger.session) {
    tables_[trigger.table]->history()->Due(trigger.number, boundary, &slots_, &starts_);
    return SortByKey(*tables_[trigger.table]);
  }
  if (!IsMultiple(boundary, trigger.period)) return;
  if (trigger.table == kNoTable) {
    if (last_event_ && *last_event_ >= start) starts_.push_back(start);
    return;
  }
  tables_[trigger.table]->history()->Candidates(start, boundary, &slots_);
  if (planned_ != nullptr) planned_->AddCandidates(trigger.table, start, &slots_);
  MergeByKey(trigger.table);
  starts_.assign(slots_.size(), start);
}

void Triggers::Collect(const TriggerCode& trigger, int64_t boundary, ThreadPool* pool, FiringBatch* batch) {
  Find(trigger, boundary);
  batch->rows = static_cast<int64_t>(starts_.size());
  if (batch->rows == 0) return;
  batch->columns.clear();
  batch->columns.resize(code_.columns.size());
  const Table* const table = trigger.table == kNoTable ? nullptr : tables_[trigger.table].get();
  batch->buffers = FiringColumns(table, slots_, starts_, std::vector<int64_t>(starts_.size(), boundary), pool);
  for (size_t i = 0; i < batch->buffers.size(); ++i)
    batch->columns[trigger.column + i] = ViewFirings(batch->buffers[i], code_.columns[trigger.column + i].kind);
  batch->transactions.assign(starts_.size(), trigger.transaction);
}

void Triggers::SortByKey(const Table& table) {
  std::vector<uint32_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, KeyLess(table), [&](uint32_t i) { return slots_[i]; });
  std::vector<Slot> slots;
  std::vector<int64_t> starts;
  for (uint32_t i : order) {
    slots.push_back(slots_[i]);
    starts.push_back(starts_[i]);
  }
  slots_.swap(slots);
  starts_.swap(starts);
}

// Of rows that were sorted last time the order is known; only the others are sorted.
void Triggers::MergeByKey(TableId table) {
  ByKey& known = by_key_[table];
  known.state.resize(tables_[table]->slots(), ByKey::kUnknown);
  const auto fresh = std::partition(slots_.begin(), slots_.end(), [&](Slot slot) {
    const bool seen = known.state[slot] != ByKey::kUnknown;
    known.state[slot] = ByKey::kWanted;
    return seen;
  });
  std::erase_if(known.sorted, [&](Slot slot) {
    const bool wanted = known.state[slot] == ByKey::kWanted;
    known.state[slot] = wanted ? ByKey::kKnown : ByKey::kUnknown;
    return !wanted;
  });
  const auto middle = static_cast<int64_t>(known.sorted.size());
  const auto less = KeyLess(*tables_[table]);
  std::sort(fresh, slots_.end(), less);
  for (auto slot = fresh; slot != slots_.end(); ++slot) known.state[*slot] = ByKey::kKnown;
  known.sorted.insert(known.sorted.end(), fresh, slots_.end());
  std::inplace_merge(known.sorted.begin(), known.sorted.begin() + middle, known.sorted.end(), less);
  slots_ = known.sorted;
}

}  // namespace morphspark
