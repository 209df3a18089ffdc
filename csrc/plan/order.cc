#include "plan/order.h"

#include <algorithm>
#include <atomic>

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 15;

class Keys {
 public:
  explicit Keys(std::span<const ColumnView* const> columns) : columns_(columns) {}

  bool Whole(BatchRow row) const {
    return std::none_of(columns_.begin(), columns_.end(), [&](const ColumnView* one) { return one->IsNull(row); });
  }
  int Compare(BatchRow a, BatchRow b) const {
    for (const ColumnView* column : columns_) {
      Value left{}, right{};
      column->Load(a, &left);
      column->Load(b, &right);
      if (const int order = CompareValues(column->kind, left, right)) return order;
    }
    return 0;
  }
  bool Before(BatchRow a, BatchRow b) const {
    const int order = Compare(a, b);
    return order ? order < 0 : a < b;
  }
  bool Before(BatchRow row, const OrderKey& key) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      Value part{};
      columns_[i]->Load(row, &part);
      if (const int order = CompareValues(columns_[i]->kind, part, key.parts[i])) return order < 0;
    }
    return false;
  }
  // One column of 8-byte integers: the usual timestamp.
  bool simple() const {
    return columns_.size() == 1 && (columns_[0]->kind == Kind::kInt64 || columns_[0]->kind == Kind::kTimestamp);
  }
  const ColumnView& first() const { return *columns_[0]; }

 private:
  std::span<const ColumnView* const> columns_;
};

// Do these rows, and the one before them, have whole keys in order?
bool RangeInOrder(const Keys& keys, int64_t begin, int64_t end) {
  const int64_t first = std::max<int64_t>(begin, 1);
  if (keys.simple() && keys.first().validity == nullptr) {
    bool in_order = true;  // no early exit: this compiles to vector code, and most batches are in order
    for (int64_t row = first; row < end; ++row) in_order &= keys.first().Int64(row - 1) <= keys.first().Int64(row);
    return in_order;
  }
  if (begin == 0 && !keys.Whole(0)) return false;
  for (int64_t row = first; row < end; ++row) {
    const auto here = static_cast<BatchRow>(row);
    if (!keys.Whole(here) || !keys.Whole(here - 1) || keys.Compare(here - 1, here) > 0) return false;
  }
  return true;
}

bool InOrderAlready(const Keys& keys, int64_t count, ThreadPool* pool) {
  std::atomic<bool> in_order{true};
  pool->For(count, kGrain, [&](int64_t begin, int64_t end) {
    // Relaxed, with the load below: only ever set to false, and read after the pool has joined.
    if (!RangeInOrder(keys, begin, end)) in_order.store(false, std::memory_order_relaxed);
  });
  return in_order.load(std::memory_order_relaxed);
}

// Sorts pieces on all threads, then merges neighbours until one is left. The order is total (arrival breaks ties), so
// the result does not depend on the pieces.
template <class T, class Less>
void ParallelSort(std::vector<T>* items, Less less, ThreadPool* pool) {
  const auto count = static_cast<int64_t>(items->size());
  int64_t piece = std::max<int64_t>(kGrain, (count + pool->threads() - 1) / pool->threads());
  T* const data = items->data();
  pool->For(count, piece, [&](int64_t begin, int64_t end) { std::sort(data + begin, data + end, less); });
  std::vector<T> merged(piece < count ? count : 0);
  for (; piece < count; piece *= 2) {
    T* const from = items->data();
    T* const to = merged.data();
    pool->For(count, 2 * piece, [&](int64_t begin, int64_t end) {
      // With one thread a chunk is everything: walk it in pairs of pieces all the same.
      for (int64_t at = begin; at < end; at += 2 * piece) {
        const int64_t middle = std::min(at + piece, end), last = std::min(at + 2 * piece, end);
        std::merge(from + at, from + middle, from + middle, from + last, to + at, less);
      }
    });
    items->swap(merged);
  }
}

struct TimedRow {
  int64_t key;
  BatchRow row;
};

void Sort(const Keys& keys, std::vector<BatchRow>* rows, ThreadPool* pool) {
  if (!keys.simple()) {
    ParallelSort(rows, [&](BatchRow a, BatchRow b) { return keys.Before(a, b); }, pool);
    return;
  }
  std::vector<TimedRow> timed(rows->size());
  const auto count = static_cast<int64_t>(rows->size());
  pool->For(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) timed[i] = {keys.first().Int64((*rows)[i]), (*rows)[i]};
  });
  ParallelSort(&timed, [](TimedRow a, TimedRow b) { return a.key != b.key ? a.key < b.key : a.row < b.row; }, pool);
  pool->For(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) (*rows)[i] = timed[i].row;
  });
}

}  // namespace

Status OrderBatch(std::span<const ColumnView* const> columns, int64_t count, const std::optional<OrderKey>& last,
                  Late late, ThreadPool* pool, Order* order) {
  order->keyed = order->running = count;
  if (columns.empty()) return Status::Ok();
  const Keys keys(columns);
  order->identity = InOrderAlready(keys, count, pool);
  if (!order->identity) {
    std::vector<BatchRow> broken;
    for (int64_t row = 0; row < count; ++row) {
      (keys.Whole(static_cast<BatchRow>(row)) ? order->rows : broken).push_back(static_cast<BatchRow>(row));
    }
    order->keyed = static_cast<int64_t>(order->rows.size());
    Sort(keys, &order->rows, pool);
    order->rows.insert(order->rows.end(), broken.begin(), broken.end());
  }
  if (!last) return Status::Ok();
  // Late rows come first: they are smaller than a committed key.
  int64_t low = 0, high = order->keyed;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys.Before(order->Row(middle), *last))
      low = middle + 1;
    else
      high = middle;
  }
  order->late = low;
  if (low == 0 || late == Late::kAdmit) return Status::Ok();
  if (late == Late::kFail) return Status(StatusCode::kLate, std::to_string(low));
  for (int64_t position = 0; position < low; ++position) order->diverted.push_back(order->Row(position));
  std::vector<BatchRow> rest;
  for (int64_t position = low; position < count; ++position) rest.push_back(order->Row(position));
  order->rows = std::move(rest);
  order->identity = false;
  order->keyed -= low;
  order->running -= low;
  return Status::Ok();
}

}  // namespace morphspark
