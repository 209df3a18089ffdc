#include "program/user_function.h"

#include <algorithm>
#include <array>
#include <bit>

namespace morphspark {
namespace {

using Words = std::array<int64_t, 2>;

}  // namespace

UserCall CallMemory::Prepare(const UserFunction& function, uint32_t rows, Arena* strings, ReasonTexts* texts) {
  rows_ = rows;
  arguments_ = static_cast<uint32_t>(function.arguments.size());
  const size_t given = size_t{arguments_} * rows, results = function.results.size() * rows;
  words_.resize(std::max(words_.size(), 2 * (given + results)));
  null_.assign(results, 0);
  reasons_.assign(rows, kNoReason);
  int64_t* const result_low = words_.data() + 2 * given;
  return {
      rows,    words_.data(), words_.data() + given, result_low, result_low + results, null_.data(), reasons_.data(),
      strings, texts};
}

void CallMemory::Set(uint32_t argument, uint32_t row, const Value& value) {
  const Words words = std::bit_cast<Words>(value);
  words_[size_t{argument} * rows_ + row] = words[0];
  words_[size_t{arguments_ + argument} * rows_ + row] = words[1];
}

Value CallMemory::Result(const UserCall& call, uint32_t result, uint32_t row) {
  const size_t at = size_t{result} * call.rows + row;
  return std::bit_cast<Value>(Words{call.result_low[at], call.result_high[at]});
}

Value* CallMemory::Values(const UserFunction& function) {
  values_.resize(function.arguments.size() + function.results.size());
  return values_.data();
}

uint64_t CallMemory::bytes() const {
  return words_.capacity() * sizeof(int64_t) + null_.capacity() + reasons_.capacity() * sizeof(ReasonId) +
         values_.capacity() * sizeof(Value);
}

ReasonId ReasonOf(const UserFunction& function, const Value* arguments, ReasonId otherwise, CallMemory* memory,
                  Arena* strings, ReasonTexts* texts) {
  if (function.host == nullptr) return otherwise;
  UserCall call = memory->Prepare(function, 1, strings, texts);
  for (uint32_t i = 0; i < function.arguments.size(); ++i) memory->Set(i, 0, arguments[i]);
  CallHost(function, &call);
  return call.reasons[0] == kNoReason ? otherwise : call.reasons[0];
}

void CallHost(const UserFunction& function, UserCall* call) {
  if (!function.host(function.context, call)) throw Cancelled();
}

bool ExceedsLimit(const UserFunction& function, uint32_t result, const Value& value, bool null, uint64_t max_bytes) {
  return function.results[result] == Kind::kString && !null && value.s.size > max_bytes;
}

}  // namespace morphspark
