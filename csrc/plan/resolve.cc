#include "plan/resolve.h"

#include <algorithm>
#include <atomic>

#include "state/key_blocks.h"

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 13;

// Everything that finding the keys of one site needs to know.
struct SiteContext {
  const Site& site;
  const Code& code;
  std::span<const ColumnView> columns;
  std::span<const TransactionId> transactions;
  int64_t first;        // rows before it are left alone
  const uint8_t* uses;  // by transaction + 1: does it use the site? [0] is for kUnmatched + 1
  Table* table;

  // The column of a key of one part; its index is a batch row, or an element of the list column.
  const ColumnView& only_column() const {
    const ColumnView& column = columns[site.parts[0]];
    return site.of_element ? *column.child : column;
  }
  // A part of a composite key; false if it is null.
  bool Part(size_t part, int64_t row, Value* out) const {
    const uint32_t source = site.parts[part];
    if (!(source & kConstantPart)) return columns[source].Load(row, out);
    const uint32_t constant = source & ~kConstantPart;
    *out = code.constants[constant];
    return !code.constant_null[constant];
  }
};

auto CompositeKeysOf(const SiteContext& context) {
  return CompositeKeys(std::span<const Kind>(context.table->spec().key),
                       [&context](size_t part, int64_t row, Value* out) { return context.Part(part, row, out); });
}

// Calls visit(index) for every key of the site that a transaction of these rows needs.
template <class Visit>
void EachKey(const SiteContext& context, int64_t begin, int64_t end, Visit visit) {
  constexpr int64_t kRows = 256;
  int64_t chosen[kRows];
  for (int64_t start = begin; start < end; start += kRows) {
    // First which rows, without a branch: whether a row's transaction uses the site is as good as random.
    int64_t count = 0;
    for (int64_t row = start; row < std::min(start + kRows, end); ++row) {
      chosen[count] = row;
      count += context.uses[static_cast<TransactionId>(context.transactions[row] + 1)];
    }
    for (int64_t i = 0; i < count; ++i) {
      if (!context.site.of_element) {
        visit(chosen[i]);
        continue;
      }
      const ColumnView& lists = context.columns[context.site.parts[0]];
      if (lists.IsNull(chosen[i])) continue;
      const ListRange range = lists.List(chosen[i]);
      for (int64_t element = 0; element < range.size; ++element) visit(range.start + element);
    }
  }
}

// Finds on all threads what is there, then adds what is not, in batch order.
template <class MakeKeys>
void FindOrAddAll(const SiteContext& context, MakeKeys make_keys, ThreadPool* pool, std::vector<Slot>* slots) {
  const auto rows = static_cast<int64_t>(context.transactions.size());
  std::atomic<bool> absent{false};
  // Rows with long lists have many keys each.
  const auto keys_each = std::max<int64_t>(static_cast<int64_t>(slots->size()) / std::max<int64_t>(rows, 1), 1);
  pool->For(rows - context.first, std::max<int64_t>(kGrain / keys_each, 1), [&](int64_t begin, int64_t end) {
    const auto keys = make_keys();
    BlockFinder finder(context.table->index(), keys, slots->data());
    EachKey(context, context.first + begin, context.first + end, [&](int64_t at) { finder.Add(at); });
    // Relaxed, with the load below: only ever set to true, and read after the pool has joined.
    if (finder.Finish()) absent.store(true, std::memory_order_relaxed);
  });
  if (!absent.load(std::memory_order_relaxed)) return;
  const auto keys = make_keys();
  EachKey(context, context.first, rows, [&](int64_t at) {
    if ((*slots)[at] != kNoSlot) return;
    typename decltype(make_keys())::Key key{};
    keys.Load(at, 0, &key);
    (*slots)[at] = context.table->FindOrAdd(key);
  });
}

void ResolveSite(const SiteContext& context, ThreadPool* pool, std::vector<Slot>* slots) {
  const Site& site = context.site;
  if (site.of_element && context.columns[site.parts[0]].kind != Kind::kList) return;  // all lists are null
  const bool constant = std::all_of(site.parts.begin(), site.parts.end(), [](uint32_t p) { return p & kConstantPart; });
  const size_t rows = context.transactions.size();
  slots->resize(site.of_element ? context.only_column().length : rows);
  const auto fill = [&](Slot slot) { std::fill(slots->begin() + context.first, slots->end(), slot); };
  fill(kNullKey);
  if (rows == static_cast<size_t>(context.first)) return;
  if (constant) {  // one key for the whole batch
    Value key;
    const bool composite = site.parts.size() > 1;
    if (!context.Part(0, context.first, &key)) return;
    Bytes bytes = key.s;
    const auto keys = CompositeKeysOf(context);
    if (composite && !keys.Load(context.first, 0, &bytes)) return;
    const bool integer = context.table->index().integer_keys();
    fill(integer ? context.table->FindOrAdd(key.i) : context.table->FindOrAdd(bytes));
  } else if (site.parts.size() > 1) {
    FindOrAddAll(context, [&] { return CompositeKeysOf(context); }, pool, slots);
  } else if (context.table->index().integer_keys()) {
    FindOrAddAll(context, [&] { return IntegerKeys{context.only_column()}; }, pool, slots);
  } else {
    FindOrAddAll(context, [&] { return StringKeys{context.only_column()}; }, pool, slots);
  }
}

// Of the transactions of events, or of triggers.
void ResolveSites(bool of_triggers, size_t first, const Code& code, std::span<const ColumnView> columns,
                  std::span<const TransactionId> transactions, std::span<const std::unique_ptr<Table>> tables,
                  ThreadPool* pool, std::vector<std::vector<Slot>>* slots) {
  slots->resize(code.sites.size());
  const size_t types = code.transactions.size() + 1;
  std::vector<uint8_t> uses(code.sites.size() * types, 0);  // by site
  std::vector<uint8_t> used(code.sites.size(), 0);
  for (size_t i = 0; i < code.transactions.size(); ++i) {
    if (code.transactions[i].is_trigger != of_triggers) continue;
    for (SiteId site : code.transactions[i].sites) uses[site * types + i + 1] = used[site] = 1;
  }
  for (SiteId id = 0; id < code.sites.size(); ++id) {
    const Site& site = code.sites[id];
    if (!used[id]) {  // whoever asks for rows ahead asks for those of all sites
      if (!site.of_element) (*slots)[id].resize(transactions.size(), kNullKey);
      continue;
    }
    const SiteContext context{site,
                              code,
                              columns,
                              transactions,
                              static_cast<int64_t>(first),
                              uses.data() + id * types,
                              tables[site.table].get()};
    ResolveSite(context, pool, &(*slots)[id]);
  }
}

}  // namespace

void ResolveKeys(const Code& code, std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
                 std::span<const std::unique_ptr<Table>> tables, ThreadPool* pool,
                 std::vector<std::vector<Slot>>* slots) {
  ResolveSites(/*of_triggers=*/false, 0, code, columns, transactions, tables, pool, slots);
}

void ResolveFirings(const Code& code, std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
                    size_t first, std::span<const std::unique_ptr<Table>> tables, ThreadPool* pool,
                    std::vector<std::vector<Slot>>* slots) {
  ResolveSites(/*of_triggers=*/true, first, code, columns, transactions, tables, pool, slots);
}

}  // namespace morphspark
