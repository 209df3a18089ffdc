// The engine's core: tables, and epochs of transactions over them. It takes an epoch of Arrow and returns Arrow; it
// knows nothing of Python, Spark or files.
//
// One epoch is: order → classify → resolve → execute → output, then `Commit` or `Rollback`. If `Execute` fails,
// nothing has changed. What must be written down of an executed epoch is `Changes`; `Apply` takes it again.
//
// Thread safety: one call at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/column.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "execute/adviser.h"
#include "execute/planned_run.h"
#include "execute/serial.h"
#include "execute/stretch.h"
#include "execute/triggers.h"
#include "output/parts.h"
#include "plan/explain.h"
#include "plan/order.h"
#include "program/code.h"
#include "state/snapshot.h"
#include "state/table.h"
#include "state/table_door.h"

namespace morphspark {

struct EpochInput {
  const Code* code;
  std::span<const ColumnView> columns;  // the used columns, in the code's order
  int64_t rows;
  Late late;
  std::optional<Value> watermark;
  std::optional<OrderKey> last_key;
  uint64_t max_string_bytes;
  Poll poll;
  std::optional<Strategy> strategy = {};      // none: chosen for each batch
  std::vector<Strategy> nested = {};          // by type of transaction, where the strategy is kNested
  int64_t punctuation = 0;                    // transactions per batch; 0: the whole epoch is one
  std::optional<uint64_t> interleaving = {};  // for tests: one thread plays all workers, in an order drawn from this
  int interleaved_workers = 2;
  bool observe = false;     // time every unit
  uint32_t lanes_min = 16;  // v-schedule: fewer transactions of a type run one by one; tests lower it
  // Where the stream stands: see triggers.h. Without order columns `clock` is the time of all transactions.
  std::optional<int64_t> clock = {}, last_event = {};
  std::optional<int64_t> until = {};  // after the events, fire up to here
  bool recompute = false;             // windows, for benchmarks
  uint64_t draws = 0;                 // what all random numbers begin with: see draws.h
  int64_t wall_us = 0;                // the wall clock
  Parts* parts = nullptr;             // who is told of batches that end; not of programs with triggers
};

struct StageSeconds {
  double order = 0, classify = 0, resolve = 0, execute = 0, output = 0;
};

struct EpochResult {
  Order order;
  std::vector<ColumnBuffers> returned;
  ColumnBuffers status, reason, timestamps;
  int64_t committed = 0, aborted = 0, unmatched = 0;
  std::optional<BatchRow> watermark_row;  // holds the largest timestamp of this epoch, if any
  std::optional<BatchRow> last_key_row;   // holds the largest order key of this epoch, if any
  std::optional<int64_t> clock, last_event;
  std::vector<FiredRange> firings;
  std::vector<int32_t> kinds;  // by position: the transaction that ran, or -1; only of programs with triggers
  StageSeconds seconds;
  std::vector<BatchReport> batches;
};

// What an epoch would be; see Engine::Explain. Firings are not in it: they depend on the stream, not on its events.
struct EpochExplanation {
  bool plannable = true;  // else it runs in order, whatever the graph
  bool whole = false;     // none of its transactions can be cut into operations
  GraphShape shape;
  std::vector<TransactionId> path_types;  // of the transactions on the critical path
  TableId longest_chain_table = 0;        // where the row is that most operations use, and its key; if there is one
  std::string longest_chain_key;
  Adviser::Advice advice;
  std::vector<TransactionId> types;   // by position; small epochs only
  std::vector<uint8_t> alone;         // by position: it roams; small epochs only
  std::vector<DrawnAccess> accesses;  // small epochs only
};

class Engine {
 public:
  Engine(std::vector<TableSpec> tables, int threads);

  // Rows as they shall be; see Table::Apply. Between epochs, and part of none.
  Status Apply(TableId table, std::span<const ColumnView> keys, std::span<const ColumnView> values,
               const ColumnView* deleted = nullptr, std::span<const ColumnView> versions = {});
  Status Execute(const EpochInput& input, EpochResult* result);
  // Plans the epoch and looks at its graph; changes nothing. Epochs of at most `draw_max` rows are drawn,
  // if they are short.
  Status Explain(const EpochInput& input, int64_t draw_max, EpochExplanation* explanation);
  // The rows of a table that the executed epoch changed: key parts, value columns, of a table that keeps versions what
  // else they have (version_columns.h), and a bit for each deleted row.
  Status Changes(TableId table, std::vector<ColumnBuffers>* columns);
  void Commit();
  void Rollback();

  // All rows of these tables, key parts and value columns, as the last commit left them: all of one moment. On any
  // thread, at any time: a running epoch goes on meanwhile, or waits for as long as the copy takes.
  Status ReadCommitted(std::span<const TableId> tables, std::vector<std::vector<ColumnBuffers>>* columns);

  // All tables as they are now, between epochs; read between any later ones. One at a time.
  Status BeginSnapshot();
  Status ReadSnapshot(int64_t rows_max, SnapshotChunk* chunk);
  void EndSnapshot() { snapshot_.reset(); }

  const Table& table(TableId id) const { return *tables_[id]; }
  std::vector<const TableSpec*> table_specs() const;
  uint64_t state_rows() const;
  // Exact where it is more than `enough`; else at most that.
  uint64_t state_bytes(uint64_t enough = 0) const;
  ThreadPool* pool() { return &pool_; }
  bool Validate() const;

 private:
  Status Run(const EpochInput& input, EpochResult* result);
  // Order, classes and slots; the first stages of Run.
  Status Prepare(const EpochInput& input, Order* order, StageSeconds* seconds);
  // A part of an epoch: events, or the firings of a trigger; and the order that its positions stand in.
  struct Piece {
    BatchContext context;
    PlanInput plan;
  };
  // The whole epoch, firings included: in stretches where they can be planned, else piece by piece.
  Status RunWithFirings(const EpochInput& input, const Piece& events, EpochResult* result);
  Status RunPieces(const EpochInput& input, const Piece& events, Triggers* triggers, Order* whole, EpochResult* result);
  Status RunStretches(const EpochInput& input, const Piece& events, Triggers* triggers, Order* whole,
                      EpochResult* result);
  void AddEvent(BatchRow row, Order* whole, EpochResult* result);
  // Adds firings up to a time to the stretch.
  void PlanFirings(const Code& code, int64_t until, Triggers* triggers, Order* whole, EpochResult* result);
  Status RunStretch(const EpochInput& input, const Piece& events, int64_t begin, Order* whole, EpochResult* result);
  // Firings that were planned, and whose windows were empty, have never been.
  void DropNotDue(const Code& code, Order* whole, EpochResult* result, std::vector<ReturnedValues>* returned);
  // Events without an order key.
  Status RunKeyless(const EpochInput& input, const Piece& events, Order* whole, EpochResult* result);
  Status Fire(const EpochInput& input, int64_t until, Triggers* triggers, Order* order, EpochResult* result,
              std::vector<ReturnedValues>* returned);
  void MakeRoom(int64_t positions, std::vector<ReturnedValues>* returned);
  // The transactions at positions [begin, end) of a piece.
  Status RunBatches(const EpochInput& input, const Piece& piece, int64_t begin, int64_t end, EpochResult* result);
  Status RunBatch(const EpochInput& input, const Piece& piece, BatchReport* report);
  bool Plannable(const EpochInput& input) const;
  // For transactions [begin, end), and `ran` of them ran before those.
  Adviser::Advice Advise(const EpochInput& input, const PlanInput& plan, int64_t ran, int64_t begin, int64_t end,
                         Adviser* adviser);

  Status Look(const EpochInput& input, const Order& order, int64_t draw_max, EpochExplanation* explanation);
  int Workers(const EpochInput& input) const;

  static constexpr int kInterleavedWorkersMax = 8;

  std::vector<std::unique_ptr<Table>> tables_;
  TableDoor door_;                      // to all of them
  std::unique_ptr<Snapshot> snapshot_;  // null: none is open
  ThreadPool pool_;
  // Working memory of an epoch, kept so that the next one does not fault it in again.
  std::vector<TransactionId> transactions_;  // by batch row
  std::vector<std::vector<Slot>> slots_;     // by site, then batch row or element
  std::optional<Poller> poller_;             // of the epoch that executes, or is looked at
  Verdicts verdicts_;
  ReasonTexts reason_texts_;
  PlannedRun planned_;
  Adviser adviser_;
  Stretch stretch_;
  FiringBatch firings_;
  std::vector<std::vector<Slot>> firing_slots_;  // by site, then firing
  Stamp next_stamp_ = 1;
  int64_t now_ = INT64_MIN;  // the effective timestamp of the last transaction of the executed epoch
  Stamp epoch_stamps_ = 0;   // how many the executed, uncommitted epoch took
  bool executed_ = false;    // an epoch waits for Commit or Rollback
};

}  // namespace morphspark
