#include "state/planned_rows.h"

#include <algorithm>
#include <stdexcept>

namespace morphspark {
namespace {

constexpr Access kInstallAhead = 16;

}  // namespace

void BatchVersions::Prepare(Graph* graph, const Order& order, const Times& times, Stamp first_stamp) {
  graph_ = graph;
  order_ = &order;
  times_ = times;
  first_stamp_ = first_stamp;
  Restart();
}

void BatchVersions::Restart() {
  const morphspark::Graph& graph = *graph_;
  const Access accesses = graph.accesses();
  next_ = accesses;
  roaming_.clear();
  roamed_.clear();
  image_.Resize(accesses);
  state_.Resize(accesses);
  source_.Resize(accesses);
  std::fill_n(state_.data(), accesses, 0);
  std::vector<uint32_t> words;
  for (const auto& table : tables_) words.push_back(table->image().words());
  uint64_t total = 0;
  for (Access access = 0; access < accesses; ++access) {
    image_[access] = static_cast<uint32_t>(total);
    if (graph.flags[access] & Graph::kWrites) total += words[graph.table[access]];
  }
  if (total > UINT32_MAX) throw std::length_error("the versions of a batch take more than 32 GiB");
  words_.Resize(total);
  for (Arena& arena : strings_) arena.Reset();
  reads_windows_ = graph.reads_windows;
  if (reads_windows_) PrepareWindows();
  listed_.store(false, std::memory_order_relaxed);   // nobody asks yet
  has_cut_.store(false, std::memory_order_relaxed);  // nobody runs yet
}

// Room for as many versions of a row as it has writes.
void BatchVersions::PrepareWindows() {
  const morphspark::Graph& graph = *graph_;
  const Access accesses = graph.accesses();
  left_.Resize(accesses);
  const auto leaves = [&](Access access) {
    return (graph.flags[access] & Graph::kWrites) && tables_[graph.table[access]]->history() != nullptr;
  };
  for (Access access = 0; access < accesses; ++access) {
    if (!leaves(access)) continue;
    const Access previous = graph.previous[access];
    left_[access].count = previous == kBase ? 1 : left_[previous].count + 1;
  }
  uint64_t total = 0;
  for (Access access = accesses; access-- > 0;) {
    if (!leaves(access)) continue;
    if (!(graph.flags[access] & Graph::kSuperseded)) {  // the last write of its row
      left_[access].area = total;
      total += uint64_t{left_[access].count} * (tables_[graph.table[access]]->history()->stride() / sizeof(uint64_t));
    }
    if (graph.previous[access] != kBase) left_[graph.previous[access]].area = left_[access].area;
  }
  areas_.Resize(total);
}

// Where each write is among those of its row; a row's last one knows where they begin.
void BatchVersions::ListWrites() {
  const morphspark::Graph& graph = *graph_;
  const Access accesses = graph.accesses();
  place_.Resize(accesses);
  first_.Resize(accesses);
  Access total = 0;
  for (Access access = 0; access < accesses; ++access) {
    if (!(graph.flags[access] & Graph::kWrites)) continue;
    const Access previous = graph.previous[access];
    place_[access] = previous == kBase ? 0 : place_[previous] + 1;
    ++total;
  }
  writes_.Resize(total);
  writers_.Resize(total);
  for (Access access = accesses; access-- > 0;) {
    if (!(graph.flags[access] & Graph::kWrites)) continue;
    // Behind the last one of a row lie those of another; `total` counts down to where this row's begin.
    if (!(graph.flags[access] & Graph::kSuperseded)) {
      const uint32_t count = place_[access] + 1;
      total -= count;
      place_[access] = total + count - 1;
      first_[access] = total;
    }
    writes_[place_[access]] = access;
    writers_[place_[access]] = graph.owner[access];
    if (graph.previous[access] != kBase) place_[graph.previous[access]] = place_[access] - 1;
  }
}

// `last` is the row's last write, and not before the task. Onlookers come in order, mostly, but the writes of a row are
// few, or else far apart: nothing is gained by a hint.
Access BatchVersions::EarlierWrite(Access last, Task task) {
  if (!listed_.load(std::memory_order_acquire)) {  // partner: the release below
    const std::lock_guard lock(listing_);
    if (!listed_.load(std::memory_order_relaxed)) ListWrites();  // relaxed: under the lock
    listed_.store(true, std::memory_order_release);
  }
  const Task* const begin = writers_.data() + first_[last];
  const Task* const end = writers_.data() + place_[last];
  const Task* const at = std::lower_bound(begin, end, task);
  return at == begin ? kBase : writes_[at - 1 - writers_.data()];
}

// A write is settled: the versions of its row are those behind the write before, and perhaps its own.
void BatchVersions::Leave(Access access, bool own) {
  const Table& table = *tables_[graph_->table[access]];
  const History* const history = table.history();
  if (history == nullptr) return;
  const Access previous = graph_->previous[access];
  Left& left = left_[access];
  const Left before =
      previous == kBase ? Left{.area = left.area, .count = 0, .first = 0, .cut = false} : left_[previous];
  left.count = before.count;
  left.first = before.first;
  left.cut = before.cut;
  const uint8_t state = state_[access];
  if (!own || !(state & kOwned)) return;
  if (state & kCut) {
    left.first = before.count;
    left.cut = true;
    has_cut_.store(true, std::memory_order_relaxed);  // with the load in has_cut
  }
  if (!(state & kExists)) return;
  const int64_t time = TimeOf(access);
  const Stamp stamp = StampOf(access);
  auto* const version =
      reinterpret_cast<uint8_t*>(areas_.data() + left.area) + uint64_t{left.count} * history->stride();
  std::memcpy(version, &time, sizeof(time));
  std::memcpy(version + sizeof(time), &stamp, sizeof(stamp));
  const std::vector<Kind>& columns = table.spec().columns;
  for (ColumnId column = 0; column < columns.size(); ++column) {
    const uint64_t* const cell = words_.data() + image_[access] + table.image().offset(column);
    std::memcpy(version + history->offset(column), cell, StoredWidth(columns[column]));
  }
  ++left.count;
}

void BatchVersions::StartFromTables() { std::fill(source_.begin(), source_.end(), kBase); }

void BatchVersions::Settle(Task task, bool committed) {
  if (!roaming_.empty() || !roamed_.empty()) [[unlikely]]
    SettleRoaming(committed);
  for (Access access = graph_->first[task]; access < graph_->first[task + 1]; ++access) {
    if (graph_->flags[access] & Graph::kWrites) Publish(access, committed);
  }
}

// Through all of them, if they are few; else by an index, which is made once for the transaction.
Access BatchVersions::FindOwn(Task task, TableId table, Slot slot, Finder* finder) const {
  const Access begin = graph_->first[task], end = graph_->first[task + 1];
  const auto find = [&](auto visit) {
    for (Access access = begin; access < end; ++access) visit(access);
    for (Access access : roaming_) visit(access);
  };
  if (!finder->indexed && end - begin + roaming_.size() <= AccessIndex::kFew) {
    Access found = kBase;
    find([&](Access access) {
      const bool same = graph_->slot[access] == slot && graph_->table[access] == table;
      if (same && !(graph_->flags[access] & Graph::kHole)) found = access;
    });
    return found;
  }
  if (!finder->indexed) {
    finder->index.Clear(end - begin + roaming_.size());
    find([&](Access access) {
      if (!(graph_->flags[access] & Graph::kHole))
        finder->index.Add(graph_->table[access], graph_->slot[access], access);
    });
    finder->indexed = true;
  }
  return finder->index.Find(table, slot);
}

Access BatchVersions::Roam(Task task, TableId table, Slot slot, Finder* finder) {
  if (const Access own = FindOwn(task, table, slot, finder); own != kBase) {
    if (!(graph_->flags[own] & (Graph::kWrites | Graph::kRoams))) AddImage(own);  // now it may write
    return own;
  }
  if (next_ >= kHandlesMax - 1) throw std::length_error("a batch has more than 2^32 accesses");
  const Access access = next_++;
  for (auto* numbers : {&graph_->slot, &graph_->owner, &graph_->previous, &image_, &source_}) numbers->Grow(next_);
  for (auto* bytes : {&graph_->flags, &state_}) bytes->Grow(next_);
  graph_->table.Grow(next_);
  graph_->slot[access] = slot;
  graph_->table[access] = static_cast<uint16_t>(table);
  graph_->owner[access] = task;
  graph_->flags[access] = 0;
  graph_->previous[access] = planner_->LastWriteBefore(*graph_, table, slot, task);
  state_[access] = 0;
  AddImage(access);
  if (finder->indexed) finder->index.Add(table, slot, access);
  return access;
}

RowHandle BatchVersions::Foreseen(Task task, TableId table, Slot slot, bool writes, Finder* finder) const {
  if (slot == kNoSlot) return kUnforeseenKey;
  Access at = finder->next;
  const bool next = graph_->first[task] <= at && at < graph_->first[task + 1] && graph_->slot[at] == slot &&
                    graph_->table[at] == table && !(graph_->flags[at] & Graph::kHole);
  if (!next) at = FindOwn(task, table, slot, finder);
  if (at == kBase || (writes && !(graph_->flags[at] & Graph::kWrites))) return kUnforeseenKey;
  finder->next = at + 1;
  return at;
}

// Makes an access one that may write, though the graph does not know it.
void BatchVersions::AddImage(Access access) {
  const uint64_t word = words_.size();
  if (word > UINT32_MAX) throw std::length_error("the versions of a batch take more than 32 GiB");
  words_.Grow(word + tables_[graph_->table[access]]->image().words());
  image_[access] = static_cast<uint32_t>(word);
  graph_->flags[access] |= Graph::kRoams;
  roaming_.push_back(access);
}

// What it wrote takes the place of what was there before, for everybody behind it.
void BatchVersions::SettleRoaming(bool committed) {
  roamed_.clear();
  for (Access access : roaming_) {
    graph_->flags[access] &= static_cast<uint8_t>(~Graph::kRoams);
    if (!committed || !(state_[access] & kOwned)) continue;
    roamed_.push_back(access);
    const Access previous = graph_->previous[access];
    if (previous == kBase) {
      InstallOne(access, access);
    } else {
      source_[previous] = access;
    }
  }
  roaming_.clear();
}

void BatchVersions::Publish(Access access, bool own) {
  const Access previous = graph_->previous[access];
  if (reads_windows_) Leave(access, own);
  if (own && (state_[access] & kOwned)) {
    source_[access] = access;
  } else {
    source_[access] = previous == kBase ? kBase : source_[previous];
  }
}

// Copies the image that the access has published; false if it has none of its own.
bool BatchVersions::Published(Access access, std::vector<uint64_t>* image) const {
  image->clear();
  if (source_[access] != access) return false;
  const uint64_t* from = words_.data() + image_[access];
  image->push_back(state_[access]);
  image->insert(image->end(), from, from + tables_[graph_->table[access]]->image().words());
  return true;
}

bool BatchVersions::PublishesSame(Access access, std::span<const uint64_t> image) const {
  if (source_[access] != access || image.empty() || image[0] != state_[access]) return false;
  if (!(state_[access] & kExists)) return true;
  const Table& table = *tables_[graph_->table[access]];
  const std::vector<Kind>& columns = table.spec().columns;
  const uint64_t* const own = words_.data() + image_[access];
  for (ColumnId column = 0; column < columns.size(); ++column) {
    const uint32_t at = table.image().offset(column);
    if (columns[column] != Kind::kString) {
      if (own[at] != image[1 + at]) return false;
      continue;
    }
    Value a, b;
    table.image().Read<Kind::kString>(own, column, &a);
    table.image().Read<Kind::kString>(image.data() + 1, column, &b);
    if (a.s.view() != b.s.view()) return false;
  }
  return true;
}

void BatchVersions::Forget(Task task) {
  for (Access access = graph_->first[task]; access < graph_->first[task + 1]; ++access) state_[access] = 0;
}

// The row that an access may be installed to.
[[gnu::always_inline]] inline void BatchVersions::PrefetchInstalled(Access access) const {
  if ((graph_->flags[access] & (Graph::kWrites | Graph::kSuperseded)) != Graph::kWrites) return;
  const RowAddresses at = tables_[graph_->table[access]]->addresses();
  const uint64_t slot = graph_->slot[access];
  PrefetchToWrite(at.headers + slot * at.header_bytes);
  PrefetchToWrite(at.cells + slot * at.cell_bytes);
}

void BatchVersions::InstallOne(Access access, Access source) {
  Table& table = *tables_[graph_->table[access]];
  table.Begin(StampOf(source));
  table.Install(graph_->slot[access], state_[source] & kExists ? words_.data() + image_[source] : nullptr);
}

void BatchVersions::LeaveVersions() {
  const auto ahead = [&](Access access) -> const History* {
    const bool leaves = access < graph_->accesses() && (graph_->flags[access] & Graph::kWrites);
    return leaves ? tables_[graph_->table[access]]->history() : nullptr;
  };
  for (Access access = 0; access < graph_->accesses(); ++access) {
    const Access next = access + kInstallAhead / 2, second = access + kInstallAhead;
    if (const History* const history = ahead(second)) history->PrefetchList(graph_->slot[second]);
    if (const History* const history = ahead(next)) history->PrefetchEnd(graph_->slot[next]);
    if (!(graph_->flags[access] & Graph::kWrites) || source_[access] != access) continue;
    Table& table = *tables_[graph_->table[access]];
    if (table.history() == nullptr) continue;
    const uint8_t state = state_[access];
    table.LeaveVersion(graph_->slot[access], state & kExists ? words_.data() + image_[access] : nullptr, state & kCut,
                       TimeOf(access), StampOf(access));
  }
}

void BatchVersions::Install() {
  const Access accesses = graph_->accesses();
  for (Access access = 0; access < accesses; ++access) {
    if (access + kInstallAhead < accesses) PrefetchInstalled(access + kInstallAhead);
    if ((graph_->flags[access] & (Graph::kWrites | Graph::kSuperseded)) != Graph::kWrites) continue;
    if (source_[access] != kBase) InstallOne(access, source_[access]);
  }
  if (std::ranges::any_of(tables_, [](const auto& table) { return table->history() != nullptr; })) LeaveVersions();
}

uint64_t BatchVersions::bytes() const {
  uint64_t bytes = image_.bytes() + state_.bytes() + source_.bytes() + words_.bytes() + left_.bytes() + areas_.bytes() +
                   place_.bytes() + first_.bytes() + writes_.bytes() + writers_.bytes();
  for (const Arena& arena : strings_) bytes += arena.reserved();
  return bytes;
}

// What the batch has left of a row lies side by side. Times only grow along it, so often nothing older is needed.
void BatchVersions::AddVersions(TableId table, ColumnId column, Slot slot, Access write, WindowReader* reader) const {
  History* const history = tables_[table]->history();
  if (write == kBase) return reader->Add(history, slot);
  const Left& left = left_[write];
  const auto* const area = reinterpret_cast<const uint8_t*>(areas_.data() + left.area);
  const uint32_t stride = history->stride();
  const VersionList list{area + uint64_t{left.first} * stride, left.count - left.first, stride};
  const bool enough = list.count > 0 && (VersionList::Time(list.at(0)) < reader->start() ||
                                         static_cast<int64_t>(list.count) >= reader->rows_most());
  if (!left.cut && !enough) reader->Add(history, slot);
  if (list.count > 0) reader->Add(list, history->offset(column));
}

void PlannedRows::Own(TableId table, RowHandle row) {
  uint8_t& state = versions_->state_[row];
  if ((state & (BatchVersions::kOwned | BatchVersions::kExists)) == (BatchVersions::kOwned | BatchVersions::kExists))
    return;
  const Access newest = Newest(row);
  const Table& stored = Stored(table);
  const Slot slot = Graph().slot[row];
  const RowImage& layout = stored.image();
  const bool exists = newest == kBase ? stored.Exists(slot) : versions_->state_[newest] & BatchVersions::kExists;
  if (!exists) {  // the first write creates it from the default
    const TableSpec& spec = stored.spec();
    for (ColumnId column = 0; column < spec.columns.size(); ++column)
      layout.Write(Image(row), column, spec.columns[column], spec.defaults[column]);
  } else if (newest == kBase) {
    stored.CopyTo(slot, Image(row));
  } else {
    std::copy_n(Image(newest), layout.words(), Image(row));
  }
  state = static_cast<uint8_t>((state & BatchVersions::kCut) | BatchVersions::kOwned | BatchVersions::kExists);
}

}  // namespace morphspark
