// The parameter server as a state machine: slices with their optimizer state and ledgers.
//
// It uses no sockets, threads or clock: a shell or the simulator passes messages in and executes the returned
// actions. Not thread-safe. Values are returned as spans of the slices' memory, valid until the next call
// that changes them.
//
// The control plane is here, and the data plane in its base. The server itself only routes: each concern has
// its part of the heartbeat, takes its part of the reply, and says what follows. Slices, moves and replicas
// are in protocol/slices/server/, pushes and steps in protocol/push/, saves in protocol/checkpoints/.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/checkpoints/server_checkpoints.h"
#include "protocol/push/ledger_reports.h"
#include "protocol/push/push_desk.h"

namespace leat::protocol {

using ServerAction = std::variant<LoadSlices, SaveShard, StopRole>;

class Server : public PushDesk {
 public:
  explicit Server(ServerConfig config);

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0) {
    node_ = node;
    term_ = term;
    forwards_.OnJoined(node);
    reports_.Restart();
  }
  // ---- control plane
  ServerHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval: slices became live or failed, or a
  // shard is written, and the coordinator does not know yet.
  bool HeartbeatUrgent() const { return slices_.signals().heartbeat_urgent; }
  std::vector<ServerAction> OnHeartbeatReply(const ServerHeartbeatReply& reply);
  // Delivers the slice that was read, with the id and incarnation of the order, or the error. Outdated and
  // repeated answers are ignored.
  void OnSliceLoaded(const SliceOrder& order, Result<Slice> slice) {
    slices_.OnLoaded(order, std::move(slice));
    steps_.OnChanges(slices_.TakeChanges());
  }
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
  std::vector<MoveAction> TakeMoveActions() {
    std::vector<MoveAction> actions = moves_.TakeActions();
    steps_.AddDecided(&actions);
    return actions;
  }
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
  void OnForwarded(NodeId server, const ForwardReply& reply) {
    if (!forwards_.OnForwarded(server, reply)) return;
    steps_.SettleDecisions();
    slices_.signals().wake_parked = true;
    moves_.OnAcknowledged();
  }
  void OnForwardFailed(NodeId server, uint64_t link, const Status&) { forwards_.OnFailed(server, link); }

  // ---- slices
  const Slice* Find(SliceId slice) const {
    return slices_.Alive(slice) ? &slices_.WithLedger(slices_.At(slice)) : nullptr;
  }
  // The version of a slice on this server, without the cost of Find.
  std::optional<SliceRef> VersionOf(SliceId slice) const {
    const Slice* alive = slices_.Alive(slice);
    if (!alive) return std::nullopt;
    return SliceRef{slice, alive->incarnation, alive->version};
  }
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

  void TakeView(const Shared<View>& newer) {
    view_.Take(newer);
    orders_.OnView(view());
    slices_.signals().wake_parked = true;
  }

  NodeId node_;
  uint64_t term_ = 0;
  bool leaving_ = false;
  LedgerReports reports_;
  ServerCheckpoints checkpoints_;
};

}  // namespace leat::protocol
