// A work-stealing queue (Chase and Lev): its owner pushes and pops at the bottom, others steal at the top.
//
// Every task is pushed at most once per batch, so places are never used twice and the array never grows.
// Sequentially consistent where the owner and a thief may want the same last task: fences would be cheaper, but the
// thread sanitizer can't see them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "plan/graph.h"

namespace morphspark {

class WorkDeque {
 public:
  explicit WorkDeque(Task tasks) : items_(new std::atomic<Task>[tasks]) {}

  void Push(Task task) {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed);
    items_[bottom].store(task, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  std::optional<Task> Pop() {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    bottom_.store(bottom, std::memory_order_seq_cst);
    int64_t top = top_.load(std::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.store(bottom + 1, std::memory_order_relaxed);
      return std::nullopt;
    }
    const Task task = items_[bottom].load(std::memory_order_relaxed);
    if (top < bottom) return task;
    const bool mine = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst);
    bottom_.store(bottom + 1, std::memory_order_relaxed);
    return mine ? std::optional(task) : std::nullopt;
  }

  std::optional<Task> Steal() {
    int64_t top = top_.load(std::memory_order_seq_cst);
    const int64_t bottom = bottom_.load(std::memory_order_seq_cst);
    if (top >= bottom) return std::nullopt;
    const Task task = items_[top].load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) return std::nullopt;
    return task;
  }

 private:
  // Apart, as thieves write one and the owner the other.
  alignas(64) std::atomic<int64_t> top_{0};
  alignas(64) std::atomic<int64_t> bottom_{0};
  std::unique_ptr<std::atomic<Task>[]> items_;
};

}  // namespace morphspark
