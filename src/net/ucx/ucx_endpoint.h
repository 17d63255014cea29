// What a connection over UCX stands on: one UCX worker with one endpoint, fragments that go out and come in.
//
// Each connection has a worker of its own. UCX's shared memory is one queue for each worker that all its
// peers write to: one that is killed or stopped while it writes an entry would stop everybody behind it. A
// queue with one writer can only hurt the one who reads from it, who takes it apart.
//
// UCX is loaded when it is first needed (some 2 MiB and 2 ms), and its own settings from the environment do
// not apply where they would change what is promised here. Between processes of one host its transport is
// `posix` only: with CMA a peer's death ends the survivor.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::net {

// How fragments are cut. Sent and not yet taken are never more than `window`, so that the queue between two
// processes is never full and sending never waits.
struct Fragments {
  uint32_t bytes = 0;
  uint32_t window = 0;
  uint32_t taken_after = 0;  // the other end is told after so many
  // Messages whose payload is shown that may be under way; the other end tells after each.
  uint32_t shared_payloads = 0;
  // What has been sent is with the receiver, whatever becomes of the sender. If not, then only when it was
  // taken: the other end is told at the end of each message, too.
  bool arrives = false;
};

// UCX, set up for one kind of way. Thread-safe.
class UcxContext {
 public:
  virtual ~UcxContext() = default;
  virtual const Fragments& fragments() const = 0;

  // Shared memory between processes of one user on one host. `network`: ForNetwork is needed, too; what UCX
  // needs for that is loaded by the first of them.
  static Result<std::shared_ptr<UcxContext>> ForHost(bool network);
  // UCX's transports by name, "rc,ud": for networks where everybody may be believed.
  static Result<std::shared_ptr<UcxContext>> ForNetwork(const std::string& transports);
};

// One thread at a time.
class UcxEndpoint {
 public:
  // Called from Progress. May send nothing and not destroy the port.
  class Handler {
   public:
    virtual void OnFragment(ByteView bytes) = 0;
    virtual void OnTaken(uint32_t fragments, uint32_t messages) = 0;

   protected:
    ~Handler() = default;
  };

  // `handler` outlives it.
  static Result<std::unique_ptr<UcxEndpoint>> Make(std::shared_ptr<UcxContext> context, Handler* handler);
  // No memory that was handed over is touched afterwards.
  virtual ~UcxEndpoint() = default;

  virtual Bytes address() const = 0;
  // To the port of that address, which must be what that port said: UCX believes it.
  virtual Status Connect(ByteView address) = 0;
  // Each end has heard the other.
  virtual bool connected() const = 0;

  // Whether a fragment can be sent now; over shared memory always.
  virtual bool CanSend() = 0;
  // Has read the memory when it returns.
  virtual Status Send(std::span<const iovec> pieces) = 0;
  // So many fragments, and messages whose payload was shown, since the last time.
  virtual Status SendTaken(uint32_t fragments, uint32_t messages) = 0;
  // False when there was nothing to do.
  virtual bool Progress() = 0;

  // Readable when there is something to do, from when Arm returned true until then.
  virtual int fd() const = 0;
  virtual bool Arm() = 0;
};

}  // namespace leat::net
