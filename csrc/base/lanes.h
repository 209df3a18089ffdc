// Loops over lanes: the same arithmetic on many values at once, written plainly and vectorised by the compiler.
//
// They are compiled twice, for any processor of the architecture and for those with AVX2, and chosen when they run. No
// `target_clones`: its resolvers run while the module is being loaded, before the sanitizers are ready. AVX2 brings no
// fused multiply-add, so results are the same to the bit.
#pragma once

#include <cstdint>

namespace morphspark {

#if defined(__x86_64__)
#define MORPHSPARK_AVX2 [[gnu::target("avx2")]]
inline bool HasAvx2() { return __builtin_cpu_supports("avx2"); }
#else
#define MORPHSPARK_AVX2
inline bool HasAvx2() { return false; }
#endif

// Of a lambda that is called in such a loop: it has to become part of it.
#define MORPHSPARK_INLINE __attribute__((always_inline))

template <class Body>
MORPHSPARK_AVX2 void EachLaneAvx2(uint32_t lanes, Body body) {
#pragma GCC ivdep  // arrays are the same or apart
  for (uint32_t lane = 0; lane < lanes; ++lane) body(lane);
}

// Calls body(lane) for every lane. Lanes must not depend on each other.
template <class Body>
void EachLane(uint32_t lanes, Body body) {
  if (HasAvx2()) return EachLaneAvx2(lanes, body);
#pragma GCC ivdep
  for (uint32_t lane = 0; lane < lanes; ++lane) body(lane);
}

// Of all lanes the `or`.
template <class Body>
MORPHSPARK_AVX2 int64_t AnyLaneAvx2(uint32_t lanes, Body body) {
  int64_t any = 0;
  for (uint32_t lane = 0; lane < lanes; ++lane) any |= body(lane);
  return any;
}

template <class Body>
int64_t AnyLane(uint32_t lanes, Body body) {
  if (HasAvx2()) return AnyLaneAvx2(lanes, body);
  int64_t any = 0;
  for (uint32_t lane = 0; lane < lanes; ++lane) any |= body(lane);
  return any;
}

}  // namespace morphspark
