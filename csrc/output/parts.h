// What came of batches that have ended, for whoever writes it out while later batches of the epoch execute.
//
//        engine     ─ Open ─ batch ─ Ended ─ batch ─ Ended ─ batch ─ Close ─▶
//        writer       Next ⋯⋯⋯⋯⋯⋯⋯⋯⋯⋯⋯ a part, Next ⋯⋯⋯⋯⋯ a part, Next ⋯⋯ none
//
// Batches end in order, and nothing that ended is written again: only the epoch as a whole can still be taken back.
//
// Thread safety: one engine, one writer, each on a thread of its own.
//
// Invariants:
//   1. Positions before ended_ are final. It moves under mutex_, so the writer sees all that was written before.
//   2. `Close` returns only when no part is being copied: what the parts are copied from may go.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/column.h"
#include "execute/serial.h"
#include "output/returned.h"
#include "program/reason_texts.h"

namespace morphspark {

// The results at positions [begin, begin + length).
struct Part {
  int64_t begin = 0, length = 0;
  bool identity = true;        // rows of the batch are positions
  std::vector<BatchRow> rows;  // of the batch, in transaction order; empty where identity
  std::vector<ColumnBuffers> returned;
  ColumnBuffers status, reason, timestamps;
};

class Parts {
 public:
  // What parts are copied from; all of it outlives `Close`.
  struct Source {
    const Order* order;
    const std::vector<ReturnedValues>* returned;
    const Verdicts* verdicts;
    const ReasonTexts* texts;
    const ColumnView* timestamps;  // null: the program has no order columns
    std::optional<Value> watermark;
  };

  // `patient`, for tests: the engine waits at the end of each batch until the writer has taken it.
  explicit Parts(bool patient = false) : patient_(patient) {}

  // The engine's:
  void Open(const Source& source);
  void Ended(int64_t end);

  // Waits until at least `rows_min` more positions are final, and copies at most `rows_max` of them. False: there will
  // be no more parts, and the rest is in the epoch's result.
  bool Next(int64_t rows_min, int64_t rows_max, Part* part);

  // Either side's; for good.
  void Close();

 private:
  void Copy(int64_t begin, int64_t end, Part* part) const;

  const bool patient_;
  Source source_{};  // set before ended_ first moves
  std::mutex mutex_;
  std::condition_variable ended_more_;  // the writer waits
  std::condition_variable copied_;      // the engine waits
  // Guarded by mutex_:
  int64_t ended_ = 0, taken_ = 0;
  bool copying_ = false, closed_ = false;
};

}  // namespace morphspark
