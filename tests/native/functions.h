// User functions for tests, as a host would give them to the core.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "program/user_function.h"

namespace morphspark::testing {

// a // b and a / b, in native code; fails where b is 0.
inline int32_t Divide(const void* words, const void*, void* result_words, void* result_floats) {
  const auto* given = static_cast<const int64_t*>(words);
  const int64_t a = given[0], b = given[2];
  if (b == 0) return 1;
  static_cast<int64_t*>(result_words)[0] = b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
  static_cast<double*>(result_floats)[2] = static_cast<double>(a) / static_cast<double>(b);
  return 0;
}

// What a host counts.
struct Host {
  std::atomic<int64_t> calls = 0, rows = 0;
  int64_t cancel_after = INT64_MAX;  // calls
};

// A text of as many letters as its argument says, up to 6; null of 0. Below 0 it fails, with its argument as reason.
inline bool Letters(void* context, UserCall* call) {
  auto* host = static_cast<Host*>(context);
  host->rows += call->rows;
  if (++host->calls > host->cancel_after) return false;
  for (uint32_t row = 0; row < call->rows; ++row) {
    const int64_t count = call->low[row];
    if (count < 0) call->reasons[row] = call->texts->Add("letters: " + std::to_string(count % 3));
    if (count <= 0) {
      call->result_null[row] = 1;
      continue;
    }
    const std::string text(static_cast<size_t>(count % 7), 'a');
    const Bytes copy = call->strings->Copy({text.data(), text.size()});
    call->result_low[row] = reinterpret_cast<intptr_t>(copy.data);
    call->result_high[row] = static_cast<int64_t>(copy.size);
  }
  return true;
}

// Says why Divide failed.
inline bool WhyDivide(void*, UserCall* call) {
  call->reasons[0] = call->texts->Add(std::to_string(call->low[0] % 5) + " divided by zero");
  return true;
}

inline UserFunction DivideFunction(bool with_words) {
  UserFunction function{{Kind::kInt64, Kind::kInt64}, {Kind::kInt64, Kind::kFloat64}};
  function.compiled = Divide;
  if (with_words) function.host = WhyDivide;
  return function;
}

inline UserFunction LettersFunction(Host* host) {
  UserFunction function{{Kind::kInt64}, {Kind::kString}, /*nullable=*/true};
  function.host = Letters;
  function.context = host;
  return function;
}

}  // namespace morphspark::testing
