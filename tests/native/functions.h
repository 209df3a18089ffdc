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

// Does what any signature allows: reads all arguments, and gives some results of each type. Its context is the
// function.
inline bool Anything(void* context, UserCall* call) {
  const auto& function = *static_cast<const UserFunction*>(context);
  for (uint32_t row = 0; row < call->rows; ++row) {
    uint64_t seen = row;
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      const auto low = static_cast<uint64_t>(call->low[i * call->rows + row]);
      const auto high = static_cast<uint64_t>(call->high[i * call->rows + row]);
      if (function.arguments[i] == Kind::kString) {
        for (uint64_t at = 0; at < high; ++at) seen += static_cast<uint8_t>(reinterpret_cast<const char*>(low)[at]);
      } else {
        seen += low;
      }
    }
    if (seen % 13 == 1) call->reasons[row] = call->texts->Add("any");
    for (size_t i = 0; i < function.results.size(); ++i) {
      const size_t at = i * call->rows + row;
      const bool text = function.results[i] == Kind::kString;
      call->result_null[at] = function.nullable && seen % 3 == 0;
      call->result_low[at] = text ? reinterpret_cast<intptr_t>("any") : static_cast<int64_t>(seen % 2);
      call->result_high[at] = text ? 3 : 0;
    }
  }
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
