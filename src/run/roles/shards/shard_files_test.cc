// Shards of roles that see the job's directory, and of roles that do not.
#include "run/roles/shards/shard_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <future>
#include <map>
#include <mutex>

#include "base/testing.h"
#include "net/transports.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/testing.h"

namespace leat::roles {
namespace {

namespace fs = std::filesystem;
using checkpoint::MakeSlices;
using net::HttpClient;

constexpr uint64_t kCheckpoint = 7;

// Objects by their URLs.
struct Objects {
  std::mutex mutex;
  std::map<std::string, Bytes> by_url;
};

class FakeS3 final : public HttpClient {
 public:
  explicit FakeS3(Objects& objects) : objects_(objects) {}
  Result<HttpClient::Reply> Do(const HttpClient::Request& request) override {
    std::lock_guard lock(objects_.mutex);
    if (request.method == "PUT") {
      objects_.by_url[request.url].assign(request.body.begin(), request.body.end());
      return HttpClient::Reply{.status = 200, .headers = {}, .body = {}};
    }
    const auto at = objects_.by_url.find(request.url);
    if (at == objects_.by_url.end()) return HttpClient::Reply{.status = 404, .headers = {}, .body = {}};
    HttpClient::Reply reply{.status = 200, .headers = {}, .body = {}};
    reply.headers.emplace_back("content-length", std::to_string(at->second.size()));
    size_t begin = 0;
    for (const auto& [name, value] : request.headers)
      if (name == "range") std::sscanf(value.c_str(), "bytes=%zu", &begin);
    if (begin + request.into.size() > at->second.size()) return Status(Code::kUnavailable, "no such range");
    std::copy_n(at->second.begin() + static_cast<std::ptrdiff_t>(begin), request.into.size(),
                request.into.begin());
    reply.written = request.into.size();
    return reply;
  }

 private:
  Objects& objects_;
};

class ShardFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(job_);
    fs::create_directory(checkpoint_);
    auto service = ShardService::Start({.directory = job_,
                                        .listen = "127.0.0.1:0",
                                        .advertise = "",
                                        .max_bytes = 1 << 20,
                                        .make_transport = transport_});
    ASSERT_TRUE(service.ok()) << service.status().ToString();
    service_ = std::move(*service);
    service_->Fill(&joined_);
    service_->OnPrepared(order_);
  }
  // A directory of the same name on another host has no probe, or another one.
  void HideDirectory() { checkpoint::WriteText(joined_.probe, "another one's"); }
  Result<std::unique_ptr<ShardFiles>> Make(const std::string& scratch) {
    return ShardFiles::Make(
        joined_,
        {.coordinator = "127.0.0.1:80", .scratch = scratch, .make_transport = transport_, .limits = limits_});
  }
  protocol::ShardReport Save(ShardFiles& files, NodeId node, std::vector<uint32_t> ids) {
    protocol::ShardReport report;
    files.Save(
        {order_, MakeSlices(table_, std::move(ids), 1, node.value)}, node, table_, optimizer_,
        [this] { ++read_; }, [&report](protocol::ShardReport done) { report = std::move(done); });
    return report;
  }
  // With checkpoints in a bucket.
  Result<std::unique_ptr<ShardFiles>> MakeWithBucket() {
    ShardFiles::Options options{.coordinator = "127.0.0.1:80",
                                .scratch = scratch_,
                                .make_transport = transport_,
                                .limits = limits_,
                                .bucket = object_store::Settings{.bucket = "bucket", .prefix = "job"}};
    options.store.environment = [](const char* name) -> std::optional<std::string> {
      const std::string_view of = name;
      if (of == "AWS_ACCESS_KEY_ID" || of == "AWS_SECRET_ACCESS_KEY") return "key";
      return of == "AWS_ENDPOINT_URL" ? std::optional<std::string>("http://store") : std::nullopt;
    };
    options.store.make_http = [this](const HttpClient::Options&) {
      return std::make_unique<FakeS3>(objects_);
    };
    return ShardFiles::Make(joined_, options);
  }
  protocol::ShardReport SaveInBucket(ShardFiles& files, std::vector<uint32_t> ids) {
    std::promise<protocol::ShardReport> report;
    files.Save(
        {order_, MakeSlices(table_, std::move(ids), 1, 3)}, NodeId(3), table_, optimizer_,
        [this] { ++read_; }, [&report](protocol::ShardReport done) { report.set_value(std::move(done)); });
    return report.get_future().get();
  }
  std::vector<Result<protocol::Slice>> Load(ShardFiles& files, const protocol::ShardReport& report,
                                            const std::vector<uint32_t>& ids) {
    std::vector<protocol::SliceOrder> orders;
    for (const uint32_t id : ids)
      orders.push_back({SliceId(id), Incarnation(9), order_.directory, report.file, report.checksum});
    std::vector<Result<protocol::Slice>> slices;
    files.Load(orders, table_, optimizer_, [&](const protocol::SliceOrder&, Result<protocol::Slice> slice) {
      slices.push_back(std::move(slice));
    });
    return slices;
  }
  void Complete(const protocol::ShardReport& report) {
    protocol::Manifest manifest;
    manifest.id = kCheckpoint;
    manifest.shards = {{report.file, report.bytes, report.checksum, report.slices}};
    ASSERT_TRUE(service_->OnComplete(order_.directory, manifest).ok());
  }

  const TempDir dir_;
  const std::string job_ = dir_.path() + "/job";
  const std::string checkpoint_ = job_ + "/checkpoint-000007";
  const std::string scratch_ = dir_.path() + "/scratch";
  const protocol::CheckpointOrder order_{kCheckpoint, checkpoint_, 0};
  const protocol::SliceTable table_ = checkpoint::MakeTable();
  const optim::OptimizerConfig optimizer_ = optim::Defaults(optim::Kind::kMomentum);
  const transfer::MakeTransport transport_ = [](net::Loop& loop) {
    return net::MakeTcpTransport(loop, {.token = "t", .port = wire::TransferPort()});
  };
  transfer::TransferLimits limits_;
  protocol::JoinReply joined_;
  std::unique_ptr<ShardService> service_;
  int read_ = 0;
  Objects objects_;
};

TEST_F(ShardFilesTest, ARoleThatSeesTheDirectoryWritesThere) {
  const auto files = Make("");
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_FALSE((*files)->remote());
  const auto report = Save(**files, NodeId(3), {0, 2});
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  EXPECT_EQ(read_, 1);
  EXPECT_TRUE(checkpoint::VerifyFile(checkpoint_ + "/" + report.file, report.bytes, report.checksum).ok());
  const auto slices = Load(**files, report, {2});
  ASSERT_TRUE(slices.at(0).ok()) << slices[0].status().ToString();
}

TEST_F(ShardFilesTest, ARoleOnAnotherHostTransfersItsShard) {
  HideDirectory();
  const auto files = Make(scratch_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE((*files)->remote());
  const auto report = Save(**files, NodeId(3), {0, 2});
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  EXPECT_EQ(read_, 1);
  EXPECT_TRUE(checkpoint::VerifyFile(checkpoint_ + "/" + report.file, report.bytes, report.checksum).ok());
  for (const auto& entry : fs::recursive_directory_iterator(scratch_))
    EXPECT_TRUE(entry.is_directory()) << entry.path() << " is left in the scratch directory";

  EXPECT_EQ(Load(**files, report, {0}).at(0).status().code(), Code::kNotFound) << "not complete yet";
  Complete(report);
  const auto slices = Load(**files, report, {2, 0});
  const auto expected = MakeSlices(table_, {2, 0}, 1, 3);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(slices.at(i).ok()) << slices[i].status().ToString();
    checkpoint::ExpectSame(*slices[i], *expected[i]);
  }
  EXPECT_EQ(Load(**files, report, {1}).at(0).status().code(), Code::kNotFound);
}

TEST_F(ShardFilesTest, ARoleOnAnotherHostNoticesDamage) {
  HideDirectory();
  const auto files = Make(scratch_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto report = Save(**files, NodeId(3), {0, 2});
  Complete(report);
  checkpoint::FlipByte(checkpoint_ + "/" + report.file, report.bytes - 1, 1);
  const auto slices = Load(**files, report, {0, 2});
  EXPECT_TRUE(slices.at(0).ok()) << slices[0].status().ToString();
  EXPECT_EQ(slices.at(1).status().code(), Code::kDataLoss) << "the last byte is its";
  // Published once more, it is withdrawn as a whole.
  Complete(report);
  service_->OnRemoved(kCheckpoint);
  EXPECT_EQ(Load(**files, report, {0}).at(0).status().code(), Code::kNotFound);
}

TEST_F(ShardFilesTest, ACheckpointThatWasGivenUpTakesNoShard) {
  HideDirectory();
  const auto files = Make(scratch_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  service_->OnRemoved(kCheckpoint);
  const auto report = Save(**files, NodeId(3), {0});
  EXPECT_EQ(report.status.code(), Code::kNotFound);
  EXPECT_TRUE(report.file.empty());
}

TEST_F(ShardFilesTest, ARoleUploadsItsShardAndReadsItFromTheBucketAlone) {
  const auto files = MakeWithBucket();
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto report = SaveInBucket(**files, {0, 2});
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  EXPECT_EQ(read_, 1);
  const std::string url = "http://store/bucket/job/checkpoint-000007/" + report.file;
  EXPECT_EQ(objects_.by_url[url].size(), report.bytes);
  EXPECT_TRUE(checkpoint::VerifyFile(checkpoint_ + "/" + report.file, report.bytes, report.checksum).ok());
  fs::remove(checkpoint_ + "/" + report.file);
  const auto slices = Load(**files, report, {2});
  ASSERT_TRUE(slices.at(0).ok()) << slices[0].status().ToString();
  checkpoint::ExpectSame(*slices[0], *MakeSlices(table_, {2}, 1, 3)[0]);
  objects_.by_url[url].back() ^= std::byte{1};
  EXPECT_EQ(Load(**files, report, {2}).at(0).status().code(), Code::kDataLoss);
}

TEST_F(ShardFilesTest, ARoleOnAnotherHostUploadsWithoutTheService) {
  HideDirectory();
  const auto files = MakeWithBucket();
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto report = SaveInBucket(**files, {0});
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  EXPECT_TRUE(objects_.by_url.contains("http://store/bucket/job/checkpoint-000007/" + report.file));
  EXPECT_TRUE(fs::is_empty(checkpoint_)) << "the coordinator fetches it";
  for (const auto& entry : fs::recursive_directory_iterator(scratch_))
    EXPECT_TRUE(entry.is_directory()) << entry.path() << " is left in the scratch directory";
  EXPECT_TRUE(Load(**files, report, {0}).at(0).ok());
}

TEST_F(ShardFilesTest, OnlyTheNewestCheckpointsArePublished) {
  HideDirectory();
  const auto files = Make(scratch_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto report = Save(**files, NodeId(3), {0});
  Complete(report);
  EXPECT_TRUE(Load(**files, report, {0}).at(0).ok());
  for (const uint64_t id : {8, 9}) {
    protocol::Manifest later;
    later.id = id;
    ASSERT_TRUE(service_->OnComplete(job_ + "/later", later).ok());
    EXPECT_EQ(Load(**files, report, {0}).at(0).ok(), id == 8);
  }
}

TEST_F(ShardFilesTest, WithoutAPlaceForShardsARoleOnAnotherHostIsRefused) {
  HideDirectory();
  const char* temporary = std::getenv("TMPDIR");
  const std::string before = temporary == nullptr ? "" : temporary;
  unsetenv("TMPDIR");
  const auto none = Make("");
  setenv("TMPDIR", scratch_.c_str(), 1);
  const auto found = Make("");
  if (temporary == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", before.c_str(), 1);
  }
  ASSERT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_NE(none.status().message().find("--scratch"), std::string::npos);
  EXPECT_NE(none.status().message().find(job_), std::string::npos);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(fs::exists(scratch_));
}

TEST_F(ShardFilesTest, AbortEndsATransferAtOnce) {
  HideDirectory();
  const auto files = Make(scratch_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  service_.reset();  // nobody answers
  (*files)->Abort();
  EXPECT_EQ(Save(**files, NodeId(3), {0}).status.code(), Code::kAborted);
}

TEST_F(ShardFilesTest, TheAdvertisedHostIsTold) {
  auto service = ShardService::Start({.directory = job_,
                                      .listen = "127.0.0.1:0",
                                      .advertise = "leat.example:81",
                                      .max_bytes = 1 << 20,
                                      .make_transport = transport_});
  ASSERT_TRUE(service.ok()) << service.status().ToString();
  protocol::JoinReply reply;
  (*service)->Fill(&reply);
  EXPECT_TRUE(reply.transfers.starts_with("leat.example:")) << reply.transfers;
  EXPECT_TRUE(joined_.transfers.starts_with(":")) << "the role knows the host that it has reached";
}

}  // namespace
}  // namespace leat::roles
