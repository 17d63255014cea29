// Pushes and pulls, as a server takes and answers them: of workers, and forwarded by the primaries of replicas.
// A run is recorded in the ledger of each slice, and applied at once or in its step. A reply waits, parked
// under its ticket, while the version that it wants is missing, a slice may still take the run after a move, or
// a replica is not known to have what would be said.
//
// Invariants:
// - A slice applies a run at most once, in the incarnation that the push names.
// - What slices with a replica have taken is forwarded in the same order. A replica takes what its primary
//   forwards, and refuses to go on once it is not what its primary is.
// - A reply says what is true when it is made, not when its push was applied. Nothing that the replica of a
//   slice may lack is said of it. A ticket is answered at most once.
//
// Messages of peers are untrusted: bad pushes are refused (Begin); others are answered slice by slice. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/members/server_view.h"
#include "protocol/push/server_steps.h"
#include "protocol/slices/server/slice_orders.h"

namespace leat::protocol {

class PushDesk {
 public:
  struct Ready {
    uint64_t ticket = 0;
    PushReply reply;
  };
  struct HeldValues {
    Buffer memory;
    std::span<const float> values;
  };

  PushDesk(ServerView& view, HostedSlices& slices, ReplicaForwards& forwards, ServerMoves& moves,
           SliceOrders& orders, ServerSteps& steps, PushFigures& figures)
      : view_(view),
        slices_(slices),
        forwards_(forwards),
        moves_(moves),
        orders_(orders),
        steps_(steps),
        figures_(figures) {}

  // kInvalidArgument if the request contradicts itself or the job. If `elements` is not null, it receives the
  // number of floats of payload per slice: the size by the table, whatever becomes of the push, because the
  // sender cannot know that.
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
  // The reply to a request whose slices are all applied; none: it is parked.
  std::optional<PushReply> Finish(uint64_t ticket, const PushRequest& request,
                                  std::vector<SliceReply> slices);

  // ---- forwards, as Begin and ApplyAll
  Status BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements) const;
  ForwardReply TakeForward(const ForwardRequest& request, std::span<const std::span<const float>> gradients);

  // ---- parked requests
  std::vector<Ready> TakeReady();
  void Expire(uint64_t ticket);  // ends the wait
  void Forget(uint64_t ticket);
  // The values of a slice on this server, at the version in its finished reply.
  HeldValues Values(SliceId slice, uint64_t version) const;

 private:
  struct Parked {
    uint64_t ticket = 0;
    bool expired = false;
    PushHeader request;
    std::vector<SliceReply> slices;
    std::vector<LinkNumber> numbers;  // numbers that replicas have to acknowledge
  };

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
  bool Waits(const Parked& request);
  bool Unready(const Parked& request);
  PushReply Answer(Parked request);

  ServerView& view_;
  HostedSlices& slices_;
  ReplicaForwards& forwards_;
  ServerMoves& moves_;
  SliceOrders& orders_;
  ServerSteps& steps_;
  PushFigures& figures_;
  std::vector<TakenSlice> taken_;  // slices with replicas that have taken the push
  std::vector<Parked> parked_;
};

}  // namespace leat::protocol
