// A tcp connection: frames over a connected, authenticated stream socket, through TLS if it has begun there.
//
// Large payloads are read directly into the receiver's spans, other bytes into one staging buffer shared by
// all streams of a transport. So a small message costs one read, and an idle connection needs almost no
// memory. Loop's thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/connection_base.h"
#include "net/framing.h"
#include "net/handshake/handshake.h"
#include "net/poller.h"
#include "net/silence.h"
#include "net/stall.h"
#include "net/tcp/background_sender.h"

namespace leat::net {

class Stream final : public Watcher, public ConnectionBase<Stream> {
 public:
  // `on_end` runs when the socket is closed.
  Stream(std::shared_ptr<TransportContext> shared, AuthenticatedSocket authenticated,
         std::function<void()> on_end);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Allows callbacks from now on, from the loop.
  void Start(Receiver* receiver);
  // Reports silence of the peer's host to the receiver.
  void WatchForSilence();
  void End(Status why);

 private:
  friend ConnectionBase;
  friend StallTimer;

  void OnReady(bool readable, bool writable) override;
  void Receive();
  void ReceiveLater();
  Result<size_t> Read(std::span<const iovec> vectors);
  Result<size_t> Write(std::span<iovec> vectors);
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done);
  void Flush();
  void ReportSent(size_t bytes);
  void WantWrite(bool want);
  void Detach();
  void CloseSocket();
  std::optional<StallTimer::Awaited> Awaiting() const;
  void OnStall(bool receiving) { End(shared_->OnStall(peer_, receiving)); }
  void SendInBackground();
  void AdjustRate();

  int fd_;                           // -1 once ended
  bool open_ = true;                 // fd_ >= 0
  std::unique_ptr<TlsSession> tls_;  // null: no TLS
  std::function<void()> on_end_;
  uint64_t watch_ = 0;

  FrameReader reader_;
  FrameQueue queue_;
  bool want_write_ = false;
  bool receives_later_ = false;
  std::vector<Done> sent_;  // completed; called from the loop
  Time sent_time_{};        // when the queue last progressed

  StallTimer stall_;
  SilenceCheck silence_;
  bool silent_ = false;
  std::unique_ptr<BackgroundSender> background_;  // null: it sends as fast as it can
  bool adjusts_rate_ = false;                     // a timer is set
};

}  // namespace leat::net
