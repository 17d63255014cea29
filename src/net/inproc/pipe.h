// A connection within one process: two ends, each on its own loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/connection_handle.h"
#include "net/incoming.h"
#include "net/stall.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

class PipeEnd;

// The state shared by both ends, guarded by the mutex. Messages stay in the sender's memory until the
// receiver's loop copies them.
struct Pipe {
  struct Message {
    uint8_t type = 0;
    Bytes header;
    std::vector<ByteView> payload;
    uint64_t payload_bytes = 0;
    std::function<void(const Status&)> done;
  };
  struct Side {
    Loop* loop = nullptr;        // null before this end exists and after it has ended
    std::weak_ptr<PipeEnd> end;  // used on its own loop only
    std::deque<Message> queue;   // outgoing messages
    Time moved{};                // when the queue last progressed
    bool pump_posted = false;    // this end has been asked to read the other's queue
  };
  // Closes the pipe for `side`, notifies the other end and returns the undelivered messages.
  std::deque<Message> CloseBy(int side);

  std::mutex mutex;
  bool closed = false;  // by either end
  Side sides[2];
};

// Loop's thread only.
class PipeEnd : public std::enable_shared_from_this<PipeEnd> {
 public:
  // `on_end` runs when this end has ended.
  PipeEnd(std::shared_ptr<TransportContext> shared, std::shared_ptr<Pipe> pipe, int side, std::string peer,
          std::function<void()> on_end);
  ~PipeEnd();
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  // Returns the user's handle; call once. Destroying the handle ends the connection without a callback.
  std::unique_ptr<Connection> MakeConnection();
  // Allows callbacks from now on, from the loop.
  void Start(Receiver* receiver);
  void End(Status why);
  void OnPeerClosed();

 private:
  friend class ConnectionHandle<PipeEnd>;

  const std::string& peer() const { return peer_; }
  CertificateRoles peer_roles() const { return CertificateRoles::All(); }

  Pipe::Side& mine() { return pipe_->sides[side_]; }
  Pipe::Side& theirs() { return pipe_->sides[1 - side_]; }
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload,
            std::function<void(const Status&)> done);
  void AskToPump(Pipe::Side& side);
  void Pump();
  size_t TakeMessage();
  size_t CopySome();
  void EndMessage();
  std::deque<Pipe::Message> Shut();
  void Detach();
  void WatchForStall();
  void CheckStall();

  std::shared_ptr<TransportContext> shared_;
  std::shared_ptr<Pipe> pipe_;
  const int side_;
  const std::string peer_;
  std::function<void()> on_end_;
  bool open_ = true;
  Receiver* receiver_ = nullptr;
  Connection* handle_ = nullptr;  // null once destroyed: no more callbacks
  Incoming incoming_;
  StallTimer stall_;
};

}  // namespace leat::net
