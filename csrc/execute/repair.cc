#include "execute/repair.h"

#include <functional>
#include <queue>
#include <vector>

namespace morphspark {
namespace {

class Repairer {
 public:
  Repairer(PlannedBatch* batch, const Planner& planner)
      : batch_(*batch),
        graph_(batch->graph()),
        versions_(*batch->versions()),
        planner_(planner),
        worker_(batch, 0),
        due_(graph_.tasks, false) {
    worker_.Roam();
  }

  int64_t Run(TableDoor* door) {
    for (Task task : graph_.foreseen) {
      if (batch_.Unforeseen(task)) MarkDue(task);
    }
    int64_t repaired = 0;
    for (; !next_.empty() && !batch_.stopped(); ++repaired) {
      const Task task = next_.top();
      next_.pop();
      RunAgain(task);
      if (door != nullptr && door->wanted()) door->LetIn();
    }
    return repaired;
  }

 private:
  struct Before {
    Access source;
    std::vector<uint64_t> image;
  };

  void MarkDue(Task task) {
    if (due_[task]) return;
    due_[task] = true;
    next_.push(task);
  }

  void RunAgain(Task task) {
    const Access begin = graph_.first[task], end = graph_.first[task + 1];
    before_.resize(std::max<size_t>(before_.size(), end - begin));
    for (Access access = begin; access < end; ++access) {
      if (!(graph_.flags[access] & Graph::kWrites)) continue;
      before_[access - begin].source = versions_.Source(access);
      versions_.Published(access, &before_[access - begin].image);
    }
    versions_.Forget(task);
    for (ReturnedValues& column : *batch_.context().returned) column.Clear(batch_.Position(task));
    worker_.Run(task);
    for (Access access = begin; access < end; ++access) {
      if (!(graph_.flags[access] & Graph::kWrites)) continue;
      const Before& was = before_[access - begin];
      const bool own = versions_.Published(access, &image_);
      if (versions_.Source(access) != was.source || (own && image_ != was.image)) FollowRow(access);
    }
    for (Access access : versions_.roamed()) FollowRow(access);
  }

  // The row has another version behind the access's owner.
  void FollowRow(Access changed) {
    users_.clear();
    const Task task = graph_.owner[changed];
    planner_.EachUseBehind(graph_, graph_.table[changed], graph_.slot[changed], task,
                           [&](Access access) { users_.push_back(access); });
    for (auto access = users_.rbegin(); access != users_.rend(); ++access) {
      MarkDue(graph_.owner[*access]);
      // Those behind it have seen what it wrote.
      if ((graph_.flags[*access] & Graph::kWrites) && versions_.Source(*access) == *access) return;
    }
  }

  PlannedBatch& batch_;
  const Graph& graph_;
  BatchVersions& versions_;
  const Planner& planner_;
  PlannedBatch::Worker worker_;
  std::vector<bool> due_;  // by task: it runs again, or has
  std::priority_queue<Task, std::vector<Task>, std::greater<>> next_;
  std::vector<Before> before_;  // by access of the transaction: what it had published
  std::vector<uint64_t> image_;
  std::vector<Access> users_;
};

}  // namespace

int64_t Repair(PlannedBatch* batch, const Planner& planner, TableDoor* door) {
  const auto unforeseen = [&](Task task) { return batch->Unforeseen(task); };
  if (batch->stopped() || std::ranges::none_of(batch->graph().foreseen, unforeseen)) return 0;
  return Repairer(batch, planner).Run(door);
}

}  // namespace morphspark
