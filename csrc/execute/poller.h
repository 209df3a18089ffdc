// Asks, on the thread that called the engine and not too often, whether an epoch shall go on. It lives as long as the
// epoch, so that many short batches are asked about as one long one is.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace morphspark {

// Asked now and then while a batch runs; true stops it. Called on the thread that called the engine.
using Poll = std::function<bool()>;

class Poller {
 public:
  // `poll` may be empty. Made on the thread that is to ask.
  explicit Poller(const Poll& poll) : poll_(poll) {}

  // This is the thread that asks, and there is somebody to be asked.
  bool on_caller() const { return poll_ && std::this_thread::get_id() == caller_; }

  // On any thread: the epoch shall end. Relaxed, with the store in Cancel: it only tells when to leave, and no data is
  // behind it.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // On any thread, with the same meaning.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // May be called on any thread; looks at the clock.
  void Look() {
    if (on_caller()) LookAt(std::chrono::steady_clock::now());
  }

 private:
  friend class Pace;

  void LookAt(std::chrono::steady_clock::time_point now) {
    if (now - last_ <= kBetween) return;
    if (poll_()) Cancel();
    last_ = now;
  }

  static constexpr auto kBetween = std::chrono::milliseconds(50);

  const Poll& poll_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();  // its thread's alone
  std::atomic<bool> cancelled_{false};
};

// For whoever takes many steps of unknown length: looks at the clock about once a millisecond, whatever a step takes.
// Steps that need no time pay for a count; from the first look on that finds them dear, every step is looked at.
// One per thread.
class Pace {
 public:
  explicit Pace(Poller* poller) : poller_(*poller) {}

  [[gnu::always_inline]] void Step() {
    if (--left_ == 0) [[unlikely]]
      Look();
  }

  static constexpr uint32_t kStepsMost = 64;  // so many may turn out to be dear before anybody looks

 private:
  void Look() {
    left_ = steps_;
    if (!poller_.on_caller()) return;
    const auto now = std::chrono::steady_clock::now();
    const auto took = now - last_;
    last_ = now;
    if (took > 2 * kBetween) {
      steps_ = static_cast<uint32_t>(std::max<int64_t>(1, steps_ * kBetween / took));
    } else if (took < kBetween / 2) {
      steps_ = std::min(2 * steps_, kStepsMost);
    }
    left_ = steps_;
    poller_.LookAt(now);
  }

  static constexpr std::chrono::steady_clock::duration kBetween = std::chrono::milliseconds(1);

  Poller& poller_;
  uint32_t steps_ = 1;  // between two looks
  uint32_t left_ = 1;   // to the next
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace morphspark
