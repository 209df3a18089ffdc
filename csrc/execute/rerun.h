// Runs a transaction of a batch again, and knows what it had published before: for those that read what was taken back
// (operation_crew.h) and those that named rows which were not foreseen (repair.h).
//
// Thread safety: one per worker. Everything before the transaction is final, and nobody behind it runs that uses its
// rows.
#pragma once

#include <vector>

#include "execute/planned_batch.h"

namespace morphspark {

class Rerun {
 public:
  void Run(PlannedBatch* batch, PlannedBatch::Worker* worker, Task task) {
    const Graph& graph = batch->graph();
    versions_ = batch->versions();
    begin_ = graph.first[task];
    const Access end = graph.first[task + 1];
    before_.resize(std::max<size_t>(before_.size(), end - begin_));
    for (Access access = begin_; access < end; ++access) {
      if (!(graph.flags[access] & Graph::kWrites)) continue;
      Before& was = before_[access - begin_];
      was.source = versions_->Source(access);
      versions_->Published(access, &was.image);
    }
    versions_->Forget(task);
    for (ReturnedValues& column : *batch->context().returned) column.Clear(batch->Position(task));
    worker->Run(task);
  }

  // Of a write of the transaction that ran last: those behind it read from where they did, and find there, if it is its
  // own version, the same values.
  bool Same(Access access) const {
    const Before& was = before_[access - begin_];
    const Access source = versions_->Source(access);
    return source == was.source && (source != access || versions_->PublishesSame(access, was.image));
  }
  // Those behind it read a version of its own, then or now.
  bool IsOrWasRead(Access access) const {
    return before_[access - begin_].source == access || versions_->Source(access) == access;
  }

 private:
  struct Before {
    Access source;
    std::vector<uint64_t> image;
  };

  BatchVersions* versions_ = nullptr;
  Access begin_ = 0;
  std::vector<Before> before_;  // by access of the transaction
};

}  // namespace morphspark
