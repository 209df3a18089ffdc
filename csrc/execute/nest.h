// Several strategies in one batch: every type of transaction is explored in its own way ("nested").
//
// Units of all groups stand in one graph, and may wait for units of other groups. Each group has an explorer, and all
// of them share one join counter per unit: a unit is ready when its counter is zero, whoever brought it there. Workers
// go from group to group; where one has nothing to do, the next may.
//
// It always ends: strata are those of the whole graph, so a unit of the lowest stratum that is not over waits for
// nothing, and its group is not held up by a later stratum of its own.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "execute/explorer.h"
#include "execute/strategy.h"

namespace morphspark {

class Nest;

// One of the groups, as its explorer sees it.
class Group {
 public:
  Group(Nest* nest, uint8_t number) : nest_(nest), number_(number) {}

  bool Has(UnitId unit) const;
  bool Ready(UnitId unit) const;
  bool AllReady(std::span<const UnitId> units) const;
  // Counts down those that wait for it, in every group.
  void Done(int worker, UnitId unit) const;
  // This group's units of each stratum of the whole graph.
  void FindStrata(Strata* own) const;

 private:
  Nest* nest_;
  uint8_t number_;
};

// Kept from batch to batch.
struct NestMemory {
  Strata strata;
  Successors successors;
  std::deque<ExplorerMemory> groups;
  Scratch<uint8_t> group_of;  // by unit

  uint64_t bytes() const;
};

class Nest : public Explorer {
 public:
  struct Member {
    Exploration exploration;
    Crew* crew;
  };
  // `memory->group_of` says where each unit belongs: an index into `members`.
  Nest(const UnitGraph& units, std::span<const Member> members, int workers, NestMemory* memory);

  Step Next(int worker) override;

 private:
  friend class Group;

  NestMemory& memory_;
  std::deque<Group> groups_;
  std::vector<std::unique_ptr<Explorer>> explorers_;  // by group
  struct alignas(64) Place {
    size_t group = 0;
  };
  std::vector<Place> places_;  // by worker: which group it works for
};

}  // namespace morphspark
