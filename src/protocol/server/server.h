// The parameter server as a state machine: slices, their optimizer state and ledgers.
//
// No socket, thread or clock inside: a shell feeds it messages and carries out what it returns; the simulator
// does the same. Not thread-safe. Values are handed out as spans of the slices' own memory, valid until the
// next call that changes them.
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
#include "optim/optimizer.h"
#include "protocol/actions.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"
#include "protocol/slice.h"
#include "protocol/strategy.h"
#include "tensor/buffer.h"

namespace leat::protocol {

struct ServerConfig {
  SliceTable table;                  // of whole variables where the optimizer needs them
  optim::OptimizerConfig optimizer;  // averaging: of the average, which is rate 1 with its momentum
  StrategyConfig strategy;
  // Modelled steps of the simulator: slices have sizes but no memory, a kGradient comes without payload, and
  // no element is ever touched. Everything else is as ever.
  bool modelled = false;
  Allocate allocate = {};  // for the values of slices, which are sent; null: ordinary memory
  // Calls part(0), part(1), … part(count − 1), in any order and in any threads, and returns when all have
  // returned; null: one after the other. What it is asked for changes no bit of what comes out.
  std::function<void(size_t count, const std::function<void(size_t)>& part)> run_parts = {};
};

using ServerAction = std::variant<LoadSlices, SaveShard, StopRole>;

class Server {
 public:
  explicit Server(ServerConfig config);
  ~Server();

  void OnJoined(NodeId node);
  // ---- control plane
  ServerHeartbeat MakeHeartbeat();
  // True when a heartbeat should not wait for its interval: slices have come alive or cannot be had, or a
  // shard is written, and the coordinator was not told yet.
  bool HeartbeatUrgent() const;
  std::vector<ServerAction> OnHeartbeatReply(const ServerHeartbeatReply& reply);
  // The slice as read, its id and incarnation as ordered; or why it cannot be had. An outdated order's answer
  // is dropped, and so is one that was given already.
  void OnSliceLoaded(const SliceOrder& order, Result<Slice> slice);
  // `report.slices` is filled in here. One shard is saved at a time: a newer order waits for the answer.
  void OnShardSaved(ShardReport report);

  // ---- data plane. A push is taken in three parts, so that a shell can apply each slice while it is hot in
  // cache: Begin checks the whole header; then Apply for each slice of it, in order; then Finish makes the
  // reply. kInvalidArgument when the header contradicts itself or the table: the connection that sent it is
  // to be closed. `elements`, unless it is null, comes to hold for each slice the floats of payload that
  // belong to it: the table's size, whatever will become of it, which the sender cannot know.
  Status Begin(const PushRequest& request, std::vector<uint64_t>* elements = nullptr);
  // `gradient` is empty unless the disposition is kGradient.
  SliceReply Apply(const PushRequest& request, size_t i, std::span<const float> gradient);
  // In the stead of an Apply for each slice, where all gradients are there at once: `gradients` has as many
  // as the request has slices, or none where it brings none. `replies` comes to hold theirs. Their arithmetic
  // is shared out by ServerConfig::run_parts.
  void ApplyAll(const PushRequest& request, std::span<const std::span<const float>> gradients,
                std::vector<SliceReply>* replies);
  // A request that has to wait (version_wanted) has no reply yet: it is parked under `ticket`, which the
  // shell chooses, and comes out of TakeReady after the input that has completed its step, or after Expire.
  std::optional<PushReply> Finish(uint64_t ticket, const PushRequest& request,
                                  std::vector<SliceReply> slices);
  struct Ready {
    uint64_t ticket = 0;
    PushReply reply;
  };
  std::vector<Ready> TakeReady();
  // It has waited long enough: it is answered without values. An unknown ticket: nothing happens.
  void Expire(uint64_t ticket);
  // Whoever waited for it is gone.
  void Forget(uint64_t ticket);
  // Values of a slice that lives here, as of the version that its finished reply says (the reply says that
  // they go along). Updates in place spare memory that is held elsewhere (a save, values on their way out):
  // whoever holds on to `memory` sees the values unchanged in stepped strategies, and half updated at worst
  // in others.
  struct HeldValues {
    Buffer memory;
    std::span<const float> values;
  };
  HeldValues Values(SliceId slice, uint64_t version) const;

  const Slice* Find(SliceId slice) const;
  const View& view() const;

 private:
  friend struct PrefetchHints;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::protocol
