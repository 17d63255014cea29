// Frames over a connected stream socket, once both ends have shown the token: what a tcp Connection is.
//
// Bytes are read either straight into the receiver's spans, or into one staging buffer that all streams of a
// transport share, so that a small message costs one read and a connection that idles costs next to nothing.
// Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/framing.h"
#include "net/poller.h"
#include "net/stall.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

class Stream final : public Watcher, public std::enable_shared_from_this<Stream> {
 public:
  // Takes the socket, which is non-blocking. `on_end`: the socket is closed.
  Stream(std::shared_ptr<TransportContext> shared, int fd, std::string peer, std::function<void()> on_end);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The user's end of it. Made once; when it is destroyed the stream ends without an upcall.
  std::unique_ptr<Connection> MakeConnection();
  // Upcalls may come from now on, from the loop.
  void Start(Receiver* receiver);
  void End(Status why);

 private:
  class Handle;

  void OnReady(bool readable, bool writable) override;
  void Receive();
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload,
            std::function<void(const Status&)> done);
  void Flush();
  void TellSent(size_t bytes);
  void WantWrite(bool want);
  void Detach();
  void CloseSocket();
  void WatchForStall();
  void CheckStall();

  std::shared_ptr<TransportContext> shared_;
  int fd_;            // -1: ended
  bool open_ = true;  // fd_ >= 0
  std::string peer_;
  std::function<void()> on_end_;
  uint64_t watch_ = 0;
  Receiver* receiver_ = nullptr;
  Connection* handle_ = nullptr;  // null once destroyed: no upcall any more

  FrameReader reader_;
  FrameQueue queue_;
  bool want_write_ = false;
  std::vector<FrameQueue::Done> sent_;  // to be told so, from the loop
  Time sent_time_{};                    // when the queue last moved on

  StallCheck stall_;
  bool stall_timer_ = false;
};

}  // namespace leat::net
