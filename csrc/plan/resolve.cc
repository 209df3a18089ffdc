#include "plan/resolve.h"

#include <algorithm>
#include <string>

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 13;

// The keys of one site, row by row.
class SiteKeys {
 public:
  SiteKeys(const Site& site, const Code& code, std::span<const ColumnView> columns, const Table& table)
      : site_(site), code_(code), columns_(columns), table_(table) {}

  // One key into `out`; false if it is null. `buffer` holds composite keys.
  bool Load(int64_t index, Value* out, std::string* buffer) const {
    if (site_.of_element) return columns_[site_.parts[0]].child->Load(index, out);
    if (site_.parts.size() == 1) return Part(0, index, out);
    buffer->clear();
    for (size_t part = 0; part < site_.parts.size(); ++part) {
      Value value;
      if (!Part(part, index, &value)) return false;
      AppendKeyPart(table_.spec().key[part], value, buffer);
    }
    out->s = {buffer->data(), buffer->size()};
    return true;
  }

 private:
  bool Part(size_t part, int64_t row, Value* out) const {
    const uint32_t source = site_.parts[part];
    if (!(source & kConstantPart)) return columns_[source].Load(row, out);
    const uint32_t constant = source & ~kConstantPart;
    *out = code_.constants[constant];
    return !code_.constant_null[constant];
  }

  const Site& site_;
  const Code& code_;
  std::span<const ColumnView> columns_;
  const Table& table_;
};

// Collects keys until a block is full, then finds them together.
class BlockFinder {
 public:
  BlockFinder(const KeyIndex& index, std::vector<Slot>* slots) : index_(index), slots_(*slots) {}
  ~BlockFinder() { Flush(); }

  void Add(int64_t at, const SiteKeys& keys) {
    Value key;
    if (!keys.Load(at, &key, &composites_[count_])) {
      slots_[at] = kNullKey;
      return;
    }
    where_[count_] = at;
    if (index_.integer_keys()) integers_[count_] = key.i;
    else strings_[count_] = key.s;
    if (++count_ == KeyIndex::kBlock) Flush();
  }

 private:
  void Flush() {
    Slot found[KeyIndex::kBlock];
    if (index_.integer_keys()) index_.FindBlock(integers_, count_, found);
    else index_.FindBlock(strings_, count_, found);
    for (int i = 0; i < count_; ++i) slots_[where_[i]] = found[i];
    count_ = 0;
  }

  const KeyIndex& index_;
  std::vector<Slot>& slots_;
  int count_ = 0;
  int64_t where_[KeyIndex::kBlock];
  int64_t integers_[KeyIndex::kBlock];
  Bytes strings_[KeyIndex::kBlock];
  std::string composites_[KeyIndex::kBlock];
};

// Calls visit(index) for every key of the site that a transaction of these rows needs.
template <class Visit>
void EachKey(const Site& site, std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
             const std::vector<uint8_t>& uses, int64_t begin, int64_t end, Visit visit) {
  for (int64_t row = begin; row < end; ++row) {
    if (transactions[row] == kUnmatched || !uses[transactions[row]]) continue;
    if (!site.of_element) {
      visit(row);
      continue;
    }
    const ColumnView& lists = columns[site.parts[0]];
    if (lists.IsNull(row)) continue;
    const ListRange range = lists.List(row);
    for (int64_t i = 0; i < range.size; ++i) visit(range.start + i);
  }
}

std::vector<Slot> ResolveSite(const Site& site, const std::vector<uint8_t>& uses, const Code& code,
                              std::span<const ColumnView> columns, std::span<const TransactionId> transactions,
                              Table* table, ThreadPool* pool) {
  const auto rows = static_cast<int64_t>(transactions.size());
  const bool empty_lists = site.of_element && columns[site.parts[0]].kind != Kind::kList;
  if (empty_lists) return {};
  const bool constant = std::all_of(site.parts.begin(), site.parts.end(), [](uint32_t p) { return p & kConstantPart; });
  std::vector<Slot> slots(site.of_element ? columns[site.parts[0]].child->length : rows, kNullKey);
  const SiteKeys keys(site, code, columns, *table);
  std::string composite;
  const auto find_or_add = [&](int64_t at) {
    Value key;
    if (!keys.Load(at, &key, &composite)) return kNullKey;
    return table->index().integer_keys() ? table->FindOrAdd(key.i) : table->FindOrAdd(key.s);
  };
  if (constant) {  // one key for the whole batch
    if (rows > 0) slots.assign(rows, find_or_add(0));
    return slots;
  }
  pool->For(rows, kGrain, [&](int64_t begin, int64_t end) {
    BlockFinder finder(table->index(), &slots);
    EachKey(site, columns, transactions, uses, begin, end, [&](int64_t at) { finder.Add(at, keys); });
  });
  EachKey(site, columns, transactions, uses, 0, rows, [&](int64_t at) {
    if (slots[at] == kNoSlot) slots[at] = find_or_add(at);
  });
  return slots;
}

}  // namespace

std::vector<std::vector<Slot>> ResolveKeys(const Code& code, std::span<const ColumnView> columns,
                                           std::span<const TransactionId> transactions,
                                           std::span<const std::unique_ptr<Table>> tables, ThreadPool* pool) {
  std::vector<std::vector<Slot>> slots;
  for (SiteId id = 0; id < code.sites.size(); ++id) {
    std::vector<uint8_t> uses(code.transactions.size(), 0);
    for (size_t i = 0; i < uses.size(); ++i) {
      for (SiteId used : code.transactions[i].sites) uses[i] |= used == id;
    }
    const Site& site = code.sites[id];
    slots.push_back(ResolveSite(site, uses, code, columns, transactions, tables[site.table].get(), pool));
  }
  return slots;
}

}  // namespace morphspark
