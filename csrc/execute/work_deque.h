// A work-stealing queue (Chase and Lev): its owner pushes and pops at the bottom, others steal at the top.
//
// It is a ring of kPlaces. What does not fit waits where only its owner sees it, and comes into the ring when that is
// empty: so its memory is that of the units which are ready and not begun, however many a batch has.
//
// Sequentially consistent where the owner and a thief may want the same last unit: fences would be cheaper, but the
// thread sanitizer can't see them.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "plan/units.h"

namespace morphspark {

class WorkDeque {
 public:
  // As new. Nobody else uses it.
  void Reset() {
    top_ = bottom_ = 0;
    rest_.clear();
  }

  void Push(UnitId unit) {
    // Relaxed: only the owner writes it.
    const int64_t bottom = bottom_.load(std::memory_order_relaxed);
    // Acquire, with the thieves' exchange of `top_`: a place is written again only when its thief has read it.
    if (bottom - top_.load(std::memory_order_acquire) == kPlaces) return rest_.push_back(unit);
    items_[bottom % kPlaces].store(unit, std::memory_order_relaxed);  // published by the next line
    bottom_.store(bottom + 1, std::memory_order_release);             // with the load of `bottom_` in Steal
  }

  std::optional<UnitId> Pop() {
    for (;;) {
      if (const auto unit = PopFromRing()) return unit;
      if (rest_.empty()) return std::nullopt;
      const size_t count = std::min<size_t>(rest_.size(), kPlaces / 2);
      for (size_t i = 0; i < count; ++i) {
        const UnitId unit = rest_.back();
        rest_.pop_back();
        Push(unit);
      }
    }
  }

  std::optional<UnitId> Steal() {
    int64_t top = top_.load(std::memory_order_seq_cst);
    const int64_t bottom = bottom_.load(std::memory_order_seq_cst);
    if (top >= bottom) return std::nullopt;
    // Relaxed: `bottom_` published it; if it is another one's by now, the exchange fails.
    const UnitId unit = items_[top % kPlaces].load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) return std::nullopt;
    return unit;
  }

  uint64_t bytes() const { return sizeof(*this) + rest_.capacity() * sizeof(UnitId); }

 private:
  static constexpr int64_t kPlaces = 1024;

  std::optional<UnitId> PopFromRing() {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;  // relaxed: only the owner writes it
    bottom_.store(bottom, std::memory_order_seq_cst);
    int64_t top = top_.load(std::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.store(bottom + 1, std::memory_order_relaxed);  // relaxed: nothing new is to be seen through it
      return std::nullopt;
    }
    const UnitId unit = items_[bottom % kPlaces].load(std::memory_order_relaxed);  // relaxed: the owner wrote it
    if (top < bottom) return unit;
    const bool mine = top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst);
    bottom_.store(bottom + 1, std::memory_order_relaxed);  // as above
    return mine ? std::optional(unit) : std::nullopt;
  }

  // Apart, as thieves write one and the owner the other.
  alignas(64) std::atomic<int64_t> top_{0};
  alignas(64) std::atomic<int64_t> bottom_{0};
  std::atomic<UnitId> items_[kPlaces] = {};
  std::vector<UnitId> rest_;  // its owner's alone
};

}  // namespace morphspark
