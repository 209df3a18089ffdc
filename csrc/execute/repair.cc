#include "execute/repair.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "execute/rerun.h"

namespace morphspark {
namespace {

class Repairer {
 public:
  Repairer(PlannedBatch* batch, Planner* planner)
      : batch_(*batch),
        graph_(batch->graph()),
        versions_(*batch->versions()),
        planner_(*planner),
        worker_(batch, 0),
        due_(graph_.tasks, false),
        followed_(graph_.accesses(), 0) {
    worker_.Roam();
  }

  Repaired Run() {
    for (Task task : graph_.foreseen) {
      if (batch_.Unforeseen(task)) MarkDue(task);
    }
    for (; !next_.empty() && !batch_.stopped(); ++repaired_.transactions) {
      const Task task = next_.top();
      next_.pop();
      RunAgain(task);
    }
    return repaired_;
  }

 private:
  void MarkDue(Task task) {
    if (due_[task]) return;
    due_[task] = true;
    next_.push(task);
  }

  void RunAgain(Task task) {
    rerun_.Run(&batch_, &worker_, task);
    for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
      if (!(graph_.flags[access] & Graph::kWrites) || rerun_.Same(access)) continue;
      // If it had no version of its own and has none now, whoever changed the one before has followed the row.
      if (rerun_.IsOrWasRead(access)) FollowRow(access);
    }
    for (Access access : versions_.roamed()) FollowRow(access);
  }

  // The row has another version behind the access's owner: who used it since is due, up to the next that wrote it.
  void FollowRow(Access changed) {
    const Task task = graph_.owner[changed];
    const auto uses = planner_.UsesBehind(graph_, graph_.table[changed], graph_.slot[changed], task);
    if (uses.empty()) return;
    Task& followed = followed_[uses.back()];
    if (task < followed) return;
    for (Access access : uses) {
      ++repaired_.followed;
      followed = graph_.owner[access];
      MarkDue(followed);
      // Those behind it have seen what it wrote.
      if ((graph_.flags[access] & Graph::kWrites) && versions_.Source(access) == access) return;
    }
  }

  PlannedBatch& batch_;
  const Graph& graph_;
  BatchVersions& versions_;
  Planner& planner_;
  PlannedBatch::Worker worker_;
  Rerun rerun_;
  std::vector<bool> due_;  // by task: it runs again, or has
  std::priority_queue<Task, std::vector<Task>, std::greater<>> next_;
  std::vector<Task> followed_;  // by the last use of a row: up to whom it was followed; 0: nobody did
  Repaired repaired_;
};

}  // namespace

Repaired Repair(PlannedBatch* batch, Planner* planner) {
  const auto unforeseen = [&](Task task) { return batch->Unforeseen(task); };
  if (batch->stopped() || std::ranges::none_of(batch->graph().foreseen, unforeseen)) return {};
  return Repairer(batch, planner).Run();
}

}  // namespace morphspark
