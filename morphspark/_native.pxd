# Declarations of the C++ core: names and shapes only.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "arrow/c/abi.h" nogil:
    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset


cdef extern from "base/status.h" namespace "morphspark" nogil:
    cdef enum class StatusCode:
        kOk
        kInvalid
        kLate
        kLimit
        kOutOfMemory
        kCancelled

    cdef cppclass Status:
        cbool ok()
        StatusCode code()
        const string& message()


cdef extern from "base/value.h" namespace "morphspark" nogil:
    cdef enum class Kind:
        kString

    cdef struct Bytes:
        const char* data
        uint64_t size

    cdef union Value:
        int64_t i
        Bytes s


cdef extern from "base/column.h" namespace "morphspark" nogil:
    cdef cppclass ColumnView:
        pass

    cdef cppclass ColumnBuffers:
        int64_t length

    Status ViewColumn(const ArrowArray& array, Kind kind, Kind element, ColumnView* view)
    void ExportColumn(ColumnBuffers column, ArrowArray* out) except +


cdef extern from "base/thread_pool.h" namespace "morphspark" nogil:
    cdef cppclass ThreadPool:
        int threads()


cdef extern from "state/table.h" namespace "morphspark" nogil:
    cdef cppclass HistorySpec:
        int64_t span
        int64_t rows
        vector[int64_t] gaps
        int64_t limit

    cdef cppclass TableSpec:
        vector[Kind] key
        vector[Kind] columns
        cbool has_default
        vector[Value] defaults
        vector[string] default_text
        cbool keeps_versions
        HistorySpec history

    cdef cppclass Table:
        const TableSpec& spec()


cdef extern from "state/snapshot.h" namespace "morphspark" nogil:
    cdef cppclass SnapshotChunk:
        uint32_t table
        int64_t rows
        vector[ColumnBuffers] columns


cdef extern from "program/code.h" namespace "morphspark" nogil:
    cdef cppclass Code:
        pass


cdef extern from "program/user_function.h" namespace "morphspark" nogil:
    cdef cppclass UserCall:
        uint32_t rows
        const int64_t* low
        const int64_t* high
        int64_t* result_low
        int64_t* result_high
        uint8_t* result_null


cdef extern from "plan/order.h" namespace "morphspark" nogil:
    cdef enum class Late:
        kAdmit

    cdef cppclass OrderKey:
        vector[Value] parts
        vector[string] text

    cdef cppclass Order:
        cbool identity
        vector[uint32_t] rows
        vector[uint32_t] diverted
        int64_t late


cdef extern from "execute/strategy.h" namespace "morphspark" nogil:
    cdef enum class Scheme:
        kSerial

    cdef enum class Exploration:
        kBfs

    cdef enum class Unit:
        kTransaction

    cdef enum class Abort:
        kEager

    cdef cppclass Strategy:
        Scheme scheme
        Exploration exploration
        Unit unit
        Abort abort


cdef extern from "execute/batch_statistics.h" namespace "morphspark" nogil:
    cdef cppclass BatchStatistics:
        double seconds, aborts, lanes, same_row, distinct_rows, cyclic, transaction_span, operation_span, chain_span
        int64_t sample, accesses, td, pd, ld, degree_max
        int64_t[4] degrees
        cbool may_cut


cdef extern from "execute/cost_model.h" namespace "morphspark" nogil:
    cdef cppclass LearnedCosts:
        double serial, barrier, lanes_gain
        double Planning(Unit unit)
        double Dispatch(Unit unit)

    cdef cppclass DecisionInputs:
        BatchStatistics statistics
        LearnedCosts costs


cdef extern from "execute/batch_report.h" namespace "morphspark" nogil:
    cdef cppclass BatchReport:
        Strategy strategy
        int64_t begin, transactions, batches, aborted, not_due
        double predicted, seconds
        uint32_t why
        DecisionInputs inputs
        int64_t accesses, onlookers, dependencies, redone
        int64_t transition(int number)
        uint32_t levels, units, chunk
        int workers
        double plan, construct, explore, waiting, useful, redo, install
        uint64_t graph_bytes, version_bytes


cdef extern from "execute/adviser.h" namespace "morphspark" nogil:
    cdef enum class Why:
        kConfigured

    cdef cppclass Advice "morphspark::Adviser::Advice":
        Strategy strategy
        int64_t transactions
        double predicted
        Why why
        DecisionInputs inputs


cdef extern from "plan/explain.h" namespace "morphspark" nogil:
    cdef cppclass GraphShape:
        int64_t transactions, operations, reads, writes, td, pd, ld, roamers, foreseen, windows, aliases
        int64_t chains, merged_chains, longest_chain, span, transaction_span
        vector[uint32_t] strata, degrees, critical_path

    cdef cppclass DrawnAccess:
        uint32_t task, table
        cbool writes
        int64_t previous
        vector[int64_t] parametric
        string key


cdef extern from "output/parts.h" namespace "morphspark" nogil:
    cdef cppclass Part:
        int64_t begin, length
        cbool identity
        vector[uint32_t] rows
        vector[ColumnBuffers] returned
        ColumnBuffers status, reason, timestamps

    cdef cppclass Parts:
        Parts(cbool patient)
        cbool Next(int64_t rows_min, int64_t rows_max, Part* part) except +
        void Close()


cdef extern from "engine.h" namespace "morphspark" nogil:
    cdef cppclass StageSeconds:
        double order, classify, resolve, execute, output

    cdef cppclass EpochInput:
        const Code* code
        int64_t rows
        Late late
        optional[Value] watermark
        optional[OrderKey] last_key
        uint64_t max_string_bytes
        optional[Strategy] strategy
        vector[Strategy] nested
        int64_t punctuation
        optional[uint64_t] interleaving
        int interleaved_workers
        cbool observe
        uint32_t lanes_min
        optional[int64_t] clock, last_event, until
        cbool recompute
        uint64_t draws
        int64_t wall_us
        Parts* parts

    cdef cppclass EpochResult:
        Order order
        vector[ColumnBuffers] returned
        ColumnBuffers status, reason, timestamps
        int64_t committed, aborted, unmatched
        optional[uint32_t] watermark_row
        optional[uint32_t] last_key_row
        optional[int64_t] clock, last_event
        vector[int32_t] kinds
        StageSeconds seconds
        vector[BatchReport] batches

    cdef cppclass EpochExplanation:
        cbool plannable, whole
        GraphShape shape
        vector[uint16_t] path_types
        uint32_t longest_chain_table
        string longest_chain_key
        Advice advice
        vector[uint16_t] types
        vector[uint8_t] alone
        vector[DrawnAccess] accesses

    cdef cppclass Engine:
        Status Explain(const EpochInput& input, int64_t draw_max, EpochExplanation* explanation)
        Engine(vector[TableSpec] tables, int threads) except +
        Status Execute(const EpochInput& input, EpochResult* result)
        Status Changes(uint32_t table, vector[ColumnBuffers]* columns)
        Status BeginSnapshot()
        Status ReadSnapshot(int64_t rows_max, SnapshotChunk* chunk)
        void EndSnapshot()
        void Commit() except +
        void Rollback() except +
        const Table& table(uint32_t id)
        uint64_t state_rows()
        uint64_t state_bytes(uint64_t enough)
        ThreadPool* pool()
        cbool Validate() except +


cdef extern from "bench/ledger_loop.h" namespace "morphspark::bench" nogil:
    cdef cppclass LedgerLoopResult "morphspark::bench::LedgerLoop::Result":
        ColumnBuffers status, balance
        double resolve_seconds, loop_seconds, output_seconds

    cdef cppclass LedgerLoop:
        LedgerLoop() except +
        LedgerLoopResult Run(const vector[ColumnView]& columns) except +


# Spans are awkward in Cython: these take vectors and pass spans on.
cdef extern from "python_bridge.h" namespace "morphspark::bridge" nogil:
    Status Decode(const vector[int64_t]& words, vector[string] strings, const Engine& engine, Code* out) except +
    void SetColumns(EpochInput* epoch, const vector[ColumnView]& columns)
    void SetPoll(EpochInput* epoch, cbool (*poll)() noexcept)
    Status Apply(Engine* engine, uint32_t table, const vector[ColumnView]& columns, size_t versions) except +
    void PadColumns(const Code& code, vector[ColumnView]* columns) except +
    Status ReadCommitted(Engine* engine, const vector[uint32_t]& tables,
                         vector[vector[ColumnBuffers]]* columns) except +
    ColumnBuffers GatherColumn(const ArrowArray& array, int bits, int offset_bytes, cbool identity,
                               const int64_t* order, int64_t rows, ThreadPool* pool) except +
    cbool ColumnIsCanonical(const ArrowArray& array, int bits, int offset_bytes)
    void LinkFunction(Code* code, size_t index, uintptr_t compiled, cbool (*host)(void*, UserCall*) noexcept,
                      void* context) except +
    void FailRow(UserCall* call, uint32_t row, const string& reason) except +
    void SetResult(UserCall* call, size_t at, Value value, cbool is_string) except +
    void SetDecimal(Value* value, int64_t low, int64_t high)
