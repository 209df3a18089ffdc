// A value that shares its cache line with no other, so that threads which write to neighbours don't slow each other.
#pragma once

namespace morphspark {

template <class T>
struct alignas(64) Padded {
  T value{};
};

}  // namespace morphspark
