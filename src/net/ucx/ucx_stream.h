// A connection's messages over UCX, after both ends have negotiated it. Loop's thread only.
//
// Frames are cut into fragments. The receiver acknowledges them, and at most one window is unacknowledged, so
// a slow receiver slows its sender down and neither side has to inspect the other's queue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/connection_base.h"
#include "net/framing.h"
#include "net/poller.h"
#include "net/transport.h"
#include "net/transport_context.h"
#include "net/ucx/ucx_endpoint.h"

namespace leat::net {

class UcxStream final : public Pollable,
                        public Watcher,
                        public UcxEndpoint::Handler,
                        public std::enable_shared_from_this<UcxStream> {
 public:
  // `on_fail`: the stream is unusable and its owner shuts it; not called inside Start or Open. `pid`: the
  // peer's process if it is on this host and both can read each other's memory, else 0.
  UcxStream(std::shared_ptr<TransportContext> shared, std::shared_ptr<UcxContext> context, std::string peer,
            pid_t pid, std::function<void(Status)> on_fail);
  ~UcxStream();
  UcxStream(const UcxStream&) = delete;
  UcxStream& operator=(const UcxStream&) = delete;

  Status Open();
  Bytes address() const { return endpoint_->address(); }
  // `on_connected`: each end has received from the other.
  Status Connect(ByteView address, std::function<void()> on_connected);
  bool connected() const { return endpoint_ != nullptr && endpoint_->connected(); }

  // Allows callbacks from now on, from the loop.
  void Start(Receiver* receiver, Connection* connection);
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, uint64_t payload_bytes, Done done);
  // See Connection.
  void HoldView() { reader_.Hold(); }
  void ReleaseViews(uint32_t messages);
  // Delivers what has arrived. Nothing more will arrive.
  void Drain();
  bool in_message() const { return reader_.in_message(); }
  // Stops callbacks and access to memory. Messages that were sent are still reported; returns the callbacks
  // of the others.
  std::vector<Done> Shut();
  // After Shut: the callbacks of shared payloads that the peer has not released.
  std::vector<Done> TakeUnreleased() { return std::exchange(unreleased_, {}); }
  // As Shut, without reporting sent messages.
  void Detach() {
    connection_ = nullptr;
    Shut();
  }

 private:
  friend StallTimer;

  bool Poll() override;
  Duration MaxSleep() override;
  void OnReady(bool readable, bool writable) override;
  void OnFragment(ByteView bytes) override;
  void OnTaken(uint32_t fragments, uint32_t messages) override;

  Loop::Impl& poller() { return shared_->loop.impl(); }
  bool Receive();
  void AcknowledgeTaken();
  void Deliver(ByteView bytes);
  void Flush();
  void ReportSent();
  void ReportDone(Done done);
  void KeepPolling(Time now);
  void Fail(Status why);
  std::optional<StallTimer::Awaited> Awaiting() const;
  void OnStall(bool receiving) { Fail(shared_->OnStall(peer_, receiving)); }

  const std::shared_ptr<TransportContext> shared_;
  const std::shared_ptr<UcxContext> context_;
  const Fragments cut_;
  const std::string peer_;
  std::function<void(Status)> on_fail_;
  std::function<void()> on_connected_;
  std::unique_ptr<UcxEndpoint> endpoint_;
  uint64_t watch_ = 0;
  bool open_ = false;
  bool receiving_ = false;  // inside the endpoint's Progress: it must not be destroyed now
  bool watched_ = true;     // the descriptor is watched
  bool armed_ = false;      // the descriptor will become readable
  bool more_ = false;       // more to receive than one loop iteration allows
  Time moved_{};            // time of the last activity

  // Polling pays off if the peer runs on another core and costs everybody otherwise: after each unsuccessful
  // poll, more of them are skipped.
  bool polling_ = false;
  uint32_t polls_to_skip_ = 0;  // how many to skip
  uint32_t polls_skipped_ = 0;  // skipped so far
  Status failure_;              // from an incoming fragment

  Receiver* receiver_ = nullptr;
  Connection* connection_ = nullptr;
  std::optional<PeerMemory> memory_;  // memory of the peer
  FrameReader reader_;
  Bytes early_;           // arrived before Start
  uint32_t untaken_ = 0;  // fragments not yet acknowledged to the peer
  size_t turn_bytes_ = 0;

  FrameQueue queue_;
  uint32_t under_way_ = 0;  // fragments not yet acknowledged by the peer
  uint64_t fragments_ = 0;  // sent
  std::vector<Done> sent_;  // completed; called from the loop
  // Sent messages to report once that many fragments are acknowledged; for paths that can lose fragments.
  std::deque<std::pair<uint64_t, Done>> unreported_;
  std::vector<Done> unreleased_;  // shared payloads not yet released, oldest first
  Time unreleased_time_{};        // when unreleased_ last changed
  Time sent_time_{};              // when the queue last progressed

  StallTimer stall_;
};

}  // namespace leat::net
