// Between the two halves of the verifier: verify.cc looks at the parts of a program one by one, verify_registers.cc
// then follows each transaction. Both refuse a program by throwing.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "program/code.h"
#include "program/signature.h"
#include "state/table.h"

namespace morphspark::verify {

// Thrown where a check fails; `VerifyCode` makes it a Status.
class Refused {
 public:
  explicit Refused(std::string what) : what_(std::move(what)) {}
  const std::string& what() const { return what_; }

 private:
  std::string what_;
};

inline void Check(bool holds, const char* what) {
  if (!holds) throw Refused(what);
}

// A register that has a value of this type, or null, before the first instruction.
struct Given {
  Register value;
  Type type;
};

// Refuses a transaction that reads a register for what it is not. Its parts, jumps and loops are checked already.
void FollowRegisters(const Code& code, const TransactionCode& transaction, std::span<const TableSpec* const> tables,
                     std::span<const Given> given = {});

// The type of each register of a transaction that was not refused: kNull where there never is a value. Empty if a
// register has values of two types, or is made only where nothing leads, so that nobody knows.
std::vector<Type> TypesOfRegisters(const Code& code, const TransactionCode& transaction,
                                   std::span<const TableSpec* const> tables);

}  // namespace morphspark::verify
