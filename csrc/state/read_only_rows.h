// What rows have that nobody writes through.
#pragma once

#include <cassert>

#include "base/ids.h"
#include "base/value.h"

namespace morphspark {

struct ReadOnlyRows {
  template <Kind kind>
  void Write(TableId, RowHandle, ColumnId, const Value&) {
    assert(false);
  }
  template <Kind kind, class Function>
  bool Update(TableId, RowHandle, ColumnId, Function) {
    assert(false);
    return false;
  }
  void Insert(TableId, RowHandle) { assert(false); }
  void Store(TableId, RowHandle, ColumnId, const Value&) { assert(false); }
  void Delete(TableId, RowHandle) { assert(false); }
};

}  // namespace morphspark
