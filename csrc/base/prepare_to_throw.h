// A thread gets its memory for exceptions from the C++ runtime when it throws for the first time. If that is because no
// memory is left, there is none for this either, and the runtime ends the process. So threads that may meet a shortage
// throw once before.
#pragma once

namespace morphspark {

inline void PrepareToThrow() {
  thread_local bool prepared = false;
  if (prepared) return;
  try {
    throw 0;
  } catch (int) {
    prepared = true;
  }
}

}  // namespace morphspark
