#include "execute/triggers.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

int64_t Plus(int64_t time, int64_t span) {
  int64_t result;
  return __builtin_add_overflow(time, span, &result) ? kForever : result;
}

ColumnBuffers Words(const std::vector<int64_t>& words) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(words.size());
  column.values.resize(words.size() * sizeof(int64_t));
  if (!words.empty()) std::memcpy(column.values.data(), words.data(), words.size() * sizeof(int64_t));
  return column;
}

ColumnView View(const ColumnBuffers& column, Kind kind) {
  ColumnView view;
  view.kind = kind;
  view.length = column.length;
  view.values = column.values.data();
  view.offsets = column.offsets.empty() ? nullptr : reinterpret_cast<const int32_t*>(column.offsets.data());
  return view;
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

}  // namespace

Triggers::Triggers(const Code& code, std::span<const std::unique_ptr<Table>> tables, std::optional<int64_t> clock,
                   std::optional<int64_t> last_event)
    : code_(code), tables_(tables), clock_(clock), last_event_(last_event) {}

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
  if (trigger.table == kNoTable ? !last_event_ : !tables_[trigger.table]->history()->Newest(&newest)) return {};
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

void Triggers::Collect(const TriggerCode& trigger, int64_t boundary, ThreadPool* pool, FiringBatch* batch) {
  slots_.clear();
  firsts_.clear();
  const int64_t start = boundary - trigger.window;
  const bool due = trigger.session || IsMultiple(boundary, trigger.period);
  Table* const table = trigger.table == kNoTable ? nullptr : tables_[trigger.table].get();
  if (due && trigger.session) {
    table->history()->Due(trigger.number, boundary, &slots_, &firsts_);
  } else if (due && table != nullptr) {
    table->history()->Candidates(start, boundary, &slots_);
  } else if (due && last_event_ && *last_event_ >= start) {
    firsts_.push_back(start);
  }
  if (!trigger.session && table != nullptr) firsts_.assign(slots_.size(), start);
  if (table != nullptr) SortByKey(*table);
  batch->rows = static_cast<int64_t>(firsts_.size());
  if (batch->rows == 0) return;
  batch->columns.clear();
  batch->columns.resize(code_.columns.size());
  batch->buffers.clear();
  batch->buffers.push_back(Words(firsts_));
  batch->buffers.push_back(Words(std::vector<int64_t>(firsts_.size(), boundary)));
  for (size_t part = 0; table != nullptr && part < table->spec().key.size(); ++part)
    batch->buffers.push_back(table->ExportKey(part, slots_, pool));
  for (size_t i = 0; i < batch->buffers.size(); ++i)
    batch->columns[trigger.column + i] = View(batch->buffers[i], code_.columns[trigger.column + i].kind);
  batch->transactions.assign(firsts_.size(), trigger.transaction);
}

void Triggers::SortByKey(const Table& table) {
  std::vector<uint32_t> order(slots_.size());
  std::iota(order.begin(), order.end(), 0);
  const KeyIndex& index = table.index();
  const std::span<const Kind> parts(table.spec().key);
  std::ranges::sort(order, [&](uint32_t left, uint32_t right) {
    const Slot a = slots_[left], b = slots_[right];
    if (index.integer_keys()) return index.IntegerKey(a) < index.IntegerKey(b);
    if (parts.size() == 1) return CompareBytes(index.BytesKey(a), index.BytesKey(b)) < 0;
    return CompareComposite(parts, index.BytesKey(a).data, index.BytesKey(b).data) < 0;
  });
  std::vector<Slot> slots;
  std::vector<int64_t> firsts;
  for (uint32_t i : order) {
    slots.push_back(slots_[i]);
    firsts.push_back(firsts_[i]);
  }
  slots_.swap(slots);
  firsts_.swap(firsts);
}

}  // namespace morphspark
