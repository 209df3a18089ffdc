// Asks, on the thread that called the engine and not too often, whether a batch shall go on.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "execute/serial.h"

namespace morphspark {

class Poller {
 public:
  // `cancel` is called when `poll`, which may be empty, says so. Made on the thread that is to ask.
  Poller(const Poll& poll, std::function<void()> cancel) : poll_(poll), cancel_(std::move(cancel)) {}

  // This is the thread that asks, and there is somebody to be asked.
  bool on_caller() const { return poll_ && std::this_thread::get_id() == caller_; }

  // May be called on any thread; looks at the clock.
  void Look() {
    if (!on_caller()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ <= kBetween) return;
    if (poll_()) cancel_();
    last_ = now;
  }

 private:
  static constexpr auto kBetween = std::chrono::milliseconds(50);

  const Poll& poll_;
  const std::function<void()> cancel_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();  // its thread's alone
};

}  // namespace morphspark
