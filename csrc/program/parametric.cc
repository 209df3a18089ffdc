#include "program/parametric.h"

#include <algorithm>

#include "program/signature.h"

namespace morphspark {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFFu;

using Reads = std::vector<uint32_t>;  // site uses, sorted

void Add(Reads* reads, const Reads& more) {
  Reads both;
  std::ranges::set_union(*reads, more, std::back_inserter(both));
  *reads = std::move(both);
}

// Follows values through registers, line by line: jumps lead forward, and an iteration takes no value to the next.
class Follower {
 public:
  Follower(const Code& code, const TransactionCode& transaction)
      : transaction_(transaction),
        reads_(code.registers),
        use_of_(code.registers, kNone),
        reduced_(transaction.accumulators.size()),
        collected_(transaction.collections),
        loop_of_(transaction.uses.size(), kNone) {
    for (const RowLoad& load : transaction.rows) use_of_[load.dst] = UseOf(load.site);
  }

  std::vector<ParametricRead> Follow() {
    for (uint32_t i = 0; i < transaction_.instructions.size(); ++i) Step(i, transaction_.instructions[i]);
    std::ranges::sort(found_);
    const auto repeated = std::ranges::unique(found_);
    found_.erase(repeated.begin(), repeated.end());
    std::vector<ParametricRead> all;
    for (const auto& [write, read] : found_) {
      const bool in_step = loop_of_[write] != kNone && loop_of_[write] == loop_of_[read];
      all.push_back({write, read, in_step});
    }
    return all;
  }

 private:
  // Instructions before `end` run only if a value says so.
  struct Region {
    uint32_t end;
    Reads reads;
  };

  uint32_t UseOf(SiteId site) const {
    for (uint32_t use = 0; use < transaction_.uses.size(); ++use) {
      if (transaction_.uses[use].site == site) return use;
    }
    return kNone;
  }

  void Step(uint32_t index, const Instruction& one) {
    std::erase_if(regions_, [&](const Region& region) { return region.end <= index; });
    Reads reads;
    for (const Region& region : regions_) Add(&reads, region.reads);
    verify::EachSource(one, [&](Register source) { Add(&reads, reads_[source]); });
    const uint32_t use = verify::TakesRow(one.op) ? use_of_[one.a] : kNone;
    switch (one.op) {
      case Op::kSkipUnless:
      case Op::kSkipIfNull:
        regions_.push_back({one.b, reads});
        break;
      case Op::kJump:  // behind it comes the other way of the skip that leads there
        for (Region& region : regions_) {
          if (region.end == index + 1) region.end = std::max(region.end, one.a);
        }
        break;
      case Op::kRequire:
        Add(&conditions_, reads);
        break;
      case Op::kRowOfElement:
        use_of_[one.dst] = UseOf(one.a);
        if (use_of_[one.dst] != kNone) loop_of_[use_of_[one.dst]] = one.b;
        break;
      case Op::kRowOfKey:
      case Op::kChoose:
        use_of_[one.dst] = kNone;  // known only when it runs
        break;
      case Op::kAccumulate:
        Add(&reads, reads_[one.a]);
        Add(&reduced_[one.b], reads);
        break;
      case Op::kReduce:
        Add(&reads, reduced_[one.a]);
        break;
      case Op::kCollect:
        if (use != kNone) Add(&collected_[one.b], {use});
        break;
      case Op::kCollectElements:
        if (const uint32_t of = UseOf(one.a); of != kNone) Add(&collected_[one.b], {of});
        break;
      case Op::kWindowOfRows:
        Add(&reads, collected_[one.a]);
        break;
      default:
        break;
    }
    if (use != kNone && !verify::ChangesRow(one.op)) Add(&reads, {use});
    if (use != kNone && verify::ChangesRow(one.op)) {
      Reads all = reads;
      Add(&all, conditions_);
      for (uint32_t read : all) {
        if (read != use) found_.emplace_back(use, read);
      }
    }
    verify::EachResult(one, [&](Register result) { reads_[result] = reads; });
  }

  const TransactionCode& transaction_;
  std::vector<Reads> reads_;       // by register: what its value was made from
  std::vector<uint32_t> use_of_;   // by register that holds a row
  std::vector<Reads> reduced_;     // by accumulator
  std::vector<Reads> collected_;   // by collection of rows
  std::vector<uint32_t> loop_of_;  // by use; kNone: its row is named outside of loops
  std::vector<Region> regions_;
  Reads conditions_;
  std::vector<std::pair<uint32_t, uint32_t>> found_;  // (write, read)
};

}  // namespace

std::vector<ParametricRead> FindParametricReads(const Code& code, const TransactionCode& transaction) {
  return Follower(code, transaction).Follow();
}

}  // namespace morphspark
