#include "execute/foresee.h"

#include <algorithm>

#include "program/foresight.h"

namespace morphspark {

bool Foreseer::CanLook(const Code& code) {
  const auto computes = [](const TransactionCode& one) { return one.computes_keys; };
  const bool calls = code.calls_functions();
  const auto opaque = [&](const TransactionCode& one) {
    return one.computes_keys && (one.foresight->instructions.empty() || (calls && one.foresight->reads));
  };
  return std::ranges::any_of(code.transactions, computes) && std::ranges::none_of(code.transactions, opaque);
}

Foreseen* Foreseer::Look(const PlanInput& input, const BatchContext& context, int64_t begin, int64_t end,
                         ThreadPool* pool, TableDoor* door, Poller* poller) {
  foreseen_.tasks.clear();
  for (int64_t position = begin; position < std::min(end, input.order.keyed); ++position) {
    const TransactionId id = input.transactions[input.order.Row(position)];
    if (id != kUnmatched && input.code.transactions[id].computes_keys)
      foreseen_.tasks.push_back(static_cast<Task>(position - begin));
  }
  const auto count = static_cast<int64_t>(foreseen_.tasks.size());
  parts_.resize(pool->threads());
  const auto parts = static_cast<int64_t>(parts_.size());
  const auto look = [&](int64_t from, int64_t to) {
    try {
      for (int64_t part = from; part < to; ++part) {
        const int64_t first = part * count / parts, last = (part + 1) * count / parts;
        LookAt(input, context, begin, std::span(foreseen_.tasks).subspan(first, last - first), poller, &parts_[part]);
      }
    } catch (...) {
      poller->Cancel();  // the others, too, need not go on
      throw;
    }
  };
  pool->For(parts, 1, look, [&] { poller->Look(); });
  if (poller->cancelled()) return &foreseen_;
  const TableDoor::Writing writing(door);  // new keys get slots
  Collect(context);
  return &foreseen_;
}

// A transaction that fails here will most likely fail there, too: what it has named until then is all.
void Foreseer::LookAt(const PlanInput& input, const BatchContext& context, int64_t begin, std::span<const Task> tasks,
                      Poller* poller, Part* part) const {
  part->notes.Clear();
  part->rows.clear();
  part->reads.clear();
  if (tasks.empty()) return;
  Frame frame(input.code);
  Machine machine(context, ForeseenRows(context.tables.data(), &part->notes), &frame);
  Pace pace(poller);
  for (Task task : tasks) {
    pace.Step();
    if (poller->cancelled()) return;
    const size_t rows = part->notes.rows.size(), reads = part->notes.reads.size();
    const int64_t position = begin + task;
    const BatchRow row = input.order.Row(position);
    machine.Foresee(input.code.transactions[input.transactions[row]], row, position);
    part->rows.push_back(static_cast<uint32_t>(part->notes.rows.size() - rows));
    part->reads.push_back(static_cast<uint32_t>(part->notes.reads.size() - reads));
  }
}

// Puts together what the threads have noted; new keys get their slots in the order of the batch.
void Foreseer::Collect(const BatchContext& context) {
  foreseen_.rows.clear();
  foreseen_.reads.clear();
  foreseen_.first_row.assign(1, 0);
  foreseen_.first_read.assign(1, 0);
  for (const Part& part : parts_) {
    auto fresh = part.notes.fresh.begin();
    for (ForeseenRow row : part.notes.rows) {
      if (row.slot == kNoSlot) {
        Table& table = *context.tables[row.table];
        row.slot = table.index().integer_keys() ? table.FindOrAdd(fresh->i) : table.FindOrAdd(fresh->s);
        ++fresh;
      }
      foreseen_.rows.push_back(row);
    }
    foreseen_.reads.insert(foreseen_.reads.end(), part.notes.reads.begin(), part.notes.reads.end());
    for (uint32_t count : part.rows) foreseen_.first_row.push_back(foreseen_.first_row.back() + count);
    for (uint32_t count : part.reads) foreseen_.first_read.push_back(foreseen_.first_read.back() + count);
  }
}

}  // namespace morphspark
