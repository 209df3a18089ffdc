// Functions of the user's, as the machines call them. The core knows their signatures and two pointers, which whoever
// hosts it sets after Decode:
//
//   compiled   native code, called for one row at a time, on any thread. Not 0: it failed, and `host` says why
//   host       anything else, for many rows at once: it takes what locks it needs, and may take its time
//
// Arguments are never null. Results may be, where the function is `nullable`. An argument may be the values of a
// window: then it is an address (Value::s.data) and how many there are (s.size), packed as tables hold them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "base/ids.h"
#include "base/value.h"
#include "program/reason_texts.h"

namespace morphspark {

// The host wants the epoch to end (Ctrl-C inside of a function); thrown, as no transaction is at fault.
struct Cancelled {};

// One call of a host. A Value is two words: strings and decimals have both, all others the low one.
struct UserCall {
  uint32_t rows;
  const int64_t* low;  // of arguments: by argument, then row
  const int64_t* high;
  int64_t* result_low;  // by result, then row
  int64_t* result_high;
  uint8_t* result_null;
  ReasonId* reasons;   // by row: kNoReason, or why it failed
  Arena* strings;      // where strings of results go
  ReasonTexts* texts;  // where reasons come from
};

// The kind of an argument that has many values of a kind.
inline constexpr uint8_t kArrayMark = 16;
constexpr bool IsArray(Kind kind) { return static_cast<uint8_t>(kind) & kArrayMark; }
constexpr Kind ElementOf(Kind array) { return static_cast<Kind>(static_cast<uint8_t>(array) & ~kArrayMark); }

struct UserFunction {
  std::vector<Kind> arguments, results;
  bool nullable = false;

  // The same two addresses, as int64_t* and as double*: a compiler of user code may know no unions.
  using Compiled = int32_t (*)(const void* words, const void* floats, void* result_words, void* result_floats);
  Compiled compiled = nullptr;
  // False: the epoch must end.
  using Host = bool (*)(void* context, UserCall* call);
  Host host = nullptr;
  void* context = nullptr;

  bool linked() const { return compiled != nullptr || host != nullptr; }
};

// Where arguments and results of calls lie. One per thread, used again and again.
class CallMemory {
 public:
  // Room for so many rows; good until the next call of this.
  UserCall Prepare(const UserFunction& function, uint32_t rows, Arena* strings, ReasonTexts* texts);
  // Gives the prepared call an argument.
  void Set(uint32_t argument, uint32_t row, const Value& value);
  // A row's result.
  static Value Result(const UserCall& call, uint32_t result, uint32_t row);
  // Values of a row, for native code.
  Value* Values(const UserFunction& function);

  uint64_t bytes() const;

 private:
  std::vector<int64_t> words_;
  std::vector<uint8_t> null_;
  std::vector<ReasonId> reasons_;
  std::vector<Value> values_;
  uint32_t rows_ = 0, arguments_ = 0;
};

// Why a row failed that native code has refused: what the host says of it, else `otherwise`.
ReasonId ReasonOf(const UserFunction& function, const Value* arguments, ReasonId otherwise, CallMemory* memory,
                  Arena* strings, ReasonTexts* texts);

// Calls the host, which may want the epoch to end.
void CallHost(const UserFunction& function, UserCall* call);

// Is a result a string that is too long?
bool ExceedsLimit(const UserFunction& function, uint32_t result, const Value& value, bool null, uint64_t max_bytes);

}  // namespace morphspark
