// Pushes and pulls, as a server takes and answers them: of workers, and forwarded by the primaries of
// replicas. A run is recorded in the ledger of each slice, and applied at once or in its step. A reply waits,
// parked under its ticket, while the version that it wants is missing, a slice may still take the run after a
// move, or a replica is not known to have what would be said.
//
// Invariants:
// - A slice applies a run at most once, in the incarnation that the push names.
// - Pushes that a slice with a replica has taken are forwarded in the same order. A replica takes all that
//   its primary forwards, and refuses to go on once the two differ.
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

  // ---- a push is processed in three parts, so that a shell can apply each slice while it is in the cache:
  // Begin checks the header, Apply is called for each slice in order, and Finish makes the reply.
  // Begin returns kInvalidArgument if the header contradicts itself or the job; close the connection then.
  // If `elements` is not null, it receives the number of floats of payload per slice: the size by the table,
  // whatever becomes of the push, because the sender cannot know that.
  Status Begin(const PushRequest& request, std::vector<uint64_t>* elements = nullptr);
  // `gradient` is empty unless the disposition is kGradient.
  SliceReply Apply(const PushRequest& request, size_t i, std::span<const float> gradient) {
    SliceReply reply;
    ApplySlices(request, std::span(request.slices).subspan(i, 1), std::span(&gradient, 1), &reply, {});
    return reply;
  }
  // Replaces Apply for each slice if all gradients are available at once. `gradients` has one entry per
  // slice, or none if the request has no payload. Fills in `replies`. Uses ServerConfig::run_parts. `memory`
  // contains the gradients, and nobody changes it while it is referenced; empty: they are changed later.
  void ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                std::vector<SliceReply>* replies, const Buffer& memory = {});
  // A request that has to wait (version_wanted, or for replicas) gets no reply yet. It is parked under
  // `ticket`, chosen by the shell, and returned by TakeReady after the input that completes its step, or
  // after Expire.
  std::optional<PushReply> Finish(uint64_t ticket, const PushRequest& request,
                                  std::vector<SliceReply> slices);
  std::vector<Ready> TakeReady();
  // Ends the wait: the request is answered without values, and to be repeated if its run may be on one server
  // only. Ignores unknown tickets.
  void Expire(uint64_t ticket) {
    for (Parked& parked : parked_) {
      if (parked.ticket == ticket) parked.expired = slices_.signals().wake_parked = true;
    }
  }
  // Drops a parked request.
  void Forget(uint64_t ticket) {
    std::erase_if(parked_, [ticket](const Parked& parked) { return parked.ticket == ticket; });
  }
  // The values of a slice on this server, at the version in its finished reply. Updates in place avoid memory
  // that is referenced elsewhere (a checkpoint being saved, values being sent). While `memory` is held, the
  // values stay unchanged in stepped strategies, and may be partly updated in others.
  HeldValues Values(SliceId slice, uint64_t version) const;

  // ---- pushes that another server forwards, as Begin and ApplyAll take those of a worker
  Status BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements = nullptr) const;
  ForwardReply TakeForward(const ForwardRequest& request, std::span<const std::span<const float>> gradients);

 protected:
  explicit PushDesk(ServerConfig config);

  // Each concern uses those before it.
  ServerView view_;
  HostedSlices slices_;
  ReplicaForwards forwards_;
  ServerMoves moves_;
  SliceOrders orders_;
  PushFigures figures_;
  ServerSteps steps_;

 private:
  struct Parked {
    uint64_t ticket = 0;
    bool expired = false;
    PushHeader request;
    std::vector<SliceReply> slices;
    std::vector<LinkNumber> numbers;  // numbers that replicas have to acknowledge
  };

  // `gradients`: one per slice, or none; `replies` has one element per slice.
  void ApplySlices(const PushRequest& request, std::span<const SliceRef> slices,
                   std::span<const std::span<const float>> gradients, SliceReply* replies,
                   const Buffer& memory);
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

  std::vector<TakenSlice> taken_;  // slices with replicas that have taken the push
  std::vector<Parked> parked_;
};

}  // namespace leat::protocol
