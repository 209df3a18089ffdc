#include "execute/chain_explorer.h"

#include <algorithm>
#include <atomic>

namespace morphspark {
namespace {

class ChainExplorer : public Explorer {
 public:
  ChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew, int workers,
                ChainExplorerMemory* memory)
      : graph_(operations.nodes),
        chains_(chains),
        crew_(crew),
        done_(memory->counters),
        open_(memory->open),
        next_(memory->next),
        shares_(workers) {
    done_.Resize(graph_.units);
    std::fill(done_.begin(), done_.end(), 0);
    open_.Resize(chains.rows);
    next_.Resize(chains.rows);
    std::copy_n(chains.first.begin(), chains.rows, next_.begin());
    uint64_t at = 0;
    for (int worker = 0; worker < workers; ++worker) {
      shares_[worker].begin = shares_[worker].at = at;
      for (uint32_t chain = worker; chain < chains.rows; chain += workers) open_[at++] = chain;
      shares_[worker].end = at;
    }
  }

  // As far as one chain gets, or some of its nodes. Idle only if all its chains must wait: an idle worker sleeps.
  Step Next(int worker) override {
    Share& share = shares_[worker];
    for (uint64_t left = share.end - share.begin; left > 0; --left) {
      if (share.at >= share.end) share.at = share.begin;
      const uint32_t chain = open_[share.at];
      const uint32_t end = chains_.first[chain + 1];
      const uint32_t worked = RunChain(worker, chain, end);
      if (next_[chain] == end)
        open_[share.at] = open_[--share.end];
      else if (worked < kNodesAtOnce)
        ++share.at;  // it must wait
      if (worked) return Step::kWorked;
    }
    return share.begin == share.end ? Step::kDone : Step::kIdle;
  }

 private:
  static constexpr uint32_t kNodesAtOnce = 16;

  struct alignas(64) Share {
    uint64_t begin = 0, end = 0;  // its chains that are not through, in `open_`
    uint64_t at = 0;
  };

  // How many of its nodes ran.
  uint32_t RunChain(int worker, uint32_t chain, uint32_t end) {
    uint32_t& next = next_[chain];
    uint32_t worked = 0;
    while (next < end && worked < kNodesAtOnce && Ready(chains_.nodes[next])) {
      const Node node = chains_.nodes[next++];
      crew_->Run(worker, node);
      std::atomic_ref(done_[node]).store(1, std::memory_order_release);  // with the load in Ready
      ++worked;
    }
    return worked;
  }

  bool Ready(Node node) {
    return std::ranges::all_of(graph_.Before(node), [&](Node before) {
      // Acquire what it wrote; its worker releases it in Next.
      return std::atomic_ref(done_[before]).load(std::memory_order_acquire) != 0;
    });
  }

  const UnitGraph& graph_;
  const ChainGraph& chains_;
  Crew* crew_;
  Scratch<uint32_t>& done_;  // by node
  Scratch<uint32_t>& open_;  // chains, share by share
  Scratch<uint32_t>& next_;  // by chain: where it stands in ChainGraph::nodes
  std::vector<Share> shares_;
};

}  // namespace

std::unique_ptr<Explorer> MakeChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew,
                                            int workers, ChainExplorerMemory* memory) {
  return std::make_unique<ChainExplorer>(operations, chains, crew, workers, memory);
}

}  // namespace morphspark
