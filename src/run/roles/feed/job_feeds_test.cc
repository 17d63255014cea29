#include "run/roles/feed/job_feeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "net/transports.h"
#include "run/feed/server.h"
#include "stream/files.h"

namespace leat::roles {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr const char* kContent = "a network";

std::string Read(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class ModelFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(here_.path() + "/net.onnx", kContent);
    asset_ = {.path = "net.onnx",
              .identity = stream::ToString(*stream::IdentifyFile(here_.path() + "/net.onnx")),
              .file = there_.path() + "/net.onnx"};
    feed_ = Serve(here_.path() + "/net.onnx");
  }
  static void Write(const std::string& path, const std::string& content) { std::ofstream(path) << content; }
  std::unique_ptr<feed::ServerThread> Serve(const std::string& path) const {
    auto feed =
        feed::ServerThread::Start("127.0.0.1:0", {.token = "token"},
                                  {.open = {}, .assets = {{.path = path, .identity = asset_.identity}}});
    EXPECT_TRUE(feed.ok()) << feed.status().ToString();
    return std::move(*feed);
  }
  feed::ClientOptions Feeds(std::vector<std::string> addresses) const {
    feed::ClientOptions options;
    options.make_transport = [](net::Loop& loop) {
      return net::MakeTcpTransport(loop, {.token = "token", .port = feed::FeedPort()});
    };
    options.find_feeds = [addresses = std::move(addresses)]() -> Result<std::vector<std::string>> {
      return addresses;
    };
    return options;
  }
  ModelFiles Files() {
    return ModelFiles({.feeds =
                           [this] {
                             ++fetches_;
                             return Feeds({feed_->address()});
                           },
                       .scratch = scratch_.path()});
  }

  TempDir here_, there_, scratch_;
  job::Asset asset_;
  std::unique_ptr<feed::ServerThread> feed_;
  int fetches_ = 0;
};

TEST_F(ModelFilesTest, TheHostsOwnFileIsUsedIfItIsTheJobs) {
  Write(asset_.file, kContent);
  const auto copies = Files().Find({asset_});
  ASSERT_TRUE(copies.ok()) << copies.status().ToString();
  EXPECT_THAT(*copies, IsEmpty());
  EXPECT_EQ(fetches_, 0);
}

TEST_F(ModelFilesTest, AnotherOrMissingFileIsFetchedOnce) {
  for (const bool other : {false, true}) {
    if (other) Write(asset_.file, "b network");
    fetches_ = 0;
    ModelFiles files = Files();
    // A node that joins again keeps its fetched files.
    for (int i = 0; i < 2; ++i) {
      const auto copies = files.Find({asset_});
      ASSERT_TRUE(copies.ok()) << copies.status().ToString();
      EXPECT_THAT(copies->at("net.onnx"), StartsWith(scratch_.path() + "/leat-scratch-"));
      EXPECT_EQ(Read(copies->at("net.onnx")), kContent);
    }
    EXPECT_EQ(fetches_, 1);
  }
  EXPECT_TRUE(fs::is_empty(scratch_.path())) << "copies are removed at the end";
}

TEST_F(ModelFilesTest, AFeedWhoseFileIsGoneIsReplacedByAnother) {
  const auto without = Serve(there_.path() + "/gone.onnx");
  const std::string path = there_.path() + "/copy";
  // Feeds are chosen at random.
  for (int i = 0; i < 2; ++i) {
    const Status fetched = FetchFromFeeds(Feeds({without->address(), feed_->address()}), asset_, path);
    ASSERT_TRUE(fetched.ok()) << fetched.ToString();
    EXPECT_EQ(Read(path), kContent);
  }
  feed::ClientOptions none = Feeds({without->address()});
  none.deadline = std::chrono::milliseconds(600);
  const Status gone = FetchFromFeeds(none, asset_, path);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("gone.onnx: No such file"));
}

TEST_F(ModelFilesTest, AFailureNamesTheFileAndWhyItIsNotTheHostsOwn) {
  ModelFiles files({.feeds =
                        [this] {
                          feed::ClientOptions none = Feeds({});
                          none.deadline = std::chrono::milliseconds(100);
                          return none;
                        },
                    .scratch = scratch_.path()});
  const auto copies = files.Find({asset_});
  EXPECT_EQ(copies.status().code(), Code::kUnavailable);
  EXPECT_THAT(copies.status().message(),
              AllOf(HasSubstr("net.onnx: No such file"), HasSubstr("the job has no feed")));
}

}  // namespace
}  // namespace leat::roles
