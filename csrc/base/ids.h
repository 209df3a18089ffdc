// The integers that name things. Units and meanings live in the names, so that a row of a batch is never taken
// for a row of a table.
#pragma once

#include <cstdint>

namespace morphspark {

using Slot = uint32_t;           // a row of a table: an index into its flat columns
using BatchRow = uint32_t;       // a row of the batch, in arrival order
using TableId = uint32_t;        // index into the engine's tables
using ColumnId = uint32_t;       // index into a table's value columns
using TransactionId = uint16_t;  // a type of transaction: index into Code::transactions
using Register = uint32_t;       // index into a frame's registers
using SiteId = uint32_t;         // a place in the program that names a row by columns of the event
using ReasonId = uint32_t;       // index into the program's reasons; 0: no failure
using Access = uint32_t;         // the use of a row by a transaction of the batch; see plan/graph.h
using Task = uint32_t;           // a transaction of the batch: its position minus that of the batch's first
using RowHandle = uint32_t;      // how a transaction names a row: a Slot where tables change in place, else an Access
using Stamp = uint64_t;          // number of a transaction since the engine was opened; 0: initial state
using VersionId = uint32_t;      // an entry of a table's version log; 0: none

inline constexpr Slot kNoSlot = 0xFFFFFFFFu;              // absent key
inline constexpr Slot kNullKey = 0xFFFFFFFEu;             // the key is null: every access aborts
inline constexpr RowHandle kOutsideKey = 0xFFFFFFFDu;     // the key is none of its candidates: every access aborts
inline constexpr RowHandle kUnforeseenKey = 0xFFFFFFFCu;  // the row was not foreseen; see execute/repair.h
inline constexpr RowHandle kAbsentKey = 0xFFFFFFFBu;      // while looking ahead: no row has the key
inline constexpr uint64_t kHandlesMax = kAbsentKey;       // slots of a table, accesses of a batch
inline constexpr BatchRow kNoRow = 0xFFFFFFFFu;           // the transaction is a firing: no row of the batch starts it
inline constexpr Access kBase = 0xFFFFFFFFu;              // no access: the row as it was before the batch
inline constexpr ReasonId kNoReason = 0;
inline constexpr TransactionId kUnmatched = 0xFFFF;  // the event runs no transaction

}  // namespace morphspark
