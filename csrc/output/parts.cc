#include "output/parts.h"

#include <algorithm>
#include <cassert>

#include "base/prepare_to_throw.h"
#include "output/verdicts.h"

namespace morphspark {

void Parts::Open(const Source& source) {
  std::lock_guard lock(mutex_);
  assert(ended_ == 0 && !copying_);
  source_ = source;
}

void Parts::Ended(int64_t end) {
  std::unique_lock lock(mutex_);
  assert(end >= ended_ && end <= source_.order->running);
  ended_ = end;
  ended_more_.notify_one();
  if (patient_) copied_.wait(lock, [this] { return closed_ || (taken_ == ended_ && !copying_); });
}

bool Parts::Next(int64_t rows_min, int64_t rows_max, Part* part) {
  PrepareToThrow();
  std::unique_lock lock(mutex_);
  ended_more_.wait(lock, [&] { return closed_ || ended_ - taken_ >= std::max<int64_t>(rows_min, 1); });
  if (closed_) return false;
  const int64_t begin = taken_;
  taken_ = std::min(ended_, begin + rows_max);
  const int64_t end = taken_;
  copying_ = true;
  lock.unlock();  // the engine goes on meanwhile
  try {
    Copy(begin, end, part);
  } catch (...) {
    lock.lock();
    copying_ = false;
    copied_.notify_all();
    throw;
  }
  lock.lock();
  copying_ = false;
  copied_.notify_all();
  return true;
}

void Parts::Close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  ended_more_.notify_all();
  copied_.notify_all();
  copied_.wait(lock, [this] { return !copying_; });
}

void Parts::Copy(int64_t begin, int64_t end, Part* part) const {
  const Order& order = *source_.order;
  const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
  ThreadPool alone(1);  // the engine's own is at work
  part->begin = begin;
  part->length = end - begin;
  part->identity = order.identity;
  if (!order.identity) part->rows.assign(order.rows.begin() + begin, order.rows.begin() + end);
  for (const ReturnedValues& column : *source_.returned) part->returned.push_back(column.Column(begin, end));
  part->status = StatusColumn(std::span(source_.verdicts->status).subspan(first, count), &alone);
  part->reason = ReasonColumn(std::span(source_.verdicts->reason).subspan(first, count), *source_.texts);
  if (source_.timestamps != nullptr)
    part->timestamps = EffectiveTimestamps(*source_.timestamps, order, begin, end, source_.watermark, &alone);
}

}  // namespace morphspark
