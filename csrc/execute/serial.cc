#include "execute/serial.h"

#include "state/current_rows.h"

namespace morphspark {
namespace {

constexpr int64_t kRowsAhead = 12;  // transactions whose rows are asked for

// The rows that events name. All sites of the program are asked for, whichever transaction an event runs: which one
// is as good as random, and a branch on it would cost more than the lines that are not needed.
class Rows {
 public:
  explicit Rows(const BatchContext& context) {
    for (SiteId id = 0; id < context.code->sites.size() && sites_.size() < kSitesMax; ++id) {
      const Site& site = context.code->sites[id];
      if (!site.of_element) sites_.push_back({context.rows[id].data(), context.tables[site.table]->addresses()});
    }
  }

  [[gnu::always_inline]] void PrefetchRow(BatchRow row) const {
    for (const Named& site : sites_) {
      const Slot named = site.slots[row];
      const uint64_t slot = named < kNullKey ? named : 0;
      Prefetch(site.at.headers + slot * site.at.header_bytes);
      Prefetch(site.at.cells + slot * site.at.cell_bytes);
    }
  }

 private:
  static constexpr size_t kSitesMax = 8;

  struct Named {
    const Slot* slots;
    RowAddresses at;
  };
  std::vector<Named> sites_;
};

// Memory that is read in order, but too seldom per page for the processor to notice in time: the columns that
// transactions load, and the slots of their rows.
class Streams {
 public:
  explicit Streams(const BatchContext& context) {
    std::vector<uint8_t> loaded(context.columns.size(), 0), named(context.code->sites.size(), 0);
    for (const TransactionCode& transaction : context.code->transactions) {
      if (transaction.is_trigger) continue;  // firings are between events, and not in the order of rows
      for (const ColumnLoad& load : transaction.loads) loaded[load.column] = 1;
      for (SiteId site : transaction.sites) named[site] = 1;
    }
    for (size_t i = 0; i < loaded.size(); ++i) {
      const ColumnView& column = context.columns[i];
      const bool wide = column.kind == Kind::kDecimal;
      const bool fixed =
          wide || column.kind == Kind::kInt64 || column.kind == Kind::kTimestamp || column.kind == Kind::kFloat64;
      const int width = wide ? 16 : 8;
      if (loaded[i] && fixed) streams_.push_back({column.values + column.offset * width, width});
    }
    for (SiteId id = 0; id < context.code->sites.size(); ++id) {
      const auto* slots = reinterpret_cast<const uint8_t*>(context.rows[id].data());
      if (named[id] && !context.code->sites[id].of_element) streams_.push_back({slots, sizeof(Slot)});
    }
  }

  static constexpr int64_t kRows = 8;  // a cache line of the usual column

  [[gnu::always_inline]] void PrefetchAhead(int64_t row) const {
    for (const Stream& stream : streams_) Prefetch(stream.base + (row + kAhead) * stream.width);
  }

 private:
  static constexpr int64_t kAhead = 128;

  struct Stream {
    const uint8_t* base;
    int64_t width;
  };
  std::vector<Stream> streams_;
};

}  // namespace

ReasonId NullOrderReason(const BatchContext& context, BatchRow row) {
  const Code& code = *context.code;
  for (size_t i = 0; i < code.order_columns.size(); ++i) {
    if (context.columns[code.order_columns[i]].IsNull(row)) return code.order_reasons[i];
  }
  return kNoReason;
}

Status StringLimitStatus(const BatchContext& context) {
  return Status::Limit("a string grew over max_string_bytes=" + std::to_string(context.max_string_bytes) +
                       "; nothing was changed");
}

Status CancelledStatus() { return Status(StatusCode::kCancelled, "the epoch was cancelled; nothing was changed"); }

Status RunSerial(const BatchContext& context, const Order& order, std::span<const TransactionId> transactions,
                 int64_t begin, int64_t end, Stamp first_stamp, Poller* poller, Verdicts* verdicts) {
  const Code& code = *context.code;
  Frame frame(code);
  Machine machine(context, CurrentRows(context.tables.data()), &frame);
  const Rows rows(context);
  const Streams streams(context);
  Pace pace(poller);
  for (int64_t position = begin; position < end; ++position) {
    pace.Step();
    if (poller->cancelled()) [[unlikely]]
      return CancelledStatus();
    if (position % Streams::kRows == 0) {
      if (order.identity) streams.PrefetchAhead(position);
      if (context.door && context.door->wanted()) [[unlikely]]
        context.door->LetIn();
    }
    if (position + kRowsAhead < order.keyed) rows.PrefetchRow(order.Row(position + kRowsAhead));
    const BatchRow row = order.Row(position);
    ReasonId reason;
    if (position >= order.keyed) {
      reason = NullOrderReason(context, row);
    } else if (transactions[row] == kUnmatched) {
      verdicts->status[position] = TransactionStatus::kUnmatched;
      continue;
    } else {
      const TransactionCode& transaction = code.transactions[transactions[row]];
      const Stamp stamp = first_stamp + static_cast<Stamp>(position);
      for (TableId table : transaction.written) context.tables[table]->Begin(stamp);
      reason = machine.Run(transaction, row, position);
      if (reason != kNoReason) {
        for (TableId table : transaction.written) context.tables[table]->Undo();
      } else {
        for (TableId table : transaction.left) context.tables[table]->LeaveVersions(context.times.At(row));
      }
    }
    if (reason == kStringLimit) return StringLimitStatus(context);
    if (reason != kNoReason) {
      verdicts->status[position] = TransactionStatus::kAborted;
      verdicts->reason[position] = reason;
    }
  }
  return Status::Ok();
}

}  // namespace morphspark
