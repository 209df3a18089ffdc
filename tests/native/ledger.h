// A small ledger for tests of the whole engine: transfers between accounts, and notes that come and go.
//
//   accounts[int64]  {balance: int64}                 default {100}
//   notes[string]    {text: string, count: int64}     no default
//
//   on kind == "transfer": require(accounts[from].balance >= amount); move it; return the new balance
//   on kind == "note":     insert notes[name] {text + text, amount}
//   on kind == "erase":    delete notes[name]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "assembler.h"
#include "engine.h"

namespace morphspark::testing {

enum LedgerTable : TableId { kAccountTable, kNoteTable };
inline constexpr int64_t kFirstBalance = 100;

inline std::vector<TableSpec> LedgerTables() {
  TableSpec accounts;
  accounts.key = {Kind::kInt64};
  accounts.columns = {Kind::kInt64};
  accounts.has_default = true;
  accounts.defaults = {IntValue(kFirstBalance)};
  accounts.default_text = {""};
  TableSpec notes;
  notes.key = {Kind::kString};
  notes.columns = {Kind::kString, Kind::kInt64};
  return {accounts, notes};
}

struct LedgerEvent {
  std::optional<int64_t> ts;
  std::string kind;
  std::optional<int64_t> from, to, amount;
  std::optional<std::string> name, text;
};

// Events as the columns that the program reads.
class LedgerBatch {
 public:
  explicit LedgerBatch(const std::vector<LedgerEvent>& events) : rows_(static_cast<int64_t>(events.size())) {
    Rows<int64_t> ts, from, to, amount;
    Rows<std::string> kind, name, text;
    for (const LedgerEvent& one : events) {
      ts.push_back(one.ts);
      kind.push_back(one.kind);
      from.push_back(one.from);
      to.push_back(one.to);
      amount.push_back(one.amount);
      name.push_back(one.name);
      text.push_back(one.text);
    }
    columns_.push_back(Timestamps(ts));
    columns_.push_back(Strings(kind));
    for (const auto* numbers : {&from, &to, &amount}) columns_.push_back(Int64s(*numbers));
    for (const auto* strings : {&name, &text}) columns_.push_back(Strings(*strings));
    for (const Column& column : columns_) views_.push_back(column.View());
  }

  EpochInput Input(const Code& code) const {
    return {&code, views_, rows_, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
  }

 private:
  std::vector<Column> columns_;
  std::vector<ColumnView> views_;
  int64_t rows_;
};

inline Code LedgerCode() {
  enum : uint32_t { kTs, kKind, kFrom, kTo, kAmount, kName, kText };
  Assembler assembler;
  assembler.Column(Kind::kTimestamp);
  assembler.Column(Kind::kString);
  for (int i = 0; i < 3; ++i) assembler.Column(Kind::kInt64);
  for (int i = 0; i < 2; ++i) assembler.Column(Kind::kString);
  assembler.order_columns = {kTs};
  const uint32_t out = assembler.Returned(Kind::kInt64);
  const SiteId from_site = assembler.NewSite(kAccountTable, {kFrom}), to_site = assembler.NewSite(kAccountTable, {kTo}),
               note_site = assembler.NewSite(kNoteTable, {kName});
  const Register from = assembler.NewRegister(), to = assembler.NewRegister(), amount = assembler.NewRegister(),
                 balance = assembler.NewRegister(), enough = assembler.NewRegister(), note = assembler.NewRegister(),
                 text = assembler.NewRegister();
  const auto on = [](const char* kind) -> std::vector<OnColumn> {
    return {{kKind, 0, {{Match::kString, OfString(kind)}}}};
  };
  TransactionText& transfer = assembler.NewTransaction();
  transfer.on = on("transfer");
  transfer.loads = {{amount, kAmount}};
  transfer.Row(from, from_site);
  transfer.Row(to, to_site);
  transfer.Add(Op::kReadI, balance, from, 0, {.aux = kAccountTable});
  transfer.Add(Op::kCompareI, enough, balance, amount, {.aux = static_cast<uint16_t>(Comparison::kGe)});
  transfer.Add(Op::kDecreaseI, 0, from, amount, {.aux = kAccountTable});
  transfer.Add(Op::kIncreaseI, 0, to, amount, {.aux = kAccountTable});
  transfer.Add(Op::kRequire, 0, enough);  // late, so that there is something to take back
  transfer.Add(Op::kReadI, balance, from, 0, {.aux = kAccountTable});
  transfer.Add(Op::kEmit, 0, balance, out);
  transfer.Add(Op::kStop);
  TransactionText& write = assembler.NewTransaction();
  write.on = on("note");
  write.loads = {{amount, kAmount}, {text, kText}};
  write.Row(note, note_site);
  write.Add(Op::kCheckKey, 0, note);
  write.Add(Op::kConcat, text, text, text);
  write.Add(Op::kNeed, 0, amount, 0, {.aux = kNull2});
  write.Add(Op::kInsert, 0, note, 0, {.aux = kNoteTable});
  write.Add(Op::kStore, 0, note, text, {.c = 0, .aux = kNoteTable});
  write.Add(Op::kStore, 0, note, amount, {.c = 1, .aux = kNoteTable});
  write.Add(Op::kStop);
  TransactionText& erase = assembler.NewTransaction();
  erase.on = on("erase");
  erase.Row(note, note_site);
  erase.Add(Op::kDelete, 0, note, 0, {.aux = kNoteTable});
  erase.Add(Op::kStop);
  return Assemble(assembler, LedgerTables());
}

// What a table of numbers, or of texts, holds.
struct LedgerState {
  std::map<int64_t, int64_t> accounts;
  std::map<std::string, std::pair<std::string, int64_t>> notes;

  bool operator==(const LedgerState&) const = default;
};

inline LedgerState StateOf(const Engine& engine) {
  LedgerState state;
  const Table& accounts = engine.table(kAccountTable);
  for (Slot slot : accounts.LiveSlots()) {
    state.accounts[accounts.index().IntegerKey(slot)] = Stored<Kind::kInt64>(accounts, slot, 0).i;
  }
  const Table& notes = engine.table(kNoteTable);
  for (Slot slot : notes.LiveSlots()) {
    state.notes[std::string(notes.index().BytesKey(slot).view())] = {
        std::string(Stored<Kind::kString>(notes, slot, 0).s.view()), Stored<Kind::kInt64>(notes, slot, 1).i};
  }
  return state;
}

// The same ledger in plain C++; the reason of an abort, or nothing. Events come in their order.
inline std::string Apply(const LedgerEvent& event, LedgerState* state) {
  if (!event.ts) return "null order";
  if (event.kind == "transfer") {
    if (!event.from) return "key";
    if (!event.amount) return "null1";
    const auto balance = [&](int64_t key) {
      return state->accounts.contains(key) ? state->accounts[key] : kFirstBalance;
    };
    if (!event.to) return "key";
    if (balance(*event.from) < *event.amount) return "require";
    state->accounts[*event.from] = balance(*event.from) - *event.amount;
    state->accounts[*event.to] = balance(*event.to) + *event.amount;
  } else if (event.kind == "note") {
    if (!event.name) return "key";
    if (!event.text) return "null0";
    if (!event.amount) return "null2";
    if (state->notes.contains(*event.name)) return "exists";
    state->notes[*event.name] = {*event.text + *event.text, *event.amount};
  } else if (event.kind == "erase") {
    if (!event.name) return "key";
    state->notes.erase(*event.name);
  }
  return "";
}

inline LedgerEvent RandomEvent(Random* random, int64_t ts, int64_t accounts, size_t text_max) {
  const auto number = [&](int64_t limit) -> std::optional<int64_t> {
    if ((*random)() % 50 == 0) return std::nullopt;
    return static_cast<int64_t>((*random)() % static_cast<uint64_t>(limit));
  };
  static constexpr const char* kKinds[] = {"transfer", "transfer", "transfer", "note", "erase", "unknown"};
  LedgerEvent event;
  event.ts = ts;
  event.kind = kKinds[(*random)() % 6];
  event.from = number(accounts);
  event.to = number(accounts);
  event.amount = number(80);
  // A name that is long for some, so that keys live in place and on the heap.
  if (const auto name = number(accounts)) {
    event.name = "note " + std::to_string(*name) + std::string(*name % 3 * 20, 'n');
  }
  event.text = RandomText(random, text_max);
  return event;
}

}  // namespace morphspark::testing
