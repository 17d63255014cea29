// Clients and services, over real transports.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/testing.h"
#include "net/fault/testing.h"
#include "net/frames/frame.h"
#include "net/inproc/testing.h"
#include "net/testing.h"
#include "net/transports.h"
#include "storage/transfer/client.h"
#include "storage/transfer/service.h"

namespace leat::transfer {
namespace {

using net::testing::RandomBytes;

struct TransferKind {
  const char* name;
  bool inproc;
  friend void PrintTo(const TransferKind& kind, std::ostream* out) { *out << kind.name; }
};

class MemoryContent final : public Content {
 public:
  explicit MemoryContent(Bytes bytes) : bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  const std::string path_ = "memory";
  const Bytes bytes_;
};

class TransferTest : public ::testing::TestWithParam<TransferKind> {
 protected:
  MakeTransport Maker(std::string token = "t") {
    return [this, token](net::Loop& loop) {
      net::TransportOptions options{.token = token, .port = wire::TransferPort()};
      options.stall_timeout = stall_timeout;
      return GetParam().inproc ? net::MakeInprocTransport(loop, hub, options)
                               : net::MakeTcpTransport(loop, options);
    };
  }
  void Start(std::string listen = "127.0.0.1:0") {
    auto started = Service::Start({.listen = std::move(listen), .make_transport = Maker()});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    service = std::move(*started);
    service->AcceptUploads(1, dir.path(), 1 << 30);
  }
  // A bare connection to the service; null if there is none within a minute.
  std::unique_ptr<net::Connection> Connect(net::Loop& loop, net::Transport& transport,
                                           net::Receiver* receiver) {
    std::optional<Result<std::unique_ptr<net::Connection>>> connection;
    transport.Connect(service->address(), receiver, std::chrono::seconds(60),
                      [&](auto connected) { connection = std::move(connected); });
    if (!net::testing::RunUntil(loop, [&] { return connection.has_value(); })) return nullptr;
    EXPECT_TRUE(connection->ok()) << connection->status().ToString();
    return connection->ok() ? std::move(**connection) : nullptr;
  }
  static Client::Upload UploadOf(const Bytes& content, const std::string& name = "shard") {
    return {.folder = 1,
            .name = name,
            .bytes = content.size(),
            .checksum = Checksum(content),
            .read = [&content](uint64_t offset, std::span<std::byte> out) {
              std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
              return Status();
            }};
  }
  Bytes OnDisk(const std::string& name) {
    const auto bytes = checkpoint::ReadFile(dir.path() + "/" + name, 1 << 30);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    return bytes.ok() ? *bytes : Bytes();
  }

  std::shared_ptr<net::InprocHub> hub = std::make_shared<net::InprocHub>();
  Duration stall_timeout = std::chrono::seconds(10);
  TempDir dir;
  std::unique_ptr<Service> service;
};

TEST_P(TransferTest, ReadsRangesOfPublishedFiles) {
  Start();
  const Bytes content = RandomBytes(5'000'000, 1);
  {
    std::ofstream out(dir.path() + "/file", std::ios::binary);
    out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }
  auto file = Content::Open(dir.path() + "/file");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  service->Publish("any name/of the owner", std::move(*file));
  Client client(service->address(), Maker());
  const auto size = client.Size("any name/of the owner");
  ASSERT_TRUE(size.ok()) << size.status().ToString();
  EXPECT_EQ(*size, content.size());
  Bytes out(content.size() - 17);
  const Status read = client.Read("any name/of the owner", 17, out);
  ASSERT_TRUE(read.ok()) << read.ToString();
  EXPECT_TRUE(std::ranges::equal(out, ByteView(content).subspan(17)));
  EXPECT_EQ(client.connections_lost(), 0u);
}

TEST_P(TransferTest, OnlyPublishedNamesCanBeRead) {
  Start();
  checkpoint::ReplaceFile(dir.path(), "secret", AsBytes("x")).ToString();
  Client client(service->address(), Maker());
  EXPECT_EQ(client.Size(dir.path() + "/secret").status().code(), Code::kNotFound);
  service->Publish("a", std::make_shared<MemoryContent>(Bytes(10)));
  Bytes out(11);
  EXPECT_EQ(client.Read("a", 0, out).code(), Code::kDataLoss);
  EXPECT_TRUE(client.Read("a", 0, std::span(out).first(10)).ok());
  // Chunks that were still asked for when a read failed do not disturb the next one.
  service->Publish("b", std::make_shared<MemoryContent>(RandomBytes(3 << 20, 9)));
  Bytes more(6 << 20);
  EXPECT_EQ(client.Read("b", 0, more).code(), Code::kDataLoss);
  EXPECT_TRUE(client.Read("b", 0, std::span(more).first(3 << 20)).ok());
  EXPECT_EQ(client.connections_lost(), 0u);
  service->Withdraw("a");
  EXPECT_EQ(client.Size("a").status().code(), Code::kNotFound);
  EXPECT_EQ(client.Size("").status().code(), Code::kInvalidArgument);
}

TEST_P(TransferTest, UploadsFilesOfAnySize) {
  Start();
  Client client(service->address(), Maker());
  for (const size_t bytes : {0, 1, 1 << 20, (9 << 20) + 5}) {
    const Bytes content = RandomBytes(bytes, bytes + 1);
    const std::string name = "shard-" + std::to_string(bytes);
    const Status sent = client.Send(UploadOf(content, name));
    ASSERT_TRUE(sent.ok()) << sent.ToString();
    EXPECT_EQ(OnDisk(name), content);
  }
  const Bytes content = RandomBytes(10, 1);
  auto elsewhere = UploadOf(content);
  elsewhere.folder = 2;
  EXPECT_EQ(client.Send(elsewhere).code(), Code::kNotFound);
  EXPECT_EQ(client.Send(UploadOf(content, "../x")).code(), Code::kInvalidArgument);
}

TEST_P(TransferTest, AWrongTokenIsRefusedAtOnce) {
  Start();
  Client client(service->address(), Maker("other"));
  EXPECT_EQ(client.Size("a").status().code(), Code::kPermissionDenied);
}

TEST_P(TransferTest, AbortEndsACall) {
  Start();
  const std::string address = service->address();
  service.reset();  // nobody listens: the client tries again for long
  Client client(address, Maker());
  std::thread aborter([&client] { client.Abort(); });
  EXPECT_EQ(client.Size("a").status().code(), Code::kAborted);
  aborter.join();
  EXPECT_EQ(client.Size("a").status().code(), Code::kAborted);
}

TEST_P(TransferTest, ATransferWithoutAServiceEndsAtItsDeadline) {
  Start();
  const std::string address = service->address();
  service.reset();
  TransferLimits limits;
  limits.patience = std::chrono::milliseconds(200);
  Client client(address, Maker(), limits);
  EXPECT_EQ(client.Size("a").status().code(), Code::kDeadlineExceeded);
}

// A new service, as after a restart, knows nothing of the upload.
TEST_P(TransferTest, AnUploadSurvivesTheRestartOfTheService) {
  Start();
  const std::string address = service->address();
  const Bytes content = RandomBytes(20 << 20, 3);
  auto upload = UploadOf(content);
  bool restarted = false;
  upload.read = [&, read = upload.read](uint64_t offset, std::span<std::byte> out) {
    if (offset > 10 << 20 && !std::exchange(restarted, true)) {
      service.reset();
      Start(address);
    }
    return read(offset, out);
  };
  Client client(address, Maker());
  const Status sent = client.Send(upload);
  ASSERT_TRUE(sent.ok()) << sent.ToString();
  EXPECT_TRUE(restarted);
  EXPECT_EQ(client.connections_lost(), 1u);
  EXPECT_EQ(OnDisk("shard"), content);
}

TEST_P(TransferTest, AProtocolViolationCostsOnlyTheConnection) {
  Start();
  net::Loop loop;
  const auto transport = Maker()(loop);
  for (const bool wrong_type : {true, false}) {
    net::testing::Recorder recorder;
    std::unique_ptr<net::Connection> connection;
    transport->Connect(service->address(), &recorder, std::chrono::seconds(60), [&](auto connected) {
      ASSERT_TRUE(connected.ok()) << connected.status().ToString();
      connection = std::move(*connected);
    });
    ASSERT_TRUE(net::testing::RunUntil(loop, [&] { return connection != nullptr; }));
    connection->Send(static_cast<uint8_t>(wrong_type ? 200 : 3), Bytes(5), {});
    ASSERT_TRUE(net::testing::RunUntil(loop, [&] { return recorder.closed.has_value(); }));
  }
  service->Publish("a", std::make_shared<MemoryContent>(Bytes(10)));
  Client client(service->address(), Maker());
  EXPECT_TRUE(client.Size("a").ok());
}

// The replies that are still under way belong to no later call.
TEST_P(TransferTest, ACallThatFailsLeavesNoRepliesToTheNext) {
  Start();
  const Bytes content = RandomBytes(1000, 1);
  service->Publish("short", std::make_shared<MemoryContent>(Bytes(10)));
  service->Publish("whole", std::make_shared<MemoryContent>(content));
  TransferLimits limits;
  limits.chunk_bytes = 100;
  Client client(service->address(), Maker(), limits);
  for (int i = 0; i < 5; ++i) {
    Bytes out(content.size());
    EXPECT_EQ(client.Read("short", 0, out).code(), Code::kDataLoss);
    ASSERT_TRUE(client.Read("whole", 0, out).ok());
    EXPECT_EQ(out, content);
  }
  EXPECT_EQ(client.connections_lost(), 0u);
}

TEST_P(TransferTest, ADamagedChunkIsNotTaken) {
  Start();
  const Bytes content = RandomBytes(1000, 1);
  net::Loop loop;
  const auto transport = Maker()(loop);
  net::testing::Recorder recorder;
  const auto connection = Connect(loop, *transport, &recorder);
  ASSERT_NE(connection, nullptr);
  const auto ask = [&](wire::TransferRequest request) {
    request.name = "shard";
    request.folder = 1;
    std::vector<ByteView> payload;
    if (request.op == wire::TransferOp::kWrite) payload.emplace_back(content);
    const size_t before = recorder.messages.size();
    connection->Send(wire::FrameType::kTransferRequest, fields::Encode(request), payload);
    EXPECT_TRUE(net::testing::RunUntil(loop, [&] { return recorder.messages.size() > before; }));
    const auto reply = fields::Decode<wire::TransferReply>(recorder.messages.back().header, "reply");
    return reply.ok() ? reply->status.code() : reply.status().code();
  };
  const uint64_t checksum = Checksum(content);
  EXPECT_EQ(ask({.op = wire::TransferOp::kOpenUpload, .bytes = 1000, .checksum = checksum}), Code::kOk);
  EXPECT_EQ(ask({.op = wire::TransferOp::kWrite, .bytes = 1000, .checksum = checksum + 1}), Code::kDataLoss);
  EXPECT_EQ(ask({.op = wire::TransferOp::kCommit}), Code::kFailedPrecondition) << "nothing has been written";
  EXPECT_EQ(ask({.op = wire::TransferOp::kWrite, .bytes = 1000, .checksum = checksum}), Code::kOk);
  EXPECT_EQ(ask({.op = wire::TransferOp::kCommit}), Code::kOk);
  EXPECT_EQ(OnDisk("shard"), content);
}

// A service that damages its first reply.
class DamagingService final : public net::Receiver {
 public:
  DamagingService(const MakeTransport& make_transport, const Bytes& content) : content_(content) {
    std::promise<std::string> listening;
    auto address = listening.get_future();
    thread_ = std::thread([this, &make_transport, &listening] {
      const auto transport = make_transport(loop_);
      const auto listener = transport->Listen("127.0.0.1:0", [this](std::unique_ptr<net::Connection> one) {
        connections_.push_back(std::move(one));
        return this;
      });
      listening.set_value(listener.ok() ? (*listener)->address() : "");
      loop_.Run();
      connections_.clear();
    });
    address_ = address.get();
  }
  ~DamagingService() override {
    loop_.Stop();
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  net::Places OnHeader(net::Connection&, uint8_t, ByteView header, uint64_t) override {
    LEAT_ASSIGN_OR_RETURN(request_, fields::Decode<wire::TransferRequest>(header, "request"));
    return net::Spans();
  }
  void OnMessage(net::Connection& connection) override {
    const ByteView piece = ByteView(content_).subspan(request_.offset, request_.bytes);
    wire::TransferReply reply{.sequence = request_.sequence, .position = content_.size()};
    reply.checksum = Checksum(piece) + (std::exchange(damages_, false) ? 1 : 0);
    connection.Send(wire::FrameType::kTransferReply, fields::Encode(reply), {piece});
  }
  void OnClosed(net::Connection&, const Status&) override {}

  const Bytes& content_;
  net::Loop loop_;
  std::vector<std::unique_ptr<net::Connection>> connections_;
  wire::TransferRequest request_;
  bool damages_ = true;
  std::string address_;
  std::thread thread_;
};

TEST_P(TransferTest, ADamagedChunkIsReadAgain) {
  const Bytes content = RandomBytes(1000, 1);
  const auto maker = Maker();
  const DamagingService damaging(maker, content);
  Client client(damaging.address(), maker);
  Bytes out(content.size());
  const Status read = client.Read("a", 0, out);
  ASSERT_TRUE(read.ok()) << read.ToString();
  EXPECT_EQ(out, content);
  EXPECT_EQ(client.connections_lost(), 1u);
}

// A peer that asks for more than it reads would fill the service's memory.
TEST_P(TransferTest, APeerThatReadsNoRepliesLosesItsConnection) {
  Start();
  service->Publish("a", std::make_shared<MemoryContent>(Bytes(wire::kMaxTransferBytes)));
  net::Loop loop;
  const auto transport = Maker()(loop);
  net::testing::Recorder recorder;
  const auto connection = Connect(loop, *transport, &recorder);
  ASSERT_NE(connection, nullptr);
  for (uint64_t i = 0; i < 200; ++i) {
    const wire::TransferRequest request{.sequence = i, .name = "a", .bytes = wire::kMaxTransferBytes};
    connection->Send(wire::FrameType::kTransferRequest, fields::Encode(request), {});
  }
  ASSERT_TRUE(net::testing::RunUntil(loop, [&] { return recorder.closed.has_value(); }));
  EXPECT_LT(recorder.messages.size(), 200u);
}

INSTANTIATE_TEST_SUITE_P(All, TransferTest,
                         ::testing::Values(TransferKind{"inproc", true}, TransferKind{"tcp", false}),
                         [](const auto& kind) { return kind.param.name; });

// Connections that break, stall and lose messages at either end, by a seeded schedule.
TEST(TransferFaultTest, TransfersContinueAfterBrokenConnections) {
  TempDir dir;
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto client_faults = std::make_shared<net::Faults>(
        net::FaultSchedule{.seed = seed, .delay = 0.02, .drop = 0.03, .cut = 0.03});
    const auto service_faults = std::make_shared<net::Faults>(
        net::FaultSchedule{.seed = seed + 100, .delay = 0.02, .drop = 0.03, .cut = 0.03, .stall = 0.01});
    const auto maker = [](const std::shared_ptr<net::Faults>& faults) -> MakeTransport {
      return [faults](net::Loop& loop) {
        return net::MakeFaultTransport(
            loop, net::MakeTcpTransport(loop, {.token = "t", .port = wire::TransferPort()}), faults);
      };
    };
    auto started = Service::Start({.make_transport = maker(service_faults)});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    Service& service = **started;
    service.AcceptUploads(seed, dir.path(), 1 << 30);
    const Bytes content = RandomBytes((16 << 20) + 3, seed);
    service.Publish("a", std::make_shared<MemoryContent>(content));
    TransferLimits limits;
    limits.chunk_bytes = 200'000;
    limits.first_backoff = std::chrono::milliseconds(1);
    limits.longest_backoff = std::chrono::milliseconds(20);
    Client client(service.address(), maker(client_faults), limits);
    Bytes out(content.size());
    const Status read = client.Read("a", 0, out);
    ASSERT_TRUE(read.ok()) << read.ToString();
    EXPECT_EQ(out, content);
    const std::string name = "shard-" + std::to_string(seed);
    const Status sent =
        client.Send({.folder = seed,
                     .name = name,
                     .bytes = content.size(),
                     .checksum = Checksum(content),
                     .read = [&content](uint64_t offset, std::span<std::byte> to) {
                       std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), to.size(), to.begin());
                       return Status();
                     }});
    ASSERT_TRUE(sent.ok()) << sent.ToString();
    EXPECT_EQ(*checkpoint::ReadFile(dir.path() + "/" + name, 1 << 30), content);
    EXPECT_GT(client.connections_lost(), 0u);
    started->reset();
    cuts += client_faults->count(net::Fault::kCut) + service_faults->count(net::Fault::kCut);
  }
  EXPECT_GT(cuts, 0u);
}

}  // namespace
}  // namespace leat::transfer
