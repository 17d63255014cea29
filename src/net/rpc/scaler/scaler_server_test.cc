#include "net/rpc/scaler/scaler_server.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "net/rpc/rpc.h"
#include "net/rpc/scaler/external_scaler.pb.h"
#include "net/tls/testing.h"

namespace leat::control {
namespace {

using namespace std::chrono_literals;
using grpc::StatusCode;

constexpr Duration kDeadline = 60s;

std::unique_ptr<ScalerServer> StartOrDie(std::shared_ptr<net::TlsIdentity> tls = nullptr) {
  auto server = ScalerServer::Start("127.0.0.1:0", std::move(tls));
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return server.ok() ? std::move(*server) : nullptr;
}

// A client that calls the scaler like KEDA's operator.
class Keda {
 public:
  explicit Keda(const std::string& address,
                std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials())
      : channel_(grpc::CreateChannel(address, std::move(credentials))), stub_(channel_) {}
  ~Keda() {
    if (stream_ != nullptr) {
      stream_context_.TryCancel();
      grpc::Status status;
      stream_->Finish(&status, nullptr);
      Next();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // The raw answer of a unary call.
  grpc::Status Call(const std::string& method, const std::string& message, Bytes* answer) {
    grpc::ClientContext context;
    context.set_deadline(After(kDeadline));
    auto call = stub_.PrepareUnaryCall(&context, "/externalscaler.ExternalScaler/" + method,
                                       ToBuffer(AsBytes(message)), &queue_);
    call->StartCall();
    grpc::ByteBuffer buffer;
    grpc::Status status;
    call->Finish(&buffer, &status, nullptr);
    Next();
    EXPECT_TRUE(!status.ok() || FromBuffer(buffer, answer));
    return status;
  }
  template <class Response>
  grpc::Status Ask(const std::string& method, const google::protobuf::MessageLite& message,
                   Response* response) {
    Bytes answer;
    const grpc::Status status = Call(method, message.SerializeAsString(), &answer);
    EXPECT_TRUE(!status.ok() || response->ParseFromString(std::string(AsText(answer))));
    return status;
  }
  std::optional<bool> IsActive() {
    externalscaler::IsActiveResponse response;
    if (!Ask("IsActive", Object(), &response).ok()) return std::nullopt;
    return response.result();
  }
  // -1: it is not known.
  int64_t Metric() {
    externalscaler::GetMetricsRequest request;
    *request.mutable_scaledobjectref() = Object();
    request.set_metricname(ScalerServer::kMetric);
    externalscaler::GetMetricsResponse response;
    if (!Ask("GetMetrics", request, &response).ok()) return -1;
    EXPECT_EQ(response.metricvalues_size(), 1);
    EXPECT_EQ(response.metricvalues(0).metricname(), ScalerServer::kMetric);
    EXPECT_EQ(response.metricvalues(0).metricvaluefloat(), response.metricvalues(0).metricvalue());
    return response.metricvalues(0).metricvalue();
  }

  void Follow() {
    stream_ = stub_.PrepareCall(&stream_context_, "/externalscaler.ExternalScaler/StreamIsActive", &queue_);
    stream_->StartCall(nullptr);
    Next();
    const grpc::ByteBuffer message = ToBuffer(AsBytes(Object().SerializeAsString()));
    stream_->WriteLast(message, grpc::WriteOptions(), nullptr);
    Next();
  }
  // The next message of the stream; none: it has ended.
  std::optional<bool> Told() {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, nullptr);
    externalscaler::IsActiveResponse response;
    Bytes bytes;
    if (!Next() || !FromBuffer(buffer, &bytes) || !response.ParseFromString(std::string(AsText(bytes))))
      return std::nullopt;
    return response.result();
  }

  static externalscaler::ScaledObjectRef Object() {
    externalscaler::ScaledObjectRef object;
    object.set_name("worker");
    object.set_namespace_("leat");
    (*object.mutable_scalermetadata())["scalerAddress"] = "coordinator:4004";
    return object;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    const auto got = queue_.AsyncNext(&tag, &ok, After(kDeadline));
    EXPECT_EQ(got, grpc::CompletionQueue::GOT_EVENT);
    return got == grpc::CompletionQueue::GOT_EVENT && ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext stream_context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

TEST(Scaler, SaysWhatTheJobWants) {
  const auto server = StartOrDie();
  Keda keda(server->address());
  EXPECT_EQ(keda.IsActive(), std::nullopt) << "the coordinator starts";
  EXPECT_EQ(keda.Metric(), -1);
  server->Set({.workers = 0, .active = true});
  EXPECT_EQ(keda.IsActive(), true);
  EXPECT_EQ(keda.Metric(), -1) << "0 is no number of workers";
  server->Set({.workers = 4, .active = true});
  EXPECT_EQ(keda.Metric(), 4);
  server->Set({.workers = 1, .active = false});
  EXPECT_EQ(keda.IsActive(), false);
  EXPECT_EQ(keda.Metric(), 1);
}

TEST(Scaler, EachWorkerCountsOne) {
  const auto server = StartOrDie();
  Keda keda(server->address());
  externalscaler::GetMetricSpecResponse spec;
  ASSERT_TRUE(keda.Ask("GetMetricSpec", Keda::Object(), &spec).ok());
  ASSERT_EQ(spec.metricspecs_size(), 1);
  EXPECT_EQ(spec.metricspecs(0).metricname(), ScalerServer::kMetric);
  EXPECT_EQ(spec.metricspecs(0).targetsize(), 1);
  EXPECT_EQ(spec.metricspecs(0).targetsizefloat(), 1);
}

TEST(Scaler, StreamsSayEachChangeOnce) {
  const auto server = StartOrDie();
  server->Set({.workers = 1, .active = true});
  Keda keda(server->address()), other(server->address());
  keda.Follow();
  EXPECT_EQ(keda.Told(), true);
  server->Set({.workers = 4, .active = true});
  server->Set({.workers = 1, .active = false});
  EXPECT_EQ(keda.Told(), false) << "a number is no change";
  other.Follow();
  EXPECT_EQ(other.Told(), false);
  server->Set({.workers = 1, .active = true});
  EXPECT_EQ(keda.Told(), true);
  EXPECT_EQ(other.Told(), true);
}

TEST(Scaler, StreamsEndWithTheServerAndWithTheirPeer) {
  auto server = StartOrDie();
  Keda stays(server->address());
  stays.Follow();
  {
    Keda leaves(server->address());
    leaves.Follow();
  }
  server->Set({.workers = 2, .active = true});
  EXPECT_EQ(stays.Told(), true);
  const auto begin = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kDeadline);
  EXPECT_EQ(stays.Told(), std::nullopt);
}

TEST(Scaler, RefusesWhatItDoesNotKnow) {
  const auto server = StartOrDie();
  server->Set({.workers = 2, .active = true});
  Keda keda(server->address());
  Bytes answer;
  EXPECT_EQ(keda.Call("Reboot", "", &answer).error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(keda.Call("IsActive", "\xff\xff\xff", &answer).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(keda.Call("GetMetrics", std::string(70 << 10, '\n'), &answer).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  externalscaler::GetMetricsRequest request;
  request.set_metricname("s0-other");
  externalscaler::GetMetricsResponse response;
  EXPECT_EQ(keda.Ask("GetMetrics", request, &response).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(keda.Metric(), 2) << "the connection is as good as before";
}

TEST(Scaler, AnAddressInUseIsNamed) {
  const auto server = StartOrDie();
  const auto second = ScalerServer::Start(server->address());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), ::testing::HasSubstr("cannot listen on " + server->address()));
}

// ---- TLS

std::string Content(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::filesystem::path& folder,
                                                      bool with_certificate = true) {
  grpc::SslCredentialsOptions options{.pem_root_certs = Content(folder / "ca.pem")};
  if (with_certificate) {
    options.pem_private_key = Content(folder / "key.pem");
    options.pem_cert_chain = Content(folder / "cert.pem");
  }
  return grpc::SslCredentials(options);
}

TEST(ScalerTls, AnObserverIsAnsweredAndNobodyElse) {
  net::testing::TestAuthority authority, others;
  const auto server = StartOrDie(authority.Identity({"coordinator"}));
  server->Set({.workers = 3, .active = true});
  const auto observer = authority.Issue({"observer"}, {});
  Keda keda(server->address(), Credentials(observer));
  EXPECT_EQ(keda.Metric(), 3);
  keda.Follow();
  EXPECT_EQ(keda.Told(), true);
  EXPECT_EQ(Keda(server->address(), Credentials(authority.Issue({"worker", "admin"}, {}))).Metric(), -1);
  EXPECT_EQ(Keda(server->address(), Credentials(observer, false)).Metric(), -1) << "no certificate";
  EXPECT_EQ(Keda(server->address(), Credentials(others.Issue({"observer"}, {}))).Metric(), -1);
  EXPECT_EQ(Keda(server->address()).Metric(), -1) << "no TLS";
  server->Set({.workers = 3, .active = false});
  EXPECT_EQ(keda.Told(), false);
}

}  // namespace
}  // namespace leat::control
