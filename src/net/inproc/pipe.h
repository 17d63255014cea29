// Two ends of a connection within one process, each on its loop: what an inproc Connection is.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/incoming.h"
#include "net/stall.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

class PipeEnd;

// What both ends share, all of it guarded by the mutex. Messages wait in their sender's memory until the
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
    Loop* loop = nullptr;        // null before this end is there and after it has ended
    std::weak_ptr<PipeEnd> end;  // touched on its own loop only
    std::deque<Message> queue;   // that it sends
    Time moved{};                // when that last moved on
    bool pump_posted = false;    // it has been told to look at the other's queue
  };
  // One side is over: its messages go back, and the other end is told. Returns the messages.
  std::deque<Message> CloseBy(int side);

  std::mutex mutex;
  bool closed = false;  // by either end
  Side sides[2];
};

// Loop's thread only.
class PipeEnd : public std::enable_shared_from_this<PipeEnd> {
 public:
  // `on_end`: it has ended.
  PipeEnd(std::shared_ptr<TransportContext> shared, std::shared_ptr<Pipe> pipe, int side, std::string peer,
          std::function<void()> on_end);
  ~PipeEnd();
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  // The user's end of it. Made once; when it is destroyed this ends without an upcall.
  std::unique_ptr<Connection> MakeConnection();
  // Upcalls may come from now on, from the loop.
  void Start(Receiver* receiver);
  void End(Status why);
  void OnPeerClosed();

 private:
  class Handle;

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
  Connection* handle_ = nullptr;  // null once destroyed: no upcall any more
  Incoming incoming_;
  StallCheck stall_;
  bool stall_timer_ = false;
};

}  // namespace leat::net
