// Streaming Ledger written by hand: what a C++ programmer would put in place of the engine, for `morphspark bench`.
//
// The same Arrow buffers, the same bulk key index, flat balances, one loop. No versions, no program, no checks for
// overflow, no undo: a transfer that is short is simply not done. It is the upper bound that the engine is measured
// against, and part of no product path.
#pragma once

#include <vector>

#include "base/column.h"
#include "state/key_index.h"

namespace morphspark::bench {

class LedgerLoop {
 public:
  LedgerLoop();

  // Every key starts with this much.
  static constexpr int64_t kInitial = 1'000'000'000;

  struct Result {
    ColumnBuffers status;   // utf8
    ColumnBuffers balance;  // int64, null unless a transfer was done
    double resolve_seconds = 0, loop_seconds = 0, output_seconds = 0;
  };
  // Columns: kind, account, asset, to_account, to_asset (utf8), amount, quantity (int64).
  Result Run(const std::vector<ColumnView>& columns);

 private:
  struct Holdings {
    KeyIndex index{false};
    std::vector<int64_t> amounts;  // by slot

    void Resolve(const ColumnView& keys, const std::vector<uint8_t>& wanted, std::vector<Slot>* slots);
  };

  Holdings accounts_, assets_;
  std::vector<Slot> account_, asset_, to_account_, to_asset_;
  std::vector<uint8_t> transfer_, everyone_;
};

}  // namespace morphspark::bench
