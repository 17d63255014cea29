// Forwards between servers for the replicas of their slices, with the faults of the data plane.
//
// Forwards of a link arrive in order, and so do their acknowledgements. A link that has lost one loses all
// later ones, until the server gives it up.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "protocol/actions.h"

namespace leat::sim {

class ForwardMessages : Concern {
 public:
  using Concern::Concern;

  // Executes what a server's machine wants to forward.
  void Advance(const ProcessPtr& p);
  void Execute(const ProcessPtr& p, const protocol::Forward& a);
  void Execute(const ProcessPtr& p, const protocol::DropLink& a);

  // Pushes that replicas have taken.
  uint64_t forwards() const { return forwards_; }

 private:
  // Forwarded pushes from one server to another.
  struct ForwardLink {
    uint64_t link = 0, acknowledged = 0;
    Time there{0}, back{0};
    bool broken = false;
  };

  void Arrive(const ProcessPtr& from, const ProcessPtr& to, const protocol::Forward& a,
              const std::vector<std::vector<float>>& gradients);
  void Fail(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link);
  // The server of the slices, or that of their replicas, may die here. True if it is the one that acts: it
  // does nothing more.
  bool DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica);
  // Whether the network loses a message between the two.
  bool Lost(NodeId a, NodeId b);

  std::map<std::pair<uint32_t, NodeId>, ForwardLink> forward_links_;  // by slot and the other server
  uint64_t forwards_ = 0;
};

}  // namespace leat::sim
