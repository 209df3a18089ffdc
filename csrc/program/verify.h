// Proves, before a program runs, what the machine never checks while it runs.
//
//   1. Every index is inside what it points into, and every row belongs to the table that the instruction names.
//   2. Jumps lead forward and loops nest: every transaction stops.
//   3. A register is read as what was last written to it, and on every path something was. A path is told from others
//      by the conditions that it has passed, so a value made under a guard may be read under the same guard again.
//   4. An inserted row gets all its columns, none of them null.
//   5. Every failure that can happen has a reason; without one an abort would pass for a commit.
//
// verify.cc checks what can be seen without following a transaction, verify_registers.cc the rest.
//
// What `lower.py` writes has these properties. So a program that is refused is a bug of ours, found before it could
// read foreign memory.
#pragma once

#include <span>

#include "base/status.h"
#include "program/code.h"
#include "state/table.h"

namespace morphspark {

Status VerifyCode(const Code& code, std::span<const TableSpec* const> tables);

}  // namespace morphspark
