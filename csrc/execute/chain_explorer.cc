#include "execute/chain_explorer.h"

#include <algorithm>
#include <atomic>

namespace morphspark {
namespace {

class ChainExplorer : public Explorer {
 public:
  ChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew, int workers,
                ExplorerMemory* memory)
      : graph_(operations.nodes), chains_(chains), crew_(crew), done_(memory->counters), shares_(workers) {
    done_.Resize(graph_.units);
    std::fill(done_.begin(), done_.end(), 0);
    for (uint32_t chain = 0; chain < chains.rows; ++chain)
      shares_[chain % workers].open.push_back({chains.first[chain], chains.first[chain + 1]});
  }

  // As far as one chain gets.
  Step Next(int worker) override {
    Share& share = shares_[worker];
    if (share.open.empty()) return Step::kDone;
    if (share.at >= share.open.size()) share.at = 0;
    Chain& chain = share.open[share.at];
    bool worked = false;
    while (chain.next < chain.end && Ready(chains_.nodes[chain.next])) {
      const Node node = chains_.nodes[chain.next++];
      crew_->Run(worker, node);
      std::atomic_ref(done_[node]).store(1, std::memory_order_release);
      worked = true;
    }
    if (chain.next == chain.end) {
      chain = share.open.back();
      share.open.pop_back();
      return Step::kWorked;
    }
    ++share.at;
    return worked ? Step::kWorked : Step::kIdle;
  }

 private:
  struct Chain {
    uint32_t next, end;  // in ChainGraph::nodes
  };
  struct alignas(64) Share {
    std::vector<Chain> open;
    size_t at = 0;
  };

  bool Ready(Node node) {
    return std::ranges::all_of(graph_.Before(node), [&](Node before) {
      return std::atomic_ref(done_[before]).load(std::memory_order_acquire) != 0;
    });
  }

  const UnitGraph& graph_;
  const ChainGraph& chains_;
  Crew* crew_;
  Scratch<uint32_t>& done_;  // by node
  std::vector<Share> shares_;
};

}  // namespace

std::unique_ptr<Explorer> MakeChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew,
                                            int workers, ExplorerMemory* memory) {
  return std::make_unique<ChainExplorer>(operations, chains, crew, workers, memory);
}

}  // namespace morphspark
