// Errors of the core: a code and the words for the user. The Python side maps each code to one exception.
#pragma once

#include <string>
#include <utility>

namespace morphspark {

enum class StatusCode {
  kOk = 0,
  kInvalid,      // our own caller broke a rule: a bug, not a user's mistake
  kLate,         // late events and the app says late="fail"
  kLimit,        // a stated limit would be exceeded
  kOutOfMemory,  // an allocation failed
  kCancelled,    // the caller asked to stop (Ctrl-C)
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }
  static Status Invalid(std::string message) { return {StatusCode::kInvalid, std::move(message)}; }
  static Status Limit(std::string message) { return {StatusCode::kLimit, std::move(message)}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

#define MORPHSPARK_RETURN_IF_ERROR(expression)                                      \
  do {                                                                              \
    if (::morphspark::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace morphspark
