// The parameter server as a state machine: slices with their optimizer state and ledgers.
//
// It uses no sockets, threads or clock: a shell or the simulator passes messages in and executes the returned
// actions. Not thread-safe. Values are returned as spans of the slices' memory, valid until the next call
// that changes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "compute/optim/optimizer.h"
#include "compute/tensor/buffer.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"
#include "protocol/strategy.h"

namespace leat::protocol {

struct ServerConfig {
  SliceTable table;                  // whole variables if the optimizer needs them
  optim::OptimizerConfig optimizer;  // averaging: applied to the average, with rate 1 and its momentum
  StrategyConfig strategy;
  // Modelled steps for the simulator: slices have sizes but no memory, and gradients have no payload.
  // Everything else is unchanged.
  bool modelled = false;
  Allocate allocate = {};  // for the values of slices, which are sent; null: ordinary memory
  // Not stepped, before the first update of a slice that is being saved. True: it is saved by now, and the
  // update overwrites its memory. False, or null: the update goes to new memory, and the old one is freed
  // with the save.
  std::function<bool(const Slice& slice)> saved = {};
  // Calls part(0) … part(count − 1) in any order and on any threads, and returns when all have returned;
  // null: sequentially. Results are bit-identical in all cases.
  std::function<void(size_t count, const std::function<void(size_t)>& part)> run_parts = {};
  // Limit of the encoded ledgers in one heartbeat. The rest follows in the next heartbeats.
  uint64_t max_report_bytes = 1 << 20;
};

using ServerAction = std::variant<LoadSlices, SaveShard, StopRole>;

class Server {
 public:
  explicit Server(ServerConfig config);
  ~Server();

  // `term`: of the coordinator.
  void OnJoined(NodeId node, uint64_t term = 0);
  // ---- control plane
  ServerHeartbeat MakeHeartbeat();
  // True if a heartbeat should be sent without waiting for the interval: slices became live or failed, or a
  // shard is written, and the coordinator does not know yet.
  bool HeartbeatUrgent() const;
  std::vector<ServerAction> OnHeartbeatReply(const ServerHeartbeatReply& reply);
  // Delivers the slice that was read, with the id and incarnation of the order, or the error. Outdated and
  // repeated answers are ignored.
  void OnSliceLoaded(const SliceOrder& order, Result<Slice> slice);
  // The bytes of each slice that a save would have now.
  std::vector<uint64_t> BytesToSave() const;
  // The shell needs the slices of this save no longer, so their memory is free again. Optional.
  void OnSlicesRead(uint64_t checkpoint);
  // Fills in `report.slices`. One shard is saved at a time: a newer order waits for this answer.
  void OnShardSaved(ShardReport report);
  // Hands the slices over to other servers, then leaves: MakeHeartbeat says so.
  void Leave();
  bool leaving() const;

  // ---- slices that move from this server and to it. Take the actions after each input of the control plane
  // and the data plane, and after each of these. Outdated answers are ignored.
  std::vector<MoveAction> TakeMoveActions();
  void OnMoveConnected(uint64_t move);
  void OnMoveTaken(uint64_t move);
  void OnMoveFailed(uint64_t move, const Status& why);
  // The bytes of a slice's values and slots; none: the job has no such slice.
  std::optional<uint64_t> SliceBytes(SliceId slice) const;
  // Memory for them, and a slice of the job with such memory.
  Buffer NewSliceMemory(SliceId slice) const;
  Slice ArrivedSlice(SliceId slice, Buffer memory) const;
  // All slices of a move, ordered by id. They are answered by AnswerMove, or refused at once:
  // kInvalidArgument if the job has no such slices, kResourceExhausted if too many moves have arrived that
  // nobody has ordered.
  Status OnMoveArrived(uint64_t move, std::vector<MovedSlice> slices);

  // ---- slices with replicas on other servers. Take the actions after each push, and as those of moves.
  std::vector<ForwardAction> TakeForwards();
  // Whether pushes are to be forwarded: ApplyAll then needs `memory`, or copies the gradients.
  bool forwards() const;
  void OnForwarded(NodeId server, const ForwardReply& reply);
  void OnForwardFailed(NodeId server, uint64_t link, const Status& why);
  // Take a push that another server forwards, as Begin and ApplyAll take one of a worker.
  Status BeginForward(const ForwardRequest& request, std::vector<uint64_t>* elements = nullptr);
  ForwardReply TakeForward(const ForwardRequest& request, std::span<const std::span<const float>> gradients);

  // ---- data plane. A push is processed in three parts, so that a shell can apply each slice while it is in
  // the cache: Begin checks the header, Apply is called for each slice in order, and Finish makes the reply.
  // Begin returns kInvalidArgument if the header contradicts itself or the table; close the connection then.
  // If `elements` is not null, it receives the number of floats of payload per slice: the size by the table,
  // whatever the outcome, because the sender cannot know that.
  Status Begin(const PushRequest& request, std::vector<uint64_t>* elements = nullptr);
  // `gradient` is empty unless the disposition is kGradient.
  SliceReply Apply(const PushRequest& request, size_t i, std::span<const float> gradient);
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
  struct Ready {
    uint64_t ticket = 0;
    PushReply reply;
  };
  std::vector<Ready> TakeReady();
  // Ends the wait: the request is answered without values, and to be repeated if its run may be on one server
  // only. Ignores unknown tickets.
  void Expire(uint64_t ticket);
  // Drops a parked request.
  void Forget(uint64_t ticket);
  // The values of a slice on this server, at the version in its finished reply. Updates in place avoid memory
  // that is referenced elsewhere (a checkpoint being saved, values being sent). While `memory` is held, the
  // values stay unchanged in stepped strategies, and may be partly updated in others.
  struct HeldValues {
    Buffer memory;
    std::span<const float> values;
  };
  HeldValues Values(SliceId slice, uint64_t version) const;

  const Slice* Find(SliceId slice) const;
  // The version of a slice on this server, without the cost of Find.
  std::optional<SliceRef> VersionOf(SliceId slice) const;
  // The slice has come by a move that the server does not know to be made yet. Any other copy of the
  // incarnation here is from before it was handed over.
  bool HasArrived(const SliceIncarnation& which) const;
  // True if the replica of another server's slice is here.
  bool HasReplica(SliceId slice) const;
  const View& view() const;
  uint64_t term() const;  // term of the coordinator that it follows

 private:
  friend struct PrefetchHints;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
