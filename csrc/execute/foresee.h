// Looks ahead: runs, for each transaction of a batch that computes keys, what these depend on, against the state before
// the batch. Where nothing of that changes within the batch, the rows are those that the transaction will name.
#pragma once

#include <deque>

#include "base/thread_pool.h"
#include "execute/poller.h"
#include "plan/foreseen.h"
#include "plan/graph.h"
#include "program/machine.h"

namespace morphspark {

class Foreseer {
 public:
  // Some transaction computes keys, and all that do can be looked into. Not where keys depend on rows and there are
  // functions of the user's: what was foreseen may be wrong, and then others have met what never is one by one.
  static bool CanLook(const Code& code);

  // Of the transactions at positions [begin, end). `context` has slots for rows. New keys get slots, behind the door.
  // Says nothing if the epoch was cancelled meanwhile.
  Foreseen* Look(const PlanInput& input, const BatchContext& context, int64_t begin, int64_t end, ThreadPool* pool,
                 TableDoor* door, Poller* poller);

 private:
  // A thread's share of the tasks.
  struct Part {
    ForeseenNotes notes;
    std::vector<uint32_t> rows, reads;  // by task: how many it names, and how many its keys depend on
  };
  void LookAt(const PlanInput& input, const BatchContext& context, int64_t begin, std::span<const Task> tasks,
              Poller* poller, Part* part) const;
  void Collect(const BatchContext& context);

  Foreseen foreseen_;
  std::deque<Part> parts_;
};

}  // namespace morphspark
