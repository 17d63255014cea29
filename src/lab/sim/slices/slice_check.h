// Invariants of slices and of the pushes to them: an incarnation of a slice is updated on one server at a
// time, from where another has left it (kSlicesOneWriter), a run that a worker was told to be on a slice
// stays there through any failover of its replicas (kSlicesTold), and without steps no run is applied twice
// to a slice (kPushAppliedOnce).
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/cut.h"
#include "protocol/ledger.h"
#include "protocol/server/server.h"

namespace leat::sim {

class SliceCheck : Concern {
 public:
  using Concern::Concern;

  // An incarnation of a slice is restored with this ledger.
  void OnLoaded(SliceId slice, Incarnation incarnation, std::vector<protocol::PartitionLedger> ledger);
  void CheckApplied(const protocol::PushRequest& request, const std::vector<protocol::SliceReply>& replies);

  // The versions of a server's slices.
  std::vector<protocol::SliceRef> VersionsOf(const RoleProcess& server) const;
  // `before`: the versions of the server's slices before a push.
  void CheckWriter(const RoleProcess& p, const std::vector<protocol::SliceRef>& before);
  // The slices of a server, before a reply by which it may become the server of more.
  struct Before {
    std::vector<protocol::SliceRef> versions;
    std::vector<bool> replicas;  // by slice
  };
  Before SlicesOf(const RoleProcess& p) const;
  void CheckTakenOver(const RoleProcess& p, const Before& before);
  // Checks that runs reported to workers are on the server's slices, and on those of any server in its place.
  void CheckTold(const RoleProcess& p, const protocol::PushRequest& request,
                 const protocol::PushReply& reply);

 private:
  using SliceKey = std::pair<SliceId, Incarnation>;
  // The runs applied to one slice in one incarnation, by its server's replies.
  struct Applied {
    std::vector<protocol::PartitionLedger> loaded;  // from the checkpoint that it was restored from
    std::set<std::tuple<uint32_t, protocol::Position, uint32_t>> runs;  // partition, begin of the cut, run
  };
  struct ToldRun {
    protocol::Cut cut;
    uint32_t run = 0;
  };

  std::map<SliceKey, Applied> applied_;
  std::map<SliceKey, uint64_t> versions_;  // reached by an update, on any server
  std::map<SliceKey, std::vector<ToldRun>> told_;
};

}  // namespace leat::sim
