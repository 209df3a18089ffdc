// The life of an operation, with the names of the literature.
//
//     BLK ──T1──▶ RDY ──T2──▶ EXE       T1 what it waits for has been executed
//      │           ▲           ▲        T2 it is executed
//      ├────T5─────┴────T5─────┤        T3 a worker took it before that, waited with it in hand, and executed it
//      └─────────T3────────────┘        T5 rolled back, and ready at once
//      ▲           │           │        T6 rolled back, and must wait again
//      └────T6─────┴────T6─────┘        T4 from any state to ABT: it, or another operation of its transaction, failed
//
// A failure is not the last word while what was read may be taken back: only a transaction that failed with everything
// before it final is aborted. So nothing ever leaves ABT.
//
// Who is ready, explorers find out by counting (units.h), and T1 is noted when it runs. The state says afterwards what
// has happened to an operation: taking back asks it who has read, and Validate whether all came to the same end. How
// often each transition was made is in the metrics, but for transactions that are repaired (repair.h).
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

namespace morphspark {

enum class OperationState : uint8_t { kBlocked, kReady, kExecuted, kAborted };

// The number of the transition (T1: 1); 0: there is none.
constexpr int TransitionOf(OperationState from, OperationState to, bool rolls_back) {
  constexpr int kForward[4][4] = {
      // BLK RDY EXE ABT
      {0, 1, 3, 4},  // BLK
      {0, 0, 2, 4},  // RDY
      {0, 0, 0, 4},  // EXE
      {0, 0, 0, 0},  // ABT
  };
  constexpr int kBack[4][4] = {
      {0, 5, 0, 4},
      {6, 0, 0, 4},
      {6, 5, 0, 4},
      {0, 0, 0, 0},
  };
  return (rolls_back ? kBack : kForward)[static_cast<int>(from)][static_cast<int>(to)];
}

// How often each was made, by its number.
using Transitions = std::array<int64_t, 7>;

// Each change of a state goes through one of these two, which count it; with assertions on they check it.
inline void Advance(OperationState* state, OperationState to, Transitions* made) {
  const int number = TransitionOf(*state, to, false);
  assert(number != 0);
  ++(*made)[number];
  *state = to;
}
inline void RollBack(OperationState* state, OperationState to, Transitions* made) {
  if (*state == to) return;
  const int number = TransitionOf(*state, to, true);
  assert(number != 0);
  ++(*made)[number];
  *state = to;
}

}  // namespace morphspark
