# cython: language_level=3
"""The C++ core as Python objects: each method unwraps, releases the GIL, makes one call, wraps."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.exc cimport PyErr_Occurred
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector
from posix.unistd cimport getpid

from morphspark cimport _native

import pyarrow as pa

from morphspark.callee import UserFailure
from morphspark.errors import ClosedError, LateError, LimitError

cdef extern from "Python.h":
    int PyErr_CheckSignals() nogil


cdef cbool poll_signals() noexcept with gil:
    """True after Ctrl-C; the exception stays set and is raised when the call returns."""
    return PyErr_CheckSignals() != 0


cdef int raise_pending() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


cdef check(const _native.Status& status):
    """Map a status to its exception, once and for all."""
    if status.ok():
        return
    cdef _native.StatusCode code = status.code()
    if code == _native.StatusCode.kCancelled:
        raise_pending()
    message = status.message().decode()
    if code == _native.StatusCode.kLate:
        raise LateError(message)
    if code == _native.StatusCode.kLimit:
        raise LimitError(message)
    if code == _native.StatusCode.kOutOfMemory:
        raise MemoryError(message)
    raise RuntimeError(f"morphspark core: {message} (a bug: please report it)")


cdef const _native.ArrowArray* arrow_array(capsules):
    """The C struct inside what `__arrow_c_array__` returned; valid while the capsules live."""
    return <const _native.ArrowArray*> PyCapsule_GetPointer(capsules[1], "arrow_array")


cdef view_columns(arrays, kinds, list keep, vector[_native.ColumnView]* views):
    """Look into Arrow arrays without copying; `keep` holds what must outlive the views."""
    cdef _native.ColumnView* view
    cdef _native.Kind own, inside
    views.resize(len(arrays))
    for index, (array, (kind, element)) in enumerate(zip(arrays, kinds)):
        capsules = array.__arrow_c_array__()
        keep.append(capsules)
        view = &views.at(index)
        own, inside = <_native.Kind> <int> kind, <_native.Kind> <int> element
        check(_native.ViewColumn(arrow_array(capsules)[0], own, inside, view))


cdef export(_native.ColumnBuffers column, arrow_type):
    """Hand a column's memory over to pyarrow."""
    cdef _native.ArrowArray array
    _native.ExportColumn(move(column), &array)
    return pa.Array._import_from_c(<uintptr_t> &array, arrow_type)


cdef export_all(vector[_native.ColumnBuffers]& columns, arrow_types):
    cdef size_t index
    arrays = []
    for index, arrow_type in enumerate(arrow_types):
        arrays.append(export(move(columns[index]), arrow_type))
    return arrays


cdef export_rows(const vector[uint32_t]& rows):
    cdef int64_t[::1] view
    import numpy as np

    numbers = np.empty(rows.size(), dtype=np.int64)
    view = numbers
    cdef size_t index
    with nogil:
        for index in range(rows.size()):
            view[index] = rows[index]
    firings = numbers == 0xFFFFFFFF  # no row of the batch
    return pa.array(numbers, mask=firings) if firings.any() else pa.array(numbers)


cdef _native.Value to_value(value, int kind, vector[string]* text):
    """A Python value (see values.py) for the core; strings live in `text`, which must not grow afterwards."""
    cdef _native.Value result
    _native.SetDecimal(&result, 0, 0)
    if kind == 4:
        text.push_back(value.encode())
        result.s.data = text.back().data()
        result.s.size = text.back().size()
    elif kind == 6:
        low = value & 0xFFFFFFFFFFFFFFFF
        _native.SetDecimal(&result, low - (1 << 64) if low >= 1 << 63 else low, value >> 64)
    elif kind == 3:
        (<double*> &result)[0] = value
    else:
        result.i = value
    return result


cdef cbool call_user(void* context, _native.UserCall* call) noexcept with gil:
    """Run a user function (a LinkedFunction) for all rows of a call; False if the epoch must end."""
    cdef LinkedFunction function = <LinkedFunction> context
    cdef uint32_t row
    try:
        if function.callee.vector and call.rows > 1 and answer_all(function, call):
            return True
        for row in range(call.rows):
            answer_row(function, call, row)
        return True
    except BaseException as error:
        function.callee.interrupt = error
        return False


cdef bint answer_all(LinkedFunction function, _native.UserCall* call) except -1:
    """False if the call failed: then nobody knows which rows did."""
    cdef const int64_t[::1] found
    cdef Py_ssize_t index, rows = call.rows
    words = []
    for index in range(len(function.given)):
        words.append(PyByteArray_FromStringAndSize(<const char*> (call.low + index * rows), 8 * rows))
    results = function.callee.call_all(rows, words)
    if results is None:
        return False
    for index in range(len(function.results)):
        found = results[index]
        memcpy(call.result_low + index * rows, &found[0], 8 * rows)
    return True


cdef answer_row(LinkedFunction function, _native.UserCall* call, uint32_t row):
    cdef vector[string] text
    cdef size_t at
    given = [argument(call, index * call.rows + row, kind) for index, kind in enumerate(function.given)]
    try:
        results = function.callee.call(given)
    except UserFailure as failure:
        _native.FailRow(call, row, failure.reason.encode())
        return
    for index, (value, kind) in enumerate(zip(results, function.results)):
        at = index * call.rows + row
        call.result_null[at] = value is None
        if value is not None:
            text.clear()
            _native.SetResult(call, at, to_value(value, kind, &text), kind == 4)


cdef array_of(const char* values, int64_t count, int kind):
    """Values of a window, as tables hold them."""
    cdef const _native.Bytes* texts = <const _native.Bytes*> values
    cdef int64_t index
    if kind == 1:
        return [values[index] != 0 for index in range(count)]
    if kind == 3:
        return [(<const double*> values)[index] for index in range(count)]
    if kind == 4:
        return [texts[index].data[:texts[index].size].decode() for index in range(count)]
    return [(<const int64_t*> values)[index] for index in range(count)]


cdef argument(const _native.UserCall* call, size_t at, int kind):
    """A value of values.py."""
    if kind >= 16:
        return array_of(<const char*> <uintptr_t> call.low[at], call.high[at], kind - 16)
    if kind == 4:
        return (<const char*> <uintptr_t> call.low[at])[:call.high[at]].decode()
    if kind == 6:
        return <object> call.high[at] << 64 | <uint64_t> call.low[at]
    if kind == 3:
        return (<const double*> call.low)[at]
    return call.low[at] != 0 if kind == 1 else call.low[at]


cdef class LinkedFunction:
    """A callee, and the kinds of its values."""

    cdef object callee
    cdef list given, results

    def __cinit__(self, callee, given, results):
        self.callee = callee
        self.given = given
        self.results = results


cdef fill_spec(_native.TableSpec* spec, keys, columns, default, kept):
    cdef vector[string] text
    for kind in keys:
        spec.key.push_back(<_native.Kind> <int> kind)
    for kind in columns:
        spec.columns.push_back(<_native.Kind> <int> kind)
    if kept is not None:
        spec.keeps_versions = True
        spec.history.span, spec.history.rows, gaps, spec.history.limit = kept
        spec.history.gaps = gaps
    spec.has_default = default is not None
    if default is None:
        return
    spec.default_text.resize(len(columns))
    for index, (value, kind) in enumerate(zip(default, columns)):
        text.clear()
        spec.defaults.push_back(to_value(value, kind, &text))
        if text.size():
            spec.default_text[index] = text[0]  # the table points its default there


cdef _native.Strategy to_strategy(numbers):
    cdef _native.Strategy strategy
    strategy.scheme = <_native.Scheme> (<int> numbers[0])
    strategy.exploration = <_native.Exploration> (<int> numbers[1])
    strategy.unit = <_native.Unit> (<int> numbers[2])
    strategy.abort = <_native.Abort> (<int> numbers[3])
    return strategy


cdef from_strategy(const _native.Strategy& strategy):
    return <int> strategy.scheme, <int> strategy.exploration, <int> strategy.unit, <int> strategy.abort


cdef decision_inputs(_native.DecisionInputs* inputs):
    """What `auto` decided by, see batch_statistics.h; costs are of one access. None: nobody looked.

    `seen` was counted in the same sample and decides nothing: it tells people what the batch is like.
    """
    cdef _native.BatchStatistics* found = &inputs.statistics
    if found.sample == 0:
        return None
    each = found.accesses / found.sample if found.sample else 0.0
    planning = {name: inputs.costs.Planning(<_native.Unit> unit) * 1e9 for unit, name in enumerate("fctv")}
    dispatch = {name: inputs.costs.Dispatch(<_native.Unit> unit) * 1e9 for unit, name in enumerate("fct")}
    seen = {
        "td": found.td, "pd": found.pd, "ld": found.ld, "degrees": [found.degrees[i] for i in range(4)],
        "degree_max": found.degree_max, "same_row": found.same_row, "distinct_rows": found.distinct_rows,
        "cyclic": found.cyclic,
    }
    return {
        "sample": found.sample, "look_ms": found.seconds * 1e3, "accesses_each": each,
        "transaction_span": found.transaction_span, "operation_span": found.operation_span,
        "chain_span": found.chain_span, "may_cut": found.may_cut, "lanes": found.lanes, "aborts": found.aborts,
        "serial_ns": inputs.costs.serial * 1e9, "planning_ns": planning, "dispatch_ns": dispatch,
        "barrier_ns": inputs.costs.barrier * 1e9, "lanes_gain": inputs.costs.lanes_gain, "seen": seen,
    }


cdef fill_input(_native.EpochInput* epoch, vector[_native.ColumnView]* views, vector[string]* text, list keep,
                Program program, given):
    """What an epoch is; `views`, `text` and `keep` must live as long as it is used."""
    (arrays, rows, late, watermark, last_key, times, moment, max_string_bytes, nested, strategy, punctuation,
     interleaving, observe) = given
    cdef _native.OrderKey key
    view_columns(arrays, program.kinds, keep, views)
    _native.PadColumns(program.code[0], views)
    _native.SetColumns(epoch, views[0])
    clock, last_event, until, recompute = times
    epoch.recompute = recompute
    epoch.draws, epoch.wall_us = moment
    if clock is not None:
        epoch.clock = <int64_t> clock
    if last_event is not None:
        epoch.last_event = <int64_t> last_event
    if until is not None:
        epoch.until = <int64_t> until
    _native.SetPoll(epoch, poll_signals)
    epoch.code = program.code
    epoch.rows = rows
    epoch.late = <_native.Late> (<int> late)
    epoch.max_string_bytes = max_string_bytes
    if strategy is not None:
        epoch.strategy = to_strategy(strategy)
    for one in nested:
        epoch.nested.push_back(to_strategy(one))
    epoch.observe = observe
    epoch.punctuation = punctuation
    if interleaving is not None:
        epoch.interleaving = <uint64_t> interleaving[0]
        epoch.interleaved_workers = interleaving[1]
        epoch.lanes_min = 1  # tests are small
    text.reserve(1 + len(program.order_kinds))
    if watermark is not None:
        epoch.watermark = to_value(watermark, program.order_kinds[0], text)
    if last_key is not None:
        for part, kind in zip(last_key, program.order_kinds):
            key.parts.push_back(to_value(part, kind, text))
        epoch.last_key = key


cdef class Engine:
    """Tables and epochs. Not thread safe but for `tables`; the Python face locks."""

    cdef _native.Engine* engine
    cdef long readers  # threads that are in `tables`; the last of them frees what was closed
    cdef long process
    cdef readonly long commits

    def __cinit__(self, tables, int threads):
        """tables: (key kinds, column kinds, default values or None, what versions are kept or None) each."""
        cdef vector[_native.TableSpec] specs
        specs.resize(len(tables))
        for index, (keys, columns, default, kept) in enumerate(tables):
            fill_spec(&specs.at(index), keys, columns, default, kept)
        self.engine = new _native.Engine(specs, threads)
        self.process = getpid()
        self.commits = 0
        self.readers = 0

    def __dealloc__(self):
        self._free()

    def close(self):
        self._free()

    cdef _free(self):
        # After a fork the child has the engine's memory but not its threads: joining them would wait for ever.
        cdef _native.Engine* engine = self.engine
        self.engine = NULL
        if engine != NULL and getpid() == self.process and self.readers == 0:
            with nogil:
                del engine

    def apply(self, uint32_t table, arrays, kinds, size_t versions):
        """Rows as they shall be: key parts, value columns, so many columns that only versions have and, if there is one
        more, whether a row is deleted."""
        cdef vector[_native.ColumnView] views
        cdef _native.Status status
        keep = []
        view_columns(arrays, kinds, keep, &views)
        with nogil:
            status = _native.Apply(self.engine, table, views, versions)
        check(status)

    def execute(self, Parts parts, Program program, *given):
        """Run an epoch: an `Epoch`. Nothing changed if it raises. `parts`: who takes results early, or None."""
        cdef vector[_native.ColumnView] views
        cdef _native.EpochInput epoch
        cdef vector[string] text
        cdef _native.Status status
        cdef Epoch result = Epoch.__new__(Epoch)
        keep = []
        fill_input(&epoch, &views, &text, keep, program, given)
        if parts is not None:
            epoch.parts = parts.parts
        with nogil:
            status = self.engine.Execute(epoch, &result.result)
        program.raise_interrupt()
        check(status)
        return result

    def explain(self, int64_t draw_max, Program program, *given):
        """What an epoch's graph looks like; takes what `execute` takes and changes nothing."""
        cdef vector[_native.ColumnView] views
        cdef _native.EpochInput epoch
        cdef vector[string] text
        cdef _native.Status status
        cdef _native.EpochExplanation found
        cdef _native.DrawnAccess access
        cdef size_t index
        keep = []
        fill_input(&epoch, &views, &text, keep, program, given)
        with nogil:
            status = self.engine.Explain(epoch, draw_max, &found)
        check(status)
        accesses = []
        for index in range(found.accesses.size()):
            access = found.accesses[index]
            accesses.append((access.task, access.table, access.writes, access.previous, list(access.parametric),
                             access.key))
        return {
            "plannable": found.plannable,
            "whole": found.whole,
            "transactions": found.shape.transactions,
            "operations": found.shape.operations,
            "reads": found.shape.reads,
            "writes": found.shape.writes,
            "td": found.shape.td,
            "pd": found.shape.pd,
            "ld": found.shape.ld,
            "roamers": found.shape.roamers,
            "foreseen": found.shape.foreseen,
            "windows": found.shape.windows,
            "aliases": found.shape.aliases,
            "chains": found.shape.chains,
            "merged_chains": found.shape.merged_chains,
            "longest_chain": found.shape.longest_chain,
            "longest_chain_row": (found.longest_chain_table, found.longest_chain_key),
            "span": found.shape.span,
            "transaction_span": found.shape.transaction_span,
            "critical_path": list(zip(found.shape.critical_path, found.path_types, strict=True)),
            "strata": list(found.shape.strata),
            "degrees": list(found.shape.degrees),
            "strategy": from_strategy(found.advice.strategy),
            "why": <int> found.advice.why,
            "batch": found.advice.transactions,
            "predicted_ms": found.advice.predicted * 1e3,
            "inputs": decision_inputs(&found.advice.inputs),
            "types": list(found.types),
            "alone": list(found.alone),
            "accesses": accesses,
        }

    def changes(self, uint32_t table, arrow_types):
        """The rows that the executed epoch changed: one array per key part and value column, and one of deleted."""
        cdef vector[_native.ColumnBuffers] columns
        cdef _native.Status status
        with nogil:
            status = self.engine.Changes(table, &columns)
        check(status)
        return export_all(columns, arrow_types)

    def begin_snapshot(self):
        check(self.engine.BeginSnapshot())

    def snapshot_chunk(self, int64_t rows_max, arrow_types):
        """A table's number and some of its rows; `arrow_types` are those of every table. None: all were read."""
        cdef _native.SnapshotChunk chunk
        cdef _native.Status status
        with nogil:
            status = self.engine.ReadSnapshot(rows_max, &chunk)
        check(status)
        return (chunk.table, export_all(chunk.columns, arrow_types[chunk.table])) if chunk.rows else None

    def end_snapshot(self):
        self.engine.EndSnapshot()

    def commit(self):
        with nogil:  # a reader may have to leave first
            self.engine.Commit()
        self.commits += 1

    def rollback(self):
        with nogil:
            self.engine.Rollback()

    def tables(self, tables, arrow_types):
        """All committed rows of some tables, all of one moment: one array per key part and value column of each.

        From any thread, also while an epoch runs or the engine is closed.
        """
        cdef _native.Engine* engine = self.engine
        cdef vector[uint32_t] wanted = tables
        cdef vector[vector[_native.ColumnBuffers]] columns
        cdef _native.Status status
        if engine == NULL:
            raise ClosedError("the engine is closed; open a new one with app.open()")
        self.readers += 1
        try:
            with nogil:
                status = _native.ReadCommitted(engine, wanted, &columns)
        finally:
            self.readers -= 1
            if self.engine == NULL and self.readers == 0:  # closed meanwhile
                with nogil:
                    del engine
        check(status)
        return [export_all(columns[index], kinds) for index, kinds in enumerate(arrow_types)]

    def gather(self, array, int bits, int offset_bytes, order):
        """A column in another order, as canonical Arrow; `order` is None or int64 row numbers."""
        cdef const int64_t[::1] numbers
        cdef const int64_t* first = NULL
        cdef int64_t rows = 0
        cdef cbool identity = order is None
        cdef const _native.ArrowArray* source
        cdef _native.ColumnBuffers column
        capsules = array.__arrow_c_array__()
        source = arrow_array(capsules)
        if identity and _native.ColumnIsCanonical(source[0], bits, offset_bytes):
            return array  # no copy
        if not identity:
            numbers = order
            rows = numbers.shape[0]
            if rows:
                first = &numbers[0]
        with nogil:
            column = _native.GatherColumn(source[0], bits, offset_bytes, identity, first, rows, self.engine.pool())
        return export(move(column), array.type)

    def state_size(self, uint64_t enough):
        return self.engine.state_rows(), self.engine.state_bytes(enough)

    def validate(self):
        """For tests: every structure's invariants hold."""
        return self.engine.Validate()


cdef class Program:
    """A compiled program; belongs to the tables of one engine."""

    cdef _native.Code* code
    cdef readonly list kinds
    cdef readonly list order_kinds
    cdef readonly list functions
    cdef list linked  # the code points to them

    def __cinit__(self, Engine engine, words, strings, kinds, order_kinds, functions):
        """functions: (callee, kinds of its arguments, kinds of its results) each, in the order of the code."""
        cdef vector[int64_t] encoded = words
        cdef vector[string] texts = strings
        self.kinds = list(kinds)
        self.order_kinds = list(order_kinds)
        self.code = new _native.Code()
        check(_native.Decode(encoded, move(texts), engine.engine[0], self.code))
        self.functions = [callee for callee, _, _ in functions]
        self.linked = [LinkedFunction(*one) for one in functions]
        for index, one in enumerate(self.linked):
            _native.LinkFunction(self.code, index, self.functions[index].address, call_user, <void*> one)

    cdef raise_interrupt(self):
        """What ended the epoch from inside of a user function."""
        for callee in self.functions:
            if callee.interrupt is not None:
                error, callee.interrupt = callee.interrupt, None
                raise error

    def __dealloc__(self):
        del self.code


cdef class Parts:
    """Results of batches that have ended, for a thread that takes them while the epoch executes."""

    cdef _native.Parts* parts

    def __cinit__(self, cbool patient):
        self.parts = new _native.Parts(patient)

    def __dealloc__(self):
        del self.parts

    def next(self, int64_t rows_min, int64_t rows_max, returned_types, timestamp_type):
        """(first position, how many, rows of the batch or None: as they came, returned columns, status, reason,
        timestamps); waits. None: there are no more. A column whose type is None is not taken."""
        cdef _native.Part part
        cdef cbool more
        cdef size_t index
        with nogil:
            more = self.parts.Next(rows_min, rows_max, &part)
        if not more:
            return None
        returned = []
        for index, kind in enumerate(returned_types):
            returned.append(None if kind is None else export(move(part.returned[index]), kind))
        return (
            part.begin,
            part.length,
            None if part.identity else export_rows(part.rows),
            returned,
            export(move(part.status), pa.string()),
            export(move(part.reason), pa.string()),
            None if timestamp_type is None else export(move(part.timestamps), timestamp_type),
        )

    def close(self):
        """No more parts, for good; waits for one that is being taken."""
        with nogil:
            self.parts.Close()


cdef class Epoch:
    """What came of an epoch; each column can be taken once."""

    cdef _native.EpochResult result

    def order(self):
        return None if self.result.order.identity else export_rows(self.result.order.rows)

    def kinds(self):
        """The number of the transaction that ran at each position, or -1."""
        import numpy as np

        cdef int32_t[::1] view
        cdef size_t index
        numbers = np.empty(self.result.kinds.size(), dtype=np.int32)
        view = numbers
        for index in range(self.result.kinds.size()):
            view[index] = self.result.kinds[index]
        return numbers

    def clock(self):
        return self.result.clock.value() if self.result.clock.has_value() else None

    def last_event(self):
        return self.result.last_event.value() if self.result.last_event.has_value() else None

    def diverted(self):
        return export_rows(self.result.order.diverted) if self.result.order.diverted.size() else None

    def counts(self):
        return {
            "committed": self.result.committed,
            "aborted": self.result.aborted,
            "unmatched": self.result.unmatched,
            "late": self.result.order.late,
        }

    def rows(self):
        return self.result.status.length

    def returned(self, size_t index, arrow_type):
        return export(move(self.result.returned[index]), arrow_type)

    def status(self):
        return export(move(self.result.status), pa.string())

    def reason(self):
        return export(move(self.result.reason), pa.string())

    def timestamps(self, arrow_type):
        return export(move(self.result.timestamps), arrow_type)

    def watermark_row(self):
        return self.result.watermark_row.value() if self.result.watermark_row.has_value() else None

    def last_key_row(self):
        return self.result.last_key_row.value() if self.result.last_key_row.has_value() else None

    def batches(self):
        """How each batch of the epoch was run: see batch_report.h; times in milliseconds."""
        cdef _native.BatchReport one
        cdef size_t index
        reports = []
        for index in range(self.result.batches.size()):
            one = self.result.batches[index]
            reports.append({
                "strategy": from_strategy(one.strategy),
                "why": one.why,
                "inputs": decision_inputs(&one.inputs),
                "batches": one.batches,
                "events": one.transactions - one.not_due,
                "aborted": one.aborted,
                "not_due": one.not_due,
                "predicted_ms": one.predicted * 1e3,
                "measured_ms": one.seconds * 1e3,
                "operations": one.accesses,
                "onlookers": one.onlookers,
                "dependencies": one.dependencies,
                "units": one.units,
                "chunk": one.chunk,
                "strata": one.levels,
                "redone": one.redone,
                "transitions": {f"T{number}": one.transition(number) for number in range(1, 7)},
                "threads": one.workers,
                "clock": {
                    "plan_ms": one.plan * 1e3,
                    "construct_ms": one.construct * 1e3,
                    "explore_ms": one.explore * 1e3,
                    "redo_ms": one.redo * 1e3,
                    "install_ms": one.install * 1e3,
                },
                "waiting_ms": one.waiting * 1e3,
                "in_units_ms": one.useful * 1e3 if one.useful > 0 else None,  # None: not observed
                "graph_bytes": one.graph_bytes,
                "version_bytes": one.version_bytes,
            })
        return reports

    def seconds(self):
        cdef _native.StageSeconds* seconds = &self.result.seconds
        return {
            "order": seconds.order,
            "classify": seconds.classify,
            "resolve": seconds.resolve,
            "execute": seconds.execute,
            "output": seconds.output,
        }


cdef class LedgerLoop:
    """Streaming Ledger as a hand-written C++ loop, for `morphspark bench engine` only."""

    cdef unique_ptr[_native.LedgerLoop] loop

    def __cinit__(self):
        self.loop.reset(new _native.LedgerLoop())

    def run(self, arrays, kinds):
        """Seven columns in; the status and balance columns, and the seconds of each stage, out."""
        cdef vector[_native.ColumnView] views
        cdef _native.LedgerLoopResult result
        keep = []
        view_columns(arrays, kinds, keep, &views)
        with nogil:
            result = self.loop.get().Run(views)
        seconds = {
            "resolve": result.resolve_seconds,
            "execute": result.loop_seconds,
            "output": result.output_seconds,
        }
        return export(move(result.status), pa.string()), export(move(result.balance), pa.int64()), seconds
