// Why transactions abort, in words: reasons that the program knows, and those that functions of the user's give while
// an epoch runs.
//
// Thread safety: a text may be added and looked up by any thread; `Reset` only when no other thread is here.
#pragma once

#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"

namespace morphspark {

class ReasonTexts {
 public:
  // Forgets what was added; `known` have the first numbers, and outlive this.
  void Reset(std::span<const std::string> known) {
    known_ = known;
    ids_.clear();
    added_.clear();
  }

  // The number of a text: equal ones have one, or a function that fails for every event would fill the memory.
  ReasonId Add(std::string_view text) {
    std::lock_guard lock(mutex_);
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    const std::string& kept = added_.emplace_back(text);
    const auto id = static_cast<ReasonId>(known_.size() + added_.size() - 1);
    ids_.emplace(kept, id);
    return id;
  }

  const std::string& operator[](ReasonId id) const {
    if (id < known_.size()) return known_[id];
    std::lock_guard lock(mutex_);
    return added_[id - known_.size()];  // stays where it is
  }

 private:
  std::span<const std::string> known_;
  mutable std::mutex mutex_;
  std::deque<std::string> added_;                       // a deque: `ids_` points into it
  std::unordered_map<std::string_view, ReasonId> ids_;  // of added_
};

}  // namespace morphspark
