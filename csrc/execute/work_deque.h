// A work-stealing queue (Chase and Lev): its owner pushes and pops at the bottom, others steal at the top.
//
// Every unit is pushed at most once per batch, so places are never used twice and the array never grows.
// Sequentially consistent where the owner and a thief may want the same last unit: fences would be cheaper, but the
// thread sanitizer can't see them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "plan/units.h"

namespace morphspark {

class WorkDeque {
 public:
  explicit WorkDeque(UnitId units) : items_(new std::atomic<UnitId>[units]) {}

  void Push(UnitId unit) {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed);
    items_[bottom].store(unit, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  std::optional<UnitId> Pop() {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    bottom_.store(bottom, std::memory_order_seq_cst);
    int64_t top = top_.load(std::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.store(bottom + 1, std::memory_order_relaxed);
      return std::nullopt;
    }
    const UnitId unit = items_[bottom].load(std::memory_order_relaxed);
    if (top < bottom) return unit;
    const bool mine = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst);
    bottom_.store(bottom + 1, std::memory_order_relaxed);
    return mine ? std::optional(unit) : std::nullopt;
  }

  std::optional<UnitId> Steal() {
    int64_t top = top_.load(std::memory_order_seq_cst);
    const int64_t bottom = bottom_.load(std::memory_order_seq_cst);
    if (top >= bottom) return std::nullopt;
    const UnitId unit = items_[top].load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) return std::nullopt;
    return unit;
  }

 private:
  // Apart, as thieves write one and the owner the other.
  alignas(64) std::atomic<int64_t> top_{0};
  alignas(64) std::atomic<int64_t> bottom_{0};
  std::unique_ptr<std::atomic<UnitId>[]> items_;
};

}  // namespace morphspark
