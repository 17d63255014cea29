// The parameter server as a state machine: slices with their optimizer state and ledgers.
//
// It uses no sockets, threads or clock: a shell or the simulator passes messages in and executes the returned
// actions. Not thread-safe. Values are returned as spans of the slices' memory, valid until the next call
// that changes them.
//
// The server itself only routes: each concern has its part of the heartbeat, takes its part of the reply, and
// says what follows. Slices, moves and replicas are in protocol/slices/server/, pushes and steps in
// protocol/push/, saves in protocol/checkpoints/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/checkpoints/server_checkpoints.h"
#include "protocol/push/ledger_reports.h"
#include "protocol/push/push_desk.h"
#include "protocol/slices/server/slice_orders.h"

namespace leat::protocol {

using ServerAction = std::variant<LoadSlices, SaveShard, StopRole>;

class Server {
 public:
  using Ready = PushDesk::Ready;
  using HeldValues = PushDesk::HeldValues;

  explicit Server(ServerConfig config);

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0);
  // ---- control plane
  ServerHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval: slices became live or failed, or a
  // shard is written, and the coordinator does not know yet.
  bool HeartbeatUrgent() const { return slices_.signals().heartbeat_urgent; }
  std::vector<ServerAction> OnHeartbeatReply(const ServerHeartbeatReply& reply);
  // Delivers the slice that was read, with the id and incarnation of the order, or the error. Outdated and
  // repeated answers are ignored.
  void OnSliceLoaded(const SliceOrder& order, Result<Slice> slice);
  // The bytes of each slice that a save would have now.
  std::vector<uint64_t> BytesToSave() const { return checkpoints_.BytesToSave(); }
  // The shell needs the slices of this save no longer, so their memory is free again. Optional.
  void OnSlicesRead(uint64_t checkpoint) { checkpoints_.OnSlicesRead(checkpoint); }
  // Fills in `report.slices`. A server saves one shard at a time: a newer order waits for this answer.
  void OnShardSaved(ShardReport report) { checkpoints_.OnShardSaved(std::move(report)); }
  // Hands the slices over to other servers, then leaves: MakeHeartbeat says so.
  void Leave() { leaving_ = slices_.signals().heartbeat_urgent = true; }
  bool leaving() const { return leaving_; }

  // ---- slices that move from this server and to it. Take the actions after each input of the control plane
  // and the data plane, and after each of these. Outdated answers are ignored.
  std::vector<MoveAction> TakeMoveActions();
  void OnMoveConnected(uint64_t move) { moves_.OnConnected(move); }
  void OnMoveTaken(uint64_t move) { moves_.OnTaken(move); }
  void OnMoveFailed(uint64_t move, const Status& why) { moves_.OnFailed(move, why); }
  // The bytes of a slice's values and slots; none: the job has no such slice.
  std::optional<uint64_t> SliceBytes(SliceId slice) const { return slices_.job().BytesOf(slice); }
  // Memory for them, and a slice of the job with such memory.
  Buffer NewSliceMemory(SliceId slice) const { return slices_.job().NewMemory(*SliceBytes(slice)); }
  Slice ArrivedSlice(SliceId slice, Buffer memory) const {
    return slices_.job().InMemory(slice, std::move(memory));
  }
  // All slices of a move, ordered by id. They are answered by AnswerMove, or refused at once:
  // kInvalidArgument if the job has no such slices, kResourceExhausted if too many moves have arrived that
  // nobody has ordered.
  Status OnMoveArrived(uint64_t move, std::vector<MovedSlice> slices) {
    return moves_.OnArrived(move, std::move(slices));
  }

  // ---- slices with replicas on other servers. Take the actions after each push, and as those of moves.
  std::vector<ForwardAction> TakeForwards() { return forwards_.TakeActions(); }
  // Whether pushes are to be forwarded: ApplyAll then needs `memory`, or copies the gradients.
  bool forwards() const { return forwards_.any(); }
  void OnForwarded(NodeId server, const ForwardReply& reply);
  void OnForwardFailed(NodeId server, uint64_t link, const Status&) { forwards_.OnFailed(server, link); }
  // Take a push that another server forwards, as Begin and ApplyAll take one of a worker.
  Status BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements = nullptr) {
    return push_.BeginForward(request, elements);
  }
  ForwardReply TakeForward(const ForwardRequest& request, std::span<const std::span<const float>> gradients) {
    return push_.TakeForward(request, gradients);
  }

  // ---- data plane. A push is processed in three parts, so that a shell can apply each slice while it is in
  // the cache: Begin checks the header, Apply is called for each slice in order, and Finish makes the reply.
  // Begin returns kInvalidArgument if the header contradicts itself or the table; close the connection then.
  // If `elements` is not null, it receives the number of floats of payload per slice: the size by the table,
  // whatever the outcome, because the sender cannot know that.
  Status Begin(const PushRequest& request, std::vector<uint64_t>* elements = nullptr) {
    return push_.Begin(request, elements);
  }
  // `gradient` is empty unless the disposition is kGradient.
  SliceReply Apply(const PushRequest& request, size_t i, std::span<const float> gradient) {
    return push_.ApplyOne(request, i, gradient);
  }
  // Replaces Apply for each slice if all gradients are available at once. `gradients` has one entry per
  // slice, or none if the request has no payload. Fills in `replies`. Uses ServerConfig::run_parts. `memory`
  // contains the gradients, and nobody changes it while it is referenced; empty: they are changed later.
  void ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                std::vector<SliceReply>* replies, const Buffer& memory = {}) {
    push_.ApplyAll(request, gradients, replies, memory);
  }
  // A request that has to wait (version_wanted, or for replicas) gets no reply yet. It is parked under
  // `ticket`, chosen by the shell, and returned by TakeReady after the input that completes its step, or
  // after Expire.
  std::optional<PushReply> Finish(uint64_t ticket, const PushRequest& request,
                                  std::vector<SliceReply> slices) {
    return push_.Finish(ticket, request, std::move(slices));
  }
  std::vector<Ready> TakeReady() { return push_.TakeReady(); }
  // Ends the wait: the request is answered without values, and to be repeated if its run may be on one server
  // only. Ignores unknown tickets.
  void Expire(uint64_t ticket) { push_.Expire(ticket); }
  // Drops a parked request.
  void Forget(uint64_t ticket) { push_.Forget(ticket); }
  // The values of a slice on this server, at the version in its finished reply. Updates in place avoid memory
  // that is referenced elsewhere (a checkpoint being saved, values being sent). While `memory` is held, the
  // values stay unchanged in stepped strategies, and may be partly updated in others.
  HeldValues Values(SliceId slice, uint64_t version) const { return push_.Values(slice, version); }

  const Slice* Find(SliceId slice) const {
    return slices_.Alive(slice) ? &slices_.WithLedger(slices_.At(slice)) : nullptr;
  }
  // The version of a slice on this server, without the cost of Find.
  std::optional<SliceRef> VersionOf(SliceId slice) const;
  // The slice has come by a move that the server does not know to be made yet. Any other copy of the
  // incarnation here is from before it was handed over.
  bool HasArrived(const SliceIncarnation& which) const { return moves_.HasArrived(which); }
  // True if the replica of another server's slice is here.
  bool HasReplica(SliceId slice) const {
    return slice.value < slices_.size() && slices_.Hot(slice).replica != nullptr;
  }
  const View& view() const { return view_.view(); }
  uint64_t term() const { return term_; }  // term of the coordinator that it follows

 private:
  friend struct PrefetchHints;

  void TakeView(const Shared<View>& newer);

  NodeId node_;
  uint64_t term_ = 0;
  bool leaving_ = false;
  // Each concern uses those before it.
  ServerView view_;
  HostedSlices slices_;
  ReplicaForwards forwards_;
  ServerMoves moves_;
  SliceOrders orders_;
  PushFigures figures_;
  ServerSteps steps_;
  PushDesk push_;
  LedgerReports reports_;
  ServerCheckpoints checkpoints_;
};

}  // namespace leat::protocol
