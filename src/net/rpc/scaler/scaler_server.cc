// gRPC calls back on threads of its own.
#include "net/rpc/scaler/scaler_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "net/handshake/handshake.h"
#include "net/rpc/rpc.h"
#include "net/rpc/scaler/external_scaler.pb.h"

namespace leat::control {
namespace {

using grpc::StatusCode;

constexpr std::string_view kService = "/externalscaler.ExternalScaler/";
constexpr auto kFarewell = std::chrono::milliseconds(300);
// A KEDA operator and its metrics server ask, and perhaps a person.
constexpr uint32_t kConnections = 64, kConnectionsOfHost = 32;
constexpr ServerLimits kLimits{.name = "scaler",
                               .idle_ms = 600'000,
                               .calls_per_connection = 32,
                               .message_bytes = 64 << 10,
                               .memory = 8 << 20};
// KEDA pings as often as gRPC's rules for clients allow, with streams open or without.
constexpr int kFastestPingMs = 5000;

class Call;

// State shared by the calls, which may outlive the server. The mutex guards all of it, and the calls' states.
struct Core {
  std::mutex mutex;
  bool open = true;
  std::optional<ScalerServer::Wanted> wanted;
  std::set<std::shared_ptr<Call>> streams;
};

grpc::Status NotKnown() {
  return {StatusCode::UNAVAILABLE, "not known yet"};
}

bool Parse(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* to) {
  Bytes bytes;
  return FromBuffer(buffer, &bytes) && to->ParseFromString(std::string(AsText(bytes)));
}

grpc::ByteBuffer IsActive(bool active) {
  externalscaler::IsActiveResponse response;
  response.set_result(active);
  return ToBuffer(AsBytes(response.SerializeAsString()));
}

grpc::ByteBuffer Spec() {
  externalscaler::GetMetricSpecResponse response;
  auto* spec = response.add_metricspecs();
  spec->set_metricname(ScalerServer::kMetric);
  spec->set_targetsize(1);
  spec->set_targetsizefloat(1);
  return ToBuffer(AsBytes(response.SerializeAsString()));
}

grpc::ByteBuffer Metrics(uint32_t workers) {
  externalscaler::GetMetricsResponse response;
  auto* value = response.add_metricvalues();
  value->set_metricname(ScalerServer::kMetric);
  value->set_metricvalue(workers);
  value->set_metricvaluefloat(workers);
  return ToBuffer(AsBytes(response.SerializeAsString()));
}

// gRPC calls a reactor on several threads, one after another. ThreadSanitizer, which does not see how gRPC
// orders them, sees it here.
class CallbackOrder {
 public:
  explicit CallbackOrder(std::atomic<uint32_t>& callbacks) : callbacks_(callbacks) {
    callbacks_.load(std::memory_order_acquire);
  }
  ~CallbackOrder() { callbacks_.fetch_add(1, std::memory_order_acq_rel); }
  CallbackOrder(const CallbackOrder&) = delete;
  CallbackOrder& operator=(const CallbackOrder&) = delete;

 private:
  std::atomic<uint32_t>& callbacks_;
};

// A call owns itself until OnDone, and may be told of changes for a moment longer.
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(std::shared_ptr<Core> core, std::string_view method) : core_(std::move(core)) {
    if (method.starts_with(kService)) {
      method_ = method.substr(kService.size());
      StartRead(&question_);
    } else {
      Finish({StatusCode::UNIMPLEMENTED, "no such service"});
    }
    callbacks_.fetch_add(1, std::memory_order_release);
  }

  void OnReadDone(bool ok) override {
    const CallbackOrder order(callbacks_);
    if (!ok) return Finish({StatusCode::INVALID_ARGUMENT, "a call without a message"});
    externalscaler::ScaledObjectRef object;
    externalscaler::GetMetricsRequest metrics;
    const bool asks_metrics = method_ == "GetMetrics";
    if (!Parse(question_, asks_metrics ? static_cast<google::protobuf::MessageLite*>(&metrics) : &object))
      return Finish({StatusCode::INVALID_ARGUMENT, "the message cannot be read"});
    if (method_ == "StreamIsActive") return Follow();
    if (method_ == "GetMetricSpec") return Answer(Spec());
    if (!asks_metrics && method_ != "IsActive") return Finish({StatusCode::UNIMPLEMENTED, "no such method"});
    if (asks_metrics && !metrics.metricname().empty() && metrics.metricname() != ScalerServer::kMetric) {
      return Finish({StatusCode::NOT_FOUND,
                     "there is no metric '" + metrics.metricname() + "', only " + ScalerServer::kMetric});
    }
    std::optional<ScalerServer::Wanted> wanted;
    {
      std::lock_guard lock(core_->mutex);
      wanted = core_->wanted;
    }
    if (!wanted || (asks_metrics && wanted->workers == 0)) return Finish(NotKnown());
    Answer(asks_metrics ? Metrics(wanted->workers) : IsActive(wanted->active));
  }

  void OnWriteDone(bool ok) override {
    const CallbackOrder order(callbacks_);
    {
      std::lock_guard lock(core_->mutex);
      writing_ = false;
      leaving_ |= !ok;
    }
    Continue();
  }

  // The peer has gone, or the server ends.
  void OnCancel() override {
    const CallbackOrder order(callbacks_);
    {
      std::lock_guard lock(core_->mutex);
      leaving_ = true;
    }
    Continue();
  }

  void OnDone() override {
    callbacks_.load(std::memory_order_acquire);
    const std::shared_ptr<Call> self = std::move(self_);
    std::lock_guard lock(core_->mutex);
    core_->streams.erase(self);
  }

  // Tells a stream's client what has changed, if anything has. The mutex is not held.
  void Continue() {
    const CallbackOrder order(callbacks_);
    enum class Next { kNothing, kWrite, kEnd } next = Next::kNothing;
    {
      std::lock_guard lock(core_->mutex);
      if (!follows_ || ended_ || writing_) return;
      if (leaving_ || !core_->open) {
        ended_ = true;
        next = Next::kEnd;
      } else if (core_->wanted && told_ != core_->wanted->active) {
        told_ = core_->wanted->active;
        writing_ = true;
        message_ = IsActive(*told_);
        next = Next::kWrite;
      }
    }
    if (next == Next::kWrite) StartWrite(&message_);
    if (next == Next::kEnd) Finish({StatusCode::UNAVAILABLE, "the coordinator ends"});
  }

 private:
  void Follow() {
    {
      std::lock_guard lock(core_->mutex);
      follows_ = true;
      core_->streams.insert(self_);
    }
    Continue();
  }
  void Answer(grpc::ByteBuffer answer) {
    message_ = std::move(answer);
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
  }

  std::atomic<uint32_t> callbacks_{0};
  const std::shared_ptr<Core> core_;
  std::shared_ptr<Call> self_{this};
  std::string method_;
  grpc::ByteBuffer question_, message_;
  // State of a stream:
  bool follows_ = false, writing_ = false, leaving_ = false, ended_ = false;
  std::optional<bool> told_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Call(core_, context->method());
  }

 private:
  const std::shared_ptr<Core> core_;
};

class Server final : public ScalerServer {
 public:
  explicit Server(std::shared_ptr<net::TlsIdentity> tls)
      : sockets_({.port = {wire::PortKind::kControl},
                  .tls = std::move(tls),
                  .max_connections = kConnections,
                  .max_connections_of_host = kConnectionsOfHost}) {}

  Status Listen(const std::string& address) {
    const auto adopt = [this](net::AuthenticatedSocket admitted) {
      if (auto socket = sockets_.Adopt(std::move(admitted)); socket.ok())
        grpc::AddInsecureChannelFromFd(server_.get(), socket->Release());
    };
    LEAT_ASSIGN_OR_RETURN(auto listener, net::ListenAuthenticated(sockets_.shared(), address, adopt, "h2"));
    grpc::ServerBuilder builder;
    Configure(kLimits, &builder);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kFastestPingMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return {Code::kInternal, "gRPC cannot serve"};
    sockets_.Start(std::move(listener));
    return {};
  }

  ~Server() override {
    if (!sockets_.StopListening()) return;
    {
      std::lock_guard lock(core_->mutex);
      core_->open = false;
    }
    Tell();
    server_->Shutdown(After(kFarewell));
  }

  void Set(const Wanted& wanted) override {
    {
      std::lock_guard lock(core_->mutex);
      if (core_->wanted == wanted) return;
      core_->wanted = wanted;
    }
    Tell();
  }

  const std::string& address() const override { return sockets_.address(); }

 private:
  void Tell() {
    std::vector<std::shared_ptr<Call>> streams;
    {
      std::lock_guard lock(core_->mutex);
      streams.assign(core_->streams.begin(), core_->streams.end());
    }
    for (const auto& stream : streams) stream->Continue();
  }

  const std::shared_ptr<Core> core_ = std::make_shared<Core>();
  Service service_{core_};
  ServerSockets sockets_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<ScalerServer>> ScalerServer::Start(const std::string& address,
                                                          std::shared_ptr<net::TlsIdentity> tls) {
  QuietGrpc();
  auto server = std::make_unique<Server>(std::move(tls));
  LEAT_RETURN_IF_ERROR(server->Listen(address));
  return std::unique_ptr<ScalerServer>(std::move(server));
}

}  // namespace leat::control
