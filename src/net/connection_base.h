// The common part of the connections of all transports: the user's handle, refused messages, stalled peers,
// and the end. Loop's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// A peer has stalled if nothing progressed for the timeout and several consecutive checks confirm it, with
// iterations of the loop in between. A pause of this process or machine counts as one check, so it is not
// blamed on the peer.
class StallCheck {
 public:
  explicit StallCheck(Duration timeout) : timeout_(timeout) {}

  // Time between two checks while progress is expected.
  Duration interval() const { return std::max<Duration>(timeout_ / kChecks, std::chrono::milliseconds(1)); }
  // `moved`: time of the last progress.
  bool Stalled(Time now, Time moved) {
    if (moved != moved_) checks_ = 0;
    moved_ = moved;
    ++checks_;
    return checks_ >= kChecks && now - moved >= timeout_;
  }

 private:
  static constexpr int kChecks = 4;

  Duration timeout_;
  Time moved_{};
  int checks_ = 0;  // since moved_
};

// Watches the messages of a connection. A single timer checks the time of the last progress, so that no timer
// is set per message. Loop's thread only.
class StallTimer {
 public:
  // The progress that a connection waits for.
  struct Awaited {
    Time moved{};            // when there was some last
    bool receiving = false;  // else sending
  };

  StallTimer(Loop& loop, Duration timeout) : loop_(loop), check_(timeout) {}

  // Watches `owner` for as long as its Awaiting() is something, and calls its OnStall(bool receiving) if the
  // peer has stalled. The owner has this timer as a member.
  template <typename Owner>
  void Watch(Owner& owner) {
    if (armed_ || !owner.Awaiting()) return;
    armed_ = true;
    loop_.After(check_.interval(), [this, &owner, weak = owner.weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      armed_ = false;
      const std::optional<Awaited> awaited = owner.Awaiting();
      if (!awaited) return;
      if (check_.Stalled(loop_.Now(), awaited->moved)) return owner.OnStall(awaited->receiving);
      Watch(owner);
    });
  }

 private:
  Loop& loop_;
  StallCheck check_;
  bool armed_ = false;
};

// `Self` derives from it. It has Send and End as Connection has Send and Close, and Detach(), which is called
// when the user destroys the connection: no upcall may follow. It may have the optional functions of
// Connection, too. Its members may be private, with this class as a friend.
template <class Self>
class ConnectionBase : public std::enable_shared_from_this<Self> {
 public:
  // Returns the user's handle; call once. Destroying the handle ends the connection without a callback.
  std::unique_ptr<Connection> MakeConnection() {
    auto handle = std::make_unique<Handle>(this->shared_from_this());
    handle_ = handle.get();
    return handle;
  }

 protected:
  explicit ConnectionBase(std::shared_ptr<TransportContext> shared) : shared_(std::move(shared)) {}
  ~ConnectionBase() = default;

  // Returns the size of the payload; none: the message cannot be sent, which `done` is told from the loop.
  std::optional<uint64_t> BytesToSend(bool open, ByteView header, const std::vector<ByteView>& payload,
                                      Done* done) {
    uint64_t bytes = 0;
    for (const auto& piece : payload) bytes += piece.size();
    Status refusal = shared_->CheckSend(open, peer_, header.size(), bytes);
    if (refusal.ok()) return bytes;
    if (*done == nullptr) return std::nullopt;
    shared_->loop.Post([self = this->shared_from_this(), done = std::move(*done), refusal] {
      if (self->handle_ != nullptr) done(refusal);
    });
    return std::nullopt;
  }
  // Tells the user, from the loop, of the messages that are not sent, then of the end.
  void ReportEnd(std::vector<Done> unsent, Status why) {
    shared_->loop.Post([self = this->shared_from_this(), unsent = std::move(unsent), why = std::move(why)] {
      for (const auto& done : unsent) {
        if (self->handle_ != nullptr) done(why);
      }
      if (self->handle_ != nullptr && self->receiver_ != nullptr)
        self->receiver_->OnClosed(*self->handle_, why);
    });
  }

  void SendInBackground() {}
  void HoldView() {}
  void ReleaseViews(uint32_t /*messages*/) {}

  const std::shared_ptr<TransportContext> shared_;
  std::string peer_;
  CertificateRoles peer_roles_ = CertificateRoles::All();
  Receiver* receiver_ = nullptr;
  Connection* handle_ = nullptr;  // null once destroyed: no more callbacks

 private:
  class Handle final : public Connection {
   public:
    explicit Handle(std::shared_ptr<Self> owner) : owner_(std::move(owner)) {}
    ~Handle() override { owner_->Detach(); }
    void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done) override {
      owner_->Send(type, std::move(header), std::move(payload), std::move(done));
    }
    void SendInBackground() override { owner_->SendInBackground(); }
    void Close(Status why) override { owner_->End(std::move(why)); }
    void HoldView() override { owner_->HoldView(); }
    void ReleaseViews(uint32_t messages) override { owner_->ReleaseViews(messages); }
    const std::string& peer() const override { return owner_->peer_; }
    CertificateRoles peer_roles() const override { return owner_->peer_roles_; }

   private:
    const std::shared_ptr<Self> owner_;
  };
};

}  // namespace leat::net
