#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdio>
#include <mutex>
#include <set>

#include "control/address.h"
#include "control/control.h"
#include "control/convert.h"
#include "control/rpc.h"

namespace leat::control {
namespace {

constexpr int kFirstReconnectMs = 20;
constexpr int kSlowestReconnectMs = 500;

// Each request has the reply of its own place, behind Refusal.
bool Answers(const protocol::ControlReply& reply, const protocol::ControlRequest& request) {
  static_assert(std::variant_size_v<protocol::ControlReply> ==
                std::variant_size_v<protocol::ControlRequest> + 1);
  static_assert(std::is_same_v<std::variant_alternative_t<1, protocol::ControlReply>, protocol::JoinReply>);
  static_assert(std::is_same_v<std::variant_alternative_t<6, protocol::ControlReply>, protocol::AdminReply>);
  return reply.index() == request.index() + 1;
}

std::string InSeconds(Duration d) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", Seconds(d));
  return text;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  const auto at = SplitAddress(address);
  if (!at.ok()) return nullptr;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kSlowestReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kSlowestReconnectMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(Target(*at), grpc::InsecureChannelCredentials(), arguments);
}

class Client final : public ControlClient {
 public:
  Client(const std::string& address, const std::string& token)
      : address_(address), token_(token), channel_(MakeChannel(address)) {}

  Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) override {
    if (channel_ == nullptr) return SplitAddress(address_).status();
    const std::string bytes = Serialize(request);
    if (bytes.size() > kMaxMessageBytes) {
      return Status(Code::kResourceExhausted, "a control request has " + std::to_string(bytes.size()) +
                                                  " bytes, at most " + std::to_string(kMaxMessageBytes));
    }
    grpc::ByteBuffer answer;
    LEAT_RETURN_IF_ERROR(Exchange(bytes, deadline, &answer));
    std::string reply_bytes;
    if (!FromBuffer(answer, &reply_bytes)) {
      return Status(Code::kDataLoss, "the reply of " + address_ + " cannot be read");
    }
    auto reply = ParseReply(reply_bytes);
    if (!reply.ok()) return reply.status().With(address_);
    if (const auto* refusal = std::get_if<protocol::Refusal>(&*reply)) return refusal->status;
    if (!Answers(*reply, request)) {
      return Status(Code::kInvalidArgument, address_ + " answered request " +
                                                std::to_string(request.index()) + " with reply " +
                                                std::to_string(reply->index()));
    }
    return reply;
  }

  void Abort() override {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    for (auto* context : under_way_) context->TryCancel();
  }

 private:
  Status Exchange(const std::string& bytes, Duration deadline, grpc::ByteBuffer* answer) {
    grpc::ClientContext context;
    context.set_deadline(After(deadline));
    context.set_wait_for_ready(true);
    context.AddMetadata(kTokenKey, token_);
    {
      std::lock_guard lock(mutex_);
      if (aborted_) return Aborted();
      under_way_.insert(&context);
    }
    grpc::CompletionQueue queue;
    const auto rpc = grpc::GenericStub(channel_).PrepareUnaryCall(&context, kMethod, ToBuffer(bytes), &queue);
    grpc::Status status;
    rpc->StartCall();
    rpc->Finish(answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    bool aborted = false;
    {
      std::lock_guard lock(mutex_);
      under_way_.erase(&context);
      aborted = aborted_;
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    if (status.ok()) return {};
    return aborted ? Aborted() : Explain(status, deadline);
  }

  Status Aborted() const { return Status(Code::kAborted, "calls to " + address_ + " were aborted"); }

  Status Explain(const grpc::Status& status, Duration deadline) const {
    const Code code = FromGrpc(status.error_code());
    if (code != Code::kDeadlineExceeded) return Status(code, address_ + ": " + status.error_message());
    if (channel_->GetState(false) != GRPC_CHANNEL_READY) {
      return Status(Code::kUnavailable, address_ + " cannot be reached within " + InSeconds(deadline));
    }
    return Status(Code::kDeadlineExceeded, address_ + " did not answer within " + InSeconds(deadline));
  }

  const std::string address_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;  // null: the address is no address
  std::mutex mutex_;
  bool aborted_ = false;
  std::set<grpc::ClientContext*> under_way_;
};

}  // namespace

std::unique_ptr<ControlClient> ControlClient::Make(const std::string& address, const std::string& token) {
  QuietGrpc();
  return std::make_unique<Client>(address, token);
}

}  // namespace leat::control
