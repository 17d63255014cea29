// The rounds that a member of a group makes, and the splits of its own lanes in them.
//
// Invariants: rounds follow each other without a gap, and the first one has steps after the one that the
// member holds; every own lane of the next kRoundsAhead rounds has a lease, under which its split is read.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "protocol/allreduce/group_member.h"

namespace leat::protocol {

class MemberRounds {
 public:
  struct Known {
    Round round;
    std::vector<std::vector<uint32_t>> runs;  // by lane: the run of each step
    std::map<uint32_t, uint64_t> leases;      // leases of its own lanes
    uint32_t width() const { return static_cast<uint32_t>(round.lanes.size()); }
    uint32_t RunOf(uint32_t lane, uint64_t step) const { return runs[lane][step - round.first_step]; }
  };

  // `actions`: where it adds its own; they outlive it.
  MemberRounds(bool late_labels, GroupMemberActions& actions)
      : late_labels_(late_labels), actions_(actions) {}

  bool empty() const { return rounds_.empty(); }
  const Known& front() const { return rounds_.front(); }
  // The step after the last round, for a member that holds `step`.
  uint64_t End(uint64_t step) const { return rounds_.empty() ? step : rounds_.back().round.end(); }
  bool wanted() const { return rounds_.size() < kRoundsAhead; }

  // Adds the rounds after those that are here. Returns why one cannot be made; empty: all can.
  std::string Take(const std::vector<Round>& newer, uint64_t step, size_t partitions);
  // Has the splits of this rank's lanes read, without runs that the ledger holds.
  void Prepare(uint32_t rank, uint32_t members, const Ledger& ledger);
  void PopFront();
  void Clear();

  // The split of an own lane in the first round.
  uint64_t LeaseOf(uint32_t lane) const { return rounds_.front().leases.at(lane); }
  bool IsReady(uint64_t lease) const { return ready_.at(lease); }
  void OnSplitReady(uint64_t lease);
  // Has the split read again, if it is still wanted.
  void OnSplitFailed(uint64_t lease);

 private:
  // Rounds are requested one ahead of the current one, so that its splits are ready.
  static constexpr size_t kRoundsAhead = 2;

  void Drop(Known* known);

  const bool late_labels_;
  GroupMemberActions& actions_;
  std::deque<Known> rounds_;
  std::map<uint64_t, Lease> leases_;
  std::map<uint64_t, bool> ready_;  // by lease
  uint64_t last_lease_ = 0;
};

}  // namespace leat::protocol
