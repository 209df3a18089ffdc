#include "execute/stretch.h"

#include <algorithm>

#include "plan/resolve.h"
#include "plan/uses.h"

namespace morphspark {
namespace {

// Does a firing need a version of a row of this table?
bool StartsFirings(const Code& code, TableId table) {
  return std::ranges::any_of(code.triggers, [&](const TriggerCode& one) { return one.table == table; });
}

bool Draws(const TransactionCode& code) {
  return std::ranges::any_of(code.instructions, [](const Instruction& at) { return at.op == Op::kRandom; });
}

// A view of the same memory.
ColumnView Again(const ColumnView& column) {
  ColumnView view;
  view.kind = column.kind;
  view.length = column.length;
  view.offset = column.offset;
  view.validity = column.validity;
  view.values = column.values;
  view.offsets = column.offsets;
  if (column.child) view.child = std::make_unique<ColumnView>(Again(*column.child));
  return view;
}

}  // namespace

bool Stretch::CanPlan(const Code& code) {
  if (std::ranges::any_of(code.triggers, &TriggerCode::session)) return false;
  const bool each = code.not_due != kNoReason;
  for (const TransactionCode& one : code.transactions) {
    if (each && Draws(one)) return false;  // a firing that is dropped would have had a number
    const bool unknown = one.computes_keys || one.is_trigger;
    if (unknown && std::ranges::any_of(one.written, [&](TableId table) { return StartsFirings(code, table); }))
      return false;
  }
  return true;
}

void Stretch::Start(const PlanInput& events, const Times& times, std::span<const std::unique_ptr<Table>> tables,
                    std::vector<TransactionId>* transactions, std::vector<std::vector<Slot>>* slots) {
  code_ = &events.code;
  events_ = transactions->size();
  tables_ = tables;
  transactions_ = transactions;
  slots_ = slots;
  writes_.clear();
  for (const TransactionCode& one : events.code.transactions) {
    std::vector<SiteUse>& writes = writes_.emplace_back();
    for (const SiteUse& use : one.uses) {
      if (use.writes && StartsFirings(events.code, use.table)) writes.push_back(use);
    }
  }
  by_trigger_.resize(events.code.triggers.size());
  times_.resize(events_);
  for (size_t row = 0; row < events_; ++row) times_[row] = times.At(static_cast<BatchRow>(row));
  columns_.clear();
  for (const ColumnView& column : events.columns) columns_.push_back(Again(column));
}

void Stretch::Begin() {
  ages_.Begin(tables_.size());
  firings_ = 0;
  fired_.clear();
  trigger_of_.clear();
  for (Fired& one : by_trigger_) {
    one.slots.clear();
    one.starts.clear();
    one.ends.clear();
  }
}

void Stretch::AddEvent(BatchRow row) {
  const TransactionId type = (*transactions_)[row];
  if (type == kUnmatched) return;
  for (const SiteUse& use : writes_[type]) {
    const std::vector<Slot>& slots = (*slots_)[use.site];
    const Site& site = code_->sites[use.site];
    const ListRange range = site.of_element ? Elements(columns_, site, row) : ListRange{row, 1};
    for (int64_t index = range.start; index < range.start + range.size; ++index) {
      if (slots[index] != kNullKey) ages_.MayWrite(use.table, slots[index], times_[row]);
    }
  }
}

void Stretch::AddFirings(size_t trigger, int64_t boundary, const Triggers& found, Order* order) {
  const auto count = static_cast<int64_t>(found.starts().size());
  if (count == 0) return;
  Fired& own = by_trigger_[trigger];
  const auto begin = static_cast<int64_t>(order->rows.size());
  for (int64_t i = 0; i < count; ++i) order->rows.push_back(static_cast<BatchRow>(own.starts.size() + i));
  own.slots.insert(own.slots.end(), found.slots().begin(), found.slots().end());
  own.starts.insert(own.starts.end(), found.starts().begin(), found.starts().end());
  own.ends.insert(own.ends.end(), count, boundary);
  fired_.push_back({begin, begin + count, boundary});
  trigger_of_.push_back(trigger);
  firings_ += count;
}

void Stretch::Finish(Order* order, ThreadPool* pool) {
  const Code& code = *code_;
  transactions_->resize(events_);
  times_.resize(events_);
  std::vector<BatchRow> first;  // by trigger: the row of its first firing
  for (size_t trigger = 0; trigger < by_trigger_.size(); ++trigger) {
    Fired& own = by_trigger_[trigger];
    first.push_back(static_cast<BatchRow>(times_.size()));
    if (own.starts.empty()) continue;
    const TriggerCode& one = code.triggers[trigger];
    own.buffers = FiringColumns(one.table == kNoTable ? nullptr : tables_[one.table].get(), own.slots, own.starts,
                                own.ends, pool);
    for (size_t i = 0; i < own.buffers.size(); ++i) {
      ColumnView& column = columns_[one.column + i];
      column = ViewFirings(own.buffers[i], code.columns[one.column + i].kind);
      column.offset = -static_cast<int64_t>(first.back());
    }
    times_.insert(times_.end(), own.ends.begin(), own.ends.end());
    transactions_->insert(transactions_->end(), own.ends.size(), one.transaction);
  }
  for (size_t range = 0; range < fired_.size(); ++range) {
    for (int64_t position = fired_[range].begin; position < fired_[range].end; ++position)
      order->rows[position] += first[trigger_of_[range]];
  }
  ResolveFirings(code, columns_, *transactions_, events_, tables_, pool, slots_);
}

}  // namespace morphspark
