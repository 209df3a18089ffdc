// Asks for a cache line before it is needed.
//
// Always inlined: GCC takes a function that only prefetches for one without effect, and drops calls to it.
#pragma once

namespace morphspark {

[[gnu::always_inline]] inline void Prefetch(const void* address) { __builtin_prefetch(address); }
[[gnu::always_inline]] inline void PrefetchToWrite(const void* address) { __builtin_prefetch(address, 1); }

}  // namespace morphspark
