#include "execute/nest.h"

#include <algorithm>
#include <atomic>

namespace morphspark {

bool Group::Has(UnitId unit) const { return nest_->memory_.group_of[unit] == number_; }

bool Group::Ready(UnitId unit) const {
  // Acquire: what was written by those that it waited for; they release it as they count down.
  return std::atomic_ref(nest_->memory_.successors.waits[unit]).load(std::memory_order_acquire) == 0;
}

bool Group::AllReady(std::span<const UnitId> units) const {
  return std::ranges::all_of(units, [&](UnitId unit) { return Ready(unit); });
}

void Group::Done(int worker, UnitId unit) const {
  Successors& successors = nest_->memory_.successors;
  for (uint32_t at = successors.first[unit]; at < successors.first[unit + 1]; ++at) {
    const UnitId next = successors.units[at];
    // Release what this unit wrote; acquire what the others wrote that `next` waited for.
    if (std::atomic_ref(successors.waits[next]).fetch_sub(1, std::memory_order_acq_rel) == 1)
      nest_->explorers_[nest_->memory_.group_of[next]]->Release(worker, next);
  }
}

void Group::FindStrata(Strata* own) const {
  const Strata& all = nest_->memory_.strata;
  own->order.Resize(all.order.size());
  own->first.assign(1, 0);
  uint32_t count = 0;
  for (uint32_t level = 0; level < all.levels(); ++level) {
    for (uint32_t at = all.first[level]; at < all.first[level + 1]; ++at) {
      if (Has(all.order[at])) own->order[count++] = all.order[at];
    }
    own->first.push_back(count);
  }
}

uint64_t NestMemory::bytes() const {
  uint64_t bytes = strata.bytes() + successors.bytes() + group_of.bytes();
  for (const ExplorerMemory& one : groups) bytes += one.bytes();
  return bytes;
}

Nest::Nest(const UnitGraph& units, std::span<const Member> members, int workers, NestMemory* memory)
    : memory_(*memory), places_(workers) {
  Stratify(units, &memory->strata);
  FindSuccessors(units, &memory->successors);
  if (memory->groups.size() < members.size()) memory->groups.resize(members.size());
  for (size_t number = 0; number < members.size(); ++number) {
    const auto [exploration, crew] = members[number];
    groups_.emplace_back(this, static_cast<uint8_t>(number));
    explorers_.push_back(MakeExplorer(exploration, units, crew, workers, &memory->groups[number], &groups_.back()));
  }
  for (int worker = 0; worker < workers; ++worker) places_[worker].group = worker % members.size();
}

Explorer::Step Nest::Next(int worker) {
  size_t& group = places_[worker].group;
  bool done = true;
  for (size_t tried = 0; tried < explorers_.size(); ++tried) {
    const Step step = explorers_[group]->Next(worker);
    if (step == Step::kWorked) return step;
    done = done && step == Step::kDone;
    group = (group + 1) % explorers_.size();
  }
  return done ? Step::kDone : Step::kIdle;
}

}  // namespace morphspark
