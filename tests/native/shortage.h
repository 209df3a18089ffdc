// Lets one allocation fail, or counts them. The whole binary's operator new is replaced for it (shortage.cc).
#pragma once

#include <cstdint>

namespace morphspark::testing {

// While this lives, the allocation after `allowed` more of them fails, if there is one.
class Shortage {
 public:
  explicit Shortage(int64_t allowed);
  ~Shortage();
  bool happened() const;
};

// What was allocated since this was made, on all threads; nothing else counts what is freed.
class Allocations {
 public:
  Allocations();
  int64_t count() const;
  int64_t bytes() const;

 private:
  int64_t count_before_, bytes_before_;
};

}  // namespace morphspark::testing
