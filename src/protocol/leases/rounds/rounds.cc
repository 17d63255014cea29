#include "protocol/leases/rounds/rounds.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace leat::protocol {

namespace {

using Lane = RoundMade::Lane;
using Partition = RoundInput::Partition;

class Maker {
 public:
  Maker(const StrategyConfig& strategy, const CutRules& rules, const RoundInput& material)
      : rules_(rules), material_(material), lanes_(std::max(strategy.total_lanes(), 1u)) {
    batch_ = std::clamp(rules.batch_size, 1u, Cut::kMaxEvents);
    const uint32_t run = std::clamp(rules.run, 1u, std::min(Cut::kMaxBatches, Cut::kMaxEvents / batch_));
    run_events_ = uint64_t{run} * batch_;
    const uint32_t runs = std::min(rules.split_batches, Cut::kMaxBatches) / run;
    most_ = std::clamp(runs, 1u, static_cast<uint32_t>(Cut::kMaxEvents / run_events_));
    sealed_ = std::all_of(material.partitions.begin(), material.partitions.end(),
                          [](const Partition& p) { return p.sealed; });
  }

  std::vector<Lane> Make() {
    // The oldest leftovers must be in the round.
    uint32_t length = most_;
    if (!material_.left.empty()) length = std::min(length, material_.left.front().runs.count());
    const bool shorter = sealed_ || material_.drain;
    for (; length > 1 && Fill(length, nullptr) < lanes_; --length) {
      if (!shorter) return {};
    }
    std::vector<Lane> lanes;
    if (Fill(length, &lanes) < lanes_ && !shorter) return {};
    return lanes;
  }

 private:
  // The next material of a partition: its position and the number of runs in this pass.
  struct Rest {
    Position begin;
    uint64_t end = 0;  // end of the events that may be cut now
    uint32_t runs = 0;
  };

  Rest RestOf(const Partition& p) const {
    const auto next = RestAfter(*p.passes, p.at, p.end, p.sealed);
    if (!next || next->begin.offset >= next->end) return {};
    Rest rest{next->begin, next->end, 0};
    const uint64_t there = next->end - next->begin.offset;
    uint64_t runs = there / run_events_;
    if (next->closed) {
      runs = (there + run_events_ - 1) / run_events_;
    } else if (runs > 0) {
      rest.end = rest.begin.offset + runs * run_events_;
    } else if (p.overdue) {
      runs = 1;  // whole batches, or events if there is less than a batch
      if (there >= batch_) rest.end -= there % batch_;
    }
    rest.runs = static_cast<uint32_t>(std::min<uint64_t>(runs, Cut::kMaxBatches));
    return rest;
  }

  // The number of lanes that can have `length` runs; also the lanes themselves if `lanes` is set.
  size_t Fill(uint32_t length, std::vector<Lane>* lanes) const {
    size_t filled = 0;
    for (const Leftover& left : material_.left) {
      const size_t more = std::min<size_t>(left.runs.count() / length, lanes_ - filled);
      if (lanes) Divide(left, length, more, lanes);
      filled += more;
    }
    std::vector<Partition> partitions = material_.partitions;
    while (filled < lanes_ && CutOne(length, &partitions, lanes)) ++filled;
    return filled;
  }

  static void Divide(const Leftover& left, uint32_t length, size_t count, std::vector<Lane>* lanes) {
    uint32_t run = 0;
    for (size_t i = 0; i < count; ++i) {
      RunSet assigned(left.runs.size());
      for (uint32_t taken = 0; taken < length; ++run) {
        if (!left.runs.Has(run)) continue;
        assigned.Add(run);
        ++taken;
      }
      lanes->push_back({left.cut, std::move(assigned)});
    }
  }

  bool CutOne(uint32_t length, std::vector<Partition>* partitions, std::vector<Lane>* lanes) const {
    std::optional<std::tuple<uint32_t, uint64_t, uint32_t>> least;
    Rest rest;
    for (uint32_t i = 0; i < partitions->size(); ++i) {
      const Partition& p = (*partitions)[i];
      const Rest candidate = RestOf(p);
      // In a sealed stream the least advanced partition is never skipped, otherwise it would fall behind. In
      // a live stream a partition may have nothing for a long time.
      if (candidate.runs == 0 || (candidate.runs < length && !sealed_)) continue;
      const std::tuple key(candidate.begin.epoch,
                           candidate.begin.offset - std::min(p.passes->front().begin, candidate.begin.offset),
                           i);
      if (least && *least <= key) continue;
      least = key;
      rest = candidate;
    }
    if (!least || rest.runs < length) return false;
    Partition& p = (*partitions)[std::get<2>(*least)];
    const uint64_t end = std::min(rest.begin.offset + length * run_events_, rest.end);
    const Cut cut = MakeCut(rules_, std::get<2>(*least), p.at, rest.begin, end);
    LEAT_CHECK(cut.runs() == length);
    p.at = cut.next();
    p.overdue = false;
    if (lanes) lanes->push_back({cut, RunSet(length, true)});
    return true;
  }

  const CutRules& rules_;
  const RoundInput& material_;
  size_t lanes_;
  uint32_t batch_ = 1;
  uint64_t run_events_ = 1;  // events of a full run
  uint32_t most_ = 1;        // runs of a full split
  bool sealed_ = true;
};

}  // namespace

std::optional<RoundMade> MakeRound(const StrategyConfig& strategy, const CutRules& rules, uint64_t first_step,
                                   const RoundInput& material) {
  RoundMade round;
  round.first_step = first_step;
  round.lanes = Maker(strategy, rules, material).Make();
  if (round.lanes.empty()) return std::nullopt;
  round.needed = std::min(std::max(strategy.lanes, 1u), static_cast<uint32_t>(round.lanes.size()));
  return round;
}

}  // namespace leat::protocol
