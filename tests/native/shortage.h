// Lets one allocation fail. The whole binary's operator new is replaced for it (shortage.cc).
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

}  // namespace morphspark::testing
