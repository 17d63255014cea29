// Reductions of buckets: pieces go from member to member, as protocol::Reduction decides.
//
// All members of a group start the same buckets in the same order. A piece of a bucket that has not started
// here waits; an invalid one breaks the group.
#pragma once

#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

class BucketReductions : Concern {
 public:
  using Concern::Concern;

  void Start(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end, uint64_t bytes);
  // Takes a message that has arrived. True if it is kept.
  bool Take(const ProcessPtr& p, uint32_t m);
  // True if every member adds all contributions itself.
  bool OneShot(const RoleProcess& p) const;

  // ---- event
  void OnPieceSent(uint32_t index);

 private:
  struct Sending {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t group = 0;
    uint64_t bucket = 0;
    protocol::Hop hop;
  };

  // False if the piece does not belong to the bucket.
  bool Accept(const ProcessPtr& p, BucketRun* run, uint32_t m);
  // Executes the pending actions. The bucket, and the group, may have ended afterwards.
  void Proceed(const ProcessPtr& p, uint64_t bucket);
  void KeepContributions(RoleProcess* p, BucketRun* run);
  void Combine(RoleProcess* p, BucketRun* run, const protocol::ReduceAction& action);
  void SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const protocol::Hop& hop);
  // True if the bucket has real data rather than a modelled size.
  bool Carries(const BucketRun& run) const { return !world_.modelled && run.kind == BucketRun::Kind::kSums; }

  Slab<Sending> sendings_;
};

}  // namespace leat::sim
