// Invariant of pushes (kPushAppliedOnce): without steps, no run is applied twice to a slice.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/ledger.h"
#include "protocol/server/server.h"

namespace leat::sim {

class PushCheck {
 public:
  explicit PushCheck(World& world) : world_(world) {}

  // An incarnation of a slice is restored with this ledger.
  void OnLoaded(SliceId slice, Incarnation incarnation, std::vector<protocol::PartitionLedger> ledger);
  void CheckApplied(const protocol::PushRequest& request, const std::vector<protocol::SliceReply>& replies);

 private:
  // The runs applied to one slice in one incarnation, by its server's replies.
  struct Applied {
    std::vector<protocol::PartitionLedger>
        loaded;  // from the checkpoint that this incarnation was restored from
    std::set<std::tuple<uint32_t, protocol::Position, uint32_t>> runs;  // partition, begin of the cut, run
  };

  World& world_;
  std::map<std::pair<SliceId, Incarnation>, Applied> applied_;
};

}  // namespace leat::sim
