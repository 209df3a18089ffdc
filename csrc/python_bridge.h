// What the Python binding calls: the core's functions in shapes that Cython can say. No Python.h here.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "output/gather.h"

namespace morphspark::bridge {

inline Status Decode(const std::vector<int64_t>& words, std::vector<std::string> strings, const Engine& engine,
                     Code* out) {
  return Code::Decode(words, std::move(strings), engine.table_specs(), out);
}

inline void SetColumns(EpochInput* epoch, const std::vector<ColumnView>& columns) { epoch->columns = columns; }

inline void SetPoll(EpochInput* epoch, bool (*poll)()) { epoch->poll = poll; }

// `columns` are the key's parts, then the value columns, what else versions have (`versions` columns) and, if there is
// one more, whether a row is deleted.
inline Status Apply(Engine* engine, TableId table, const std::vector<ColumnView>& columns, size_t versions) {
  const std::span<const ColumnView> all(columns);
  const TableSpec& spec = engine->table(table).spec();
  const size_t parts = spec.key.size(), values = spec.columns.size();
  const ColumnView* deleted = columns.size() > parts + values + versions ? &columns.back() : nullptr;
  return engine->Apply(table, all.first(parts), all.subspan(parts, values), deleted,
                       all.subspan(parts + values, versions));
}

// The columns of an epoch are those of events; what triggers have in their place is not there.
inline void PadColumns(const Code& code, std::vector<ColumnView>* columns) { columns->resize(code.columns.size()); }

inline Status ReadCommitted(Engine* engine, const std::vector<TableId>& tables,
                            std::vector<std::vector<ColumnBuffers>>* columns) {
  return engine->ReadCommitted(tables, columns);
}

inline ColumnBuffers GatherColumn(const ArrowArray& array, int bits, int offset_bytes, bool identity,
                                  const int64_t* order, int64_t rows, ThreadPool* pool) {
  return Gather(array, {bits, offset_bytes}, identity, {order, static_cast<size_t>(rows)}, pool);
}

inline bool ColumnIsCanonical(const ArrowArray& array, int bits, int offset_bytes) {
  return IsCanonical(array, {bits, offset_bytes});
}

// Gives a decoded program what it calls; `compiled` is an address, or 0.
inline void LinkFunction(Code* code, size_t index, uintptr_t compiled, UserFunction::Host host, void* context) {
  UserFunction& function = code->functions.at(index);
  function.compiled = reinterpret_cast<UserFunction::Compiled>(compiled);
  function.host = host;
  function.context = context;
}

inline void FailRow(UserCall* call, uint32_t row, const std::string& reason) {
  call->reasons[row] = call->texts->Add(reason);
}

// `at` counts results, then rows. A string is copied.
inline void SetResult(UserCall* call, size_t at, Value value, bool is_string) {
  if (is_string) value.s = call->strings->Copy(value.s);
  std::memcpy(&call->result_low[at], &value, 8);
  std::memcpy(&call->result_high[at], reinterpret_cast<const char*>(&value) + 8, 8);
}

inline void SetDecimal(Value* value, int64_t low, int64_t high) {
  value->d = static_cast<Int128>(high) << 64 | static_cast<uint64_t>(low);
}

}  // namespace morphspark::bridge
