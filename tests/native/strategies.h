// Every strategy, for tests that go through them all.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "execute/strategy.h"

namespace morphspark::testing {

// Points of the space in which the graph is explored.
inline std::vector<Strategy> Explorations() {
  std::vector<Strategy> all;
  for (Exploration exploration : {Exploration::kBfs, Exploration::kDfs, Exploration::kNs}) {
    for (Unit unit : {Unit::kOperation, Unit::kChain, Unit::kTransaction}) {
      for (Abort abort : {Abort::kEager, Abort::kLazy}) all.push_back({Scheme::kExplore, exploration, unit, abort});
    }
  }
  for (Abort abort : {Abort::kEager, Abort::kLazy})
    all.push_back({Scheme::kExplore, Exploration::kBfs, Unit::kStratum, abort});
  return all;
}

inline std::vector<Strategy> AllStrategies() {
  std::vector<Strategy> all = Explorations();
  for (Scheme scheme : {Scheme::kSerial, Scheme::kLock, Scheme::kMvlk, Scheme::kPat, Scheme::kTstream})
    all.push_back({.scheme = scheme});
  return all;
}

inline std::string Name(const Strategy& one) {
  return std::to_string(static_cast<int>(one.scheme)) + "/" + std::to_string(static_cast<int>(one.exploration)) + "/" +
         std::to_string(static_cast<int>(one.unit)) + "/" + std::to_string(static_cast<int>(one.abort));
}

// How many interleavings a test tries.
inline int Seeds() {
  const char* wanted = std::getenv("MORPHSPARK_SEEDS");
  return wanted == nullptr ? 600 : std::atoi(wanted);
}

}  // namespace morphspark::testing
