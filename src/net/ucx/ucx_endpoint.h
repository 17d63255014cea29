// A UCX worker with one endpoint: sends and receives fragments for one connection.
//
// Each connection has its own worker. In UCX's shared memory all peers of a worker write to one queue, and a
// peer that is killed or stopped while writing an entry blocks everyone behind it. With a single writer, only
// the connection to that peer is affected, and it is closed.
//
// UCX is loaded on first use (about 2 MiB and 2 ms). UCX settings from the environment are ignored where they
// would break this contract. Between processes of one host only the `posix` transport is used, because with
// CMA the death of a peer kills the survivor.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::net {

// Fragment sizes and flow control. At most `window` sent fragments are unacknowledged, so the queue between
// two processes never fills up and sending never blocks.
struct Fragments {
  uint32_t bytes = 0;
  uint32_t window = 0;
  uint32_t taken_after = 0;  // the receiver acknowledges after this many
  // The maximum number of unacknowledged payloads shared by reference; the receiver acknowledges each.
  uint32_t shared_payloads = 0;
  // True if a sent fragment reaches the receiver even if the sender dies. If false, only an acknowledgement
  // confirms arrival, so the receiver also acknowledges the end of each message.
  bool arrives = false;
};

// UCX, set up for one kind of path. Thread-safe.
class UcxContext {
 public:
  virtual ~UcxContext() = default;
  virtual const Fragments& fragments() const = 0;

  // Shared memory between processes of one user on one host. `network`: ForNetwork will be used too; the
  // first call loads UCX with the modules it needs.
  static Result<std::shared_ptr<UcxContext>> ForHost(bool network);
  // UCX transports by name, such as "rc,ud". For trusted networks only.
  static Result<std::shared_ptr<UcxContext>> ForNetwork(const std::string& transports);
};

// For one thread at a time.
class UcxEndpoint {
 public:
  // Called from Progress. Must not send and must not destroy the endpoint.
  class Handler {
   public:
    virtual void OnFragment(ByteView bytes) = 0;
    virtual void OnTaken(uint32_t fragments, uint32_t messages) = 0;

   protected:
    ~Handler() = default;
  };

  // `handler` must outlive the endpoint.
  static Result<std::unique_ptr<UcxEndpoint>> Make(std::shared_ptr<UcxContext> context, Handler* handler);
  // Memory passed to Send is not accessed afterwards.
  virtual ~UcxEndpoint() = default;

  virtual Bytes address() const = 0;
  // Connects to the endpoint with that address. The address must come from an authenticated peer, because UCX
  // trusts it.
  virtual Status Connect(ByteView address) = 0;
  // Each end has received from the other.
  virtual bool connected() const = 0;

  // True if a fragment can be sent now; always true over shared memory.
  virtual bool CanSend() = 0;
  // The memory has been read when it returns.
  virtual Status Send(std::span<const iovec> pieces) = 0;
  // Acknowledges the fragments and shared payloads since the last call.
  virtual Status SendTaken(uint32_t fragments, uint32_t messages) = 0;
  // Returns false if there was nothing to do.
  virtual bool Progress() = 0;

  // After Arm returns true, the descriptor becomes readable when there is something to do.
  virtual int fd() const = 0;
  virtual bool Arm() = 0;
};

}  // namespace leat::net
