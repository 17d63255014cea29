// The way of a connection's messages over UCX, once both ends have agreed on it. Loop's thread only.
//
// The bytes of frames are cut into fragments; who receives tells how many it has taken, and no more than a
// window of them is under way. So a receiver that is slow makes its sender wait, and neither has to ask the
// other's queue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/framing.h"
#include "net/poller.h"
#include "net/stall.h"
#include "net/transport.h"
#include "net/transport_context.h"
#include "net/ucx/ucx_endpoint.h"

namespace leat::net {

class UcxStream final : public Pollable,
                        public Watcher,
                        public UcxEndpoint::Handler,
                        public std::enable_shared_from_this<UcxStream> {
 public:
  // `on_fail`: the link is of no use any more; whoever has it shuts it. Not called from within Start or Open.
  // `pid`: the peer's, where it is on this host and the two may look into each other's memory; else 0.
  UcxStream(std::shared_ptr<TransportContext> shared, std::shared_ptr<UcxContext> context, std::string peer,
            pid_t pid, std::function<void(Status)> on_fail);
  ~UcxStream();
  UcxStream(const UcxStream&) = delete;
  UcxStream& operator=(const UcxStream&) = delete;

  Status Open();
  Bytes address() const { return port_->address(); }
  // `on_connected`: each end has heard the other.
  Status Connect(ByteView address, std::function<void()> on_connected);
  bool connected() const { return port_ != nullptr && port_->connected(); }

  // Upcalls may come from now on, from the loop.
  void Start(Receiver* receiver, Connection* connection);
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes,
            FrameQueue::Done done);
  // As Connection's.
  void HoldView() { reader_.Hold(); }
  void ReleaseViews(uint32_t messages);
  // Delivers what has arrived: nothing will any more.
  void Drain();
  bool in_message() const { return reader_.in_message(); }
  // No upcall afterwards, and no memory touched; what has been sent is still told so. Returns what has not.
  std::vector<FrameQueue::Done> Shut();
  // Once it is shut: of messages whose payload the peer was shown, and has not told that it is done with.
  std::vector<FrameQueue::Done> TakeUnreleased() { return std::exchange(unreleased_, {}); }
  // Nothing is told any more either.
  void Detach() {
    connection_ = nullptr;
    Shut();
  }

 private:
  bool Poll() override;
  Duration MaxSleep() override;
  void OnReady(bool readable, bool writable) override;
  void OnFragment(ByteView bytes) override;
  void OnTaken(uint32_t fragments, uint32_t messages) override;

  Loop::Impl& poller() { return shared_->loop.impl(); }
  bool Receive();
  void TellTaken();
  void Deliver(ByteView bytes);
  void Flush();
  void TellSent();
  void Tell(FrameQueue::Done done);
  void KeepPolling(Time now);
  void Fail(Status why);
  void WatchForStall();
  void CheckStall();

  const std::shared_ptr<TransportContext> shared_;
  const std::shared_ptr<UcxContext> context_;
  const Fragments cut_;
  const std::string peer_;
  std::function<void(Status)> on_fail_;
  std::function<void()> on_connected_;
  std::unique_ptr<UcxEndpoint> port_;
  uint64_t watch_ = 0;
  bool open_ = false;
  bool receiving_ = false;  // within the port's Progress: it cannot be destroyed now
  bool watched_ = true;     // the descriptor is
  bool armed_ = false;      // the descriptor will tell
  bool more_ = false;       // there is more to receive than one turn allows
  Time moved_{};            // when there was something to do

  // Waiting without sleeping pays when the peer has a processor of its own, and costs everybody when it has
  // not: after each time in vain it is left out more often.
  bool polling_ = false;
  uint32_t polls_to_skip_ = 0;  // how often it is left out
  uint32_t polls_skipped_ = 0;  // how often it has been
  Status failure_;              // of a fragment that came in

  Receiver* receiver_ = nullptr;
  Connection* connection_ = nullptr;
  std::optional<PeerMemory> memory_;  // of the peer
  FrameReader reader_;
  Bytes early_;           // came in before Start
  uint32_t untaken_ = 0;  // fragments that the peer has not been told of
  size_t turn_bytes_ = 0;

  FrameQueue queue_;
  uint32_t under_way_ = 0;              // fragments that the peer has not told of
  uint64_t fragments_ = 0;              // sent
  std::vector<FrameQueue::Done> sent_;  // to be told so, from the loop
  // To be told so when that many fragments have been taken; for ways on which they may get lost.
  std::deque<std::pair<uint64_t, FrameQueue::Done>> untold_;
  std::vector<FrameQueue::Done> unreleased_;  // payloads that are shown, oldest first
  Time unreleased_time_{};                    // when that last changed
  Time sent_time_{};                          // when the queue last moved on

  StallCheck stall_;
  bool stall_timer_ = false;
};

}  // namespace leat::net
