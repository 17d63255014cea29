// Fault injection by decorator: wraps a real transport and drops, truncates, stalls or delays its messages,
// by a seeded schedule or on command.
//
// Faults affect messages that arrive at the decorated end. To affect both directions, decorate both ends.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "net/framing.h"
#include "net/transport.h"

namespace leat::net {

enum class Fault : uint8_t {
  kNone = 0,
  kDelay = 1,  // delivered later, as are all messages behind it
  kDrop = 2,   // the message and its connection are lost
  kCut = 3,    // the connection is lost in the middle of the payload
  kStall = 4,  // stops in the middle of the payload; the connection closes after the stall timeout
};

struct FaultSchedule {
  uint64_t seed = 1;
  // Probability of each fault per message, drawn in this order. The remainder is no fault.
  double delay = 0, drop = 0, cut = 0, stall = 0;
  Duration longest_delay = std::chrono::milliseconds(20);
  Duration stall_timeout = std::chrono::milliseconds(100);
};

// The fault commands and the random generator that decorated transports share. Loop's thread only.
class Faults {
 public:
  explicit Faults(FaultSchedule schedule = {}) : schedule_(schedule), rng_(schedule.seed) {}

  // Sets the fault of the next message that arrives. Commands queue up and take precedence over the schedule.
  void Next(Fault fault) { commands_.push_back(fault); }
  // Closes every connection now.
  void DropAll();
  // While true, attempts to connect fail with this code and incoming connections are refused.
  void set_unreachable(bool unreachable, Code code = Code::kUnavailable) {
    unreachable_ = unreachable;
    unreachable_code_ = code;
  }
  // Reports every open connection that was made as silent, or as heard of again.
  void SetSilent(bool silent);
  // The number of faults of this kind so far.
  uint64_t count(Fault fault) const { return counts_[static_cast<size_t>(fault)]; }

 private:
  friend class FaultConnection;
  friend class FaultTransport;
  Fault Draw();

  const FaultSchedule schedule_;
  Rng rng_;
  std::deque<Fault> commands_;
  bool unreachable_ = false;
  Code unreachable_code_ = Code::kUnavailable;
  std::array<uint64_t, 5> counts_{};
  std::set<class FaultConnection*> fault_connections_;
};

// A connection between the real one and the user.
class FaultConnection : public Receiver, public std::enable_shared_from_this<FaultConnection> {
 public:
  // `made`: on this side, rather than accepted.
  FaultConnection(Loop& loop, std::shared_ptr<Faults> faults, bool made)
      : loop_(loop), faults_(std::move(faults)), made_(made) {
    faults_->fault_connections_.insert(this);
  }
  ~FaultConnection() override { faults_->fault_connections_.erase(this); }

  // Returns the user's handle; call once.
  std::unique_ptr<Connection> MakeConnection(std::unique_ptr<Connection> inner);
  void Start(Receiver* receiver) { receiver_ = receiver; }
  void Close(Status why) {
    if (!open_ || inner_ == nullptr) return;
    open_ = false;
    inner_->Close(std::move(why));
  }
  void SetSilent(bool silent) {
    if (open_ && made_ && inner_ != nullptr) OnSilence(*inner_, silent);
  }

 private:
  class Handle;
  struct Message {
    uint8_t type = 0;
    Bytes header;
    Bytes payload;
    Fault fault = Fault::kNone;
  };

  Places OnHeader(Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    arriving_.type = type;
    arriving_.header.assign(header.begin(), header.end());
    arriving_.payload.resize(payload_bytes);
    return Spans{arriving_.payload};
  }

  void OnMessage(Connection&) override {
    const auto self = shared_from_this();
    arriving_.fault = faults_->Draw();
    queue_.push_back(std::exchange(arriving_, {}));
    HandOn();
  }

  void OnSilence(Connection&, bool silent) override {
    const auto self = shared_from_this();
    if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnSilence(*handle_, silent);
  }

  void OnClosed(Connection&, const Status& why) override {
    const auto self = shared_from_this();
    open_ = false;
    if (handle_ != nullptr && receiver_ != nullptr) receiver_->OnClosed(*handle_, why);
  }

  void HandOn() {
    while (open_ && !waiting_ && !queue_.empty()) {
      Message message = std::move(queue_.front());
      queue_.pop_front();
      switch (message.fault) {
        case Fault::kNone:
          Deliver(message, message.payload.size());
          break;
        case Fault::kDelay:
          message.fault = Fault::kNone;
          queue_.push_front(std::move(message));
          Wait(FromSeconds(faults_->rng_.Uniform() * Seconds(faults_->schedule_.longest_delay)));
          break;
        case Fault::kDrop:
          Close(Status(Code::kUnavailable, "fault: dropped"));
          break;
        case Fault::kCut:
          DeliverHalf(message);
          Close(Status(Code::kUnavailable, "fault: cut in the middle of a message"));
          break;
        case Fault::kStall:
          DeliverHalf(message);
          waiting_ = true;
          loop_.After(faults_->schedule_.stall_timeout, [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (self == nullptr) return;
            self->Close(Status(Code::kDeadlineExceeded, "fault: stopped in the middle of a message"));
          });
          break;
      }
    }
  }

  void Wait(Duration delay) {
    waiting_ = true;
    loop_.After(delay, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->waiting_ = false;
      self->HandOn();
    });
  }

  // Delivers the first `bytes` bytes of the payload.
  void Deliver(const Message& message, size_t bytes) {
    const Status status =
        incoming_.Start(*receiver_, *handle_, open_, message.type, message.header, message.payload.size());
    if (!status.ok()) return Close(status);
    if (open_) incoming_.Copy(ByteView(message.payload).first(bytes), *receiver_, *handle_, open_);
  }

  // A message without a payload has no middle, so nothing is delivered.
  void DeliverHalf(const Message& message) {
    if (!message.payload.empty()) Deliver(message, message.payload.size() / 2);
  }

  Loop& loop_;
  std::shared_ptr<Faults> faults_;
  const bool made_;
  Connection* inner_ = nullptr;  // owned by the handle
  bool open_ = true;
  Receiver* receiver_ = nullptr;
  Connection* handle_ = nullptr;  // null once destroyed: no more callbacks
  Message arriving_;
  std::deque<Message> queue_;
  bool waiting_ = false;
  Incoming incoming_;
};

class FaultConnection::Handle final : public Connection {
 public:
  Handle(std::shared_ptr<FaultConnection> fault_connection, std::unique_ptr<Connection> inner)
      : fault_connection_(std::move(fault_connection)), inner_(std::move(inner)) {}
  ~Handle() override {
    fault_connection_->open_ = false;
    fault_connection_->inner_ = nullptr;
    fault_connection_->handle_ = nullptr;
  }
  void Send(uint8_t type, Bytes header, std::vector<ByteView> payload, Done done) override {
    inner_->Send(type, std::move(header), std::move(payload), std::move(done));
  }
  void SendInBackground() override { inner_->SendInBackground(); }
  void Close(Status why) override { fault_connection_->Close(std::move(why)); }
  const std::string& peer() const override { return inner_->peer(); }
  CertificateRoles peer_roles() const override { return inner_->peer_roles(); }

 private:
  std::shared_ptr<FaultConnection> fault_connection_;
  std::unique_ptr<Connection> inner_;
};

inline std::unique_ptr<Connection> FaultConnection::MakeConnection(std::unique_ptr<Connection> inner) {
  inner_ = inner.get();
  auto handle = std::make_unique<Handle>(shared_from_this(), std::move(inner));
  handle_ = handle.get();
  return handle;
}

inline Fault Faults::Draw() {
  Fault fault = Fault::kNone;
  if (!commands_.empty()) {
    fault = commands_.front();
    commands_.pop_front();
  } else {
    double dice = rng_.Uniform();
    const std::array odds{std::pair(Fault::kDelay, schedule_.delay), std::pair(Fault::kDrop, schedule_.drop),
                          std::pair(Fault::kCut, schedule_.cut), std::pair(Fault::kStall, schedule_.stall)};
    for (const auto& [kind, chance] : odds) {
      if (dice < chance) {
        fault = kind;
        break;
      }
      dice -= chance;
    }
  }
  ++counts_[static_cast<size_t>(fault)];
  return fault;
}

inline void Faults::DropAll() {
  for (FaultConnection* fault_connection : fault_connections_)
    fault_connection->Close(Status(Code::kUnavailable, "fault: dropped"));
}

inline void Faults::SetSilent(bool silent) {
  const auto connections = fault_connections_;  // a receiver may close some
  for (FaultConnection* fault_connection : connections) {
    if (fault_connections_.contains(fault_connection)) fault_connection->SetSilent(silent);
  }
}

class FaultTransport final : public Transport {
 public:
  FaultTransport(Loop& loop, std::unique_ptr<Transport> inner, std::shared_ptr<Faults> faults)
      : loop_(loop), inner_(std::move(inner)), faults_(std::move(faults)) {}

  Result<std::unique_ptr<Listener>> Listen(const std::string& address, Accept accept) override {
    return inner_->Listen(address,
                          [&loop = loop_, faults = faults_,
                           accept = std::move(accept)](std::unique_ptr<Connection> inner) -> Receiver* {
                            if (faults->unreachable_) return nullptr;
                            const auto fault_connection =
                                std::make_shared<FaultConnection>(loop, faults, false);
                            Receiver* receiver = accept(fault_connection->MakeConnection(std::move(inner)));
                            if (receiver == nullptr) return nullptr;
                            fault_connection->Start(receiver);
                            return fault_connection.get();
                          });
  }

  void TrustNetwork(bool trusted) override { inner_->TrustNetwork(trusted); }
  size_t lingering() const override { return inner_->lingering(); }

  void Connect(const std::string& address, Receiver* receiver, Duration deadline,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override {
    if (faults_->unreachable_) {
      return loop_.Post([address, code = faults_->unreachable_code_, done = std::move(done)] {
        done(Status(code, "cannot connect to " + address + ": fault: unreachable"));
      });
    }
    const auto fault_connection = std::make_shared<FaultConnection>(loop_, faults_, true);
    fault_connection->Start(receiver);
    inner_->Connect(address, fault_connection.get(), deadline,
                    [fault_connection, done = std::move(done)](Result<std::unique_ptr<Connection>> inner) {
                      if (!inner.ok()) return done(inner.status());
                      done(fault_connection->MakeConnection(std::move(*inner)));
                    });
  }

 private:
  Loop& loop_;
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Faults> faults_;
};

inline std::unique_ptr<Transport> MakeFaultTransport(Loop& loop, std::unique_ptr<Transport> inner,
                                                     std::shared_ptr<Faults> faults) {
  return std::make_unique<FaultTransport>(loop, std::move(inner), std::move(faults));
}

}  // namespace leat::net
