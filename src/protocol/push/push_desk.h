// Pushes, as a server takes them: of workers, and forwarded by the primaries of replicas. A run is recorded
// in the ledger of each slice, and applied at once or in its step.
//
// Invariants: a slice applies a run at most once, in the incarnation that the push names; what slices with a
// replica have taken is forwarded in the same order; a replica takes what its primary forwards, and refuses
// to go on once it is not what its primary is.
//
// Bad pushes are refused (Begin); others are answered slice by slice. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/members/server_view.h"
#include "protocol/push/push_checks.h"
#include "protocol/push/server_steps.h"
#include "protocol/slices/server/slice_orders.h"

namespace leat::protocol {

class PushDesk {
 public:
  PushDesk(ServerView& view, HostedSlices& slices, ReplicaForwards& forwards, ServerMoves& moves,
           SliceOrders& orders, ServerSteps& steps, PushFigures& figures)
      : view_(view),
        slices_(slices),
        forwards_(forwards),
        moves_(moves),
        orders_(orders),
        steps_(steps),
        figures_(figures) {}

  // `elements` as of CheckPush.
  Status Begin(const PushRequest& request, std::vector<uint64_t>* elements);
  // `gradients`: one per slice, or none; `replies` has one element per slice. `memory` contains the
  // gradients, and nobody changes it while it is referenced; empty: they are changed later.
  void Apply(const PushRequest& request, std::span<const SliceRef> slices,
             std::span<const std::span<const float>> gradients, SliceReply* replies, const Buffer& memory);
  SliceReply ApplyOne(const PushRequest& request, size_t i, std::span<const float> gradient) {
    SliceReply reply;
    Apply(request, std::span(request.slices).subspan(i, 1), std::span(&gradient, 1), &reply, {});
    return reply;
  }
  // All slices of a request. Updates of steps run together.
  void ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                std::vector<SliceReply>* replies, const Buffer& memory);
  // All slices are applied.
  void Finish(const PushRequest& request, const std::vector<SliceReply>& slices);
  // `elements` as of CheckForward.
  Status BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements) const {
    return CheckForward(slices_.job(), request, elements);
  }
  ForwardReply TakeForward(const ForwardRequest& request, std::span<const std::span<const float>> gradients);

 private:
  // A run at one slice, which is here. `agreed` as of ServerSteps::TakeLane.
  SliceOutcome Take(Slice* slice, const PushRequest& request, const SliceRef& ref,
                    std::span<const float> gradient, const ServerSteps::Step** agreed);
  void Update(Slice* slice, std::span<const float> gradient, uint64_t seen_version, float rate) {
    const uint64_t staleness = slice->version - std::min(seen_version, slice->version);
    ++slice->version;
    if (!slices_.job().config().modelled) UpdateValues(slice, gradient, staleness, rate);
    figures_.Measure(staleness);
  }
  void UpdateValues(Slice* slice, std::span<const float> gradient, uint64_t staleness, float rate);
  // Slice `i` of a forward. False if the slice is then not what its primary is.
  bool TakeForwarded(HostedSlice* hosted, const ForwardRequest& request, size_t i,
                     std::span<const float> gradient, const ServerSteps::Step** agreed);

  ServerView& view_;
  HostedSlices& slices_;
  ReplicaForwards& forwards_;
  ServerMoves& moves_;
  SliceOrders& orders_;
  ServerSteps& steps_;
  PushFigures& figures_;
  std::vector<TakenSlice> taken_;  // slices with replicas that have taken the push
};

}  // namespace leat::protocol
