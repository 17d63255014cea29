#include "run/pool/directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/testing.h"

namespace leat::pool {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class JobStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<JobStore> Open(std::chrono::seconds life = std::chrono::hours(1)) {
    auto store = JobStore::Open(dir_ / "pool", life);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }
  const TempDir dir_;
};

TEST_F(JobStoreTest, AJobThatIsForgottenKeepsNoSecret) {
  const auto store = Open();
  StoredJob job{
      .record = {.id = 3, .spec = {.name = "job"}, .state = JobState::kDone, .begun = true, .over_s = 17},
      .payload = {.file = "text", .workers = "1", .token = "secret-token"}};
  job.record.spec.resources.worker = {1000, 1 << 20};
  job.payload.environment["AWS_SECRET_ACCESS_KEY"] = "secret-key";
  ASSERT_TRUE(store->Write(job).ok());
  ASSERT_TRUE(store->Issue(3, "admin", {"admin"}, {}).ok());
  const auto read = store->Read();
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().record, job.record);
  ASSERT_TRUE(store->Forget(job).ok());
  EXPECT_TRUE(store->Read()->empty());
  const std::string aside = ReadAll(dir_ / "pool/forgotten/3.json");
  EXPECT_THAT(aside, HasSubstr("text"));
  EXPECT_THAT(aside, Not(HasSubstr("secret")));
  EXPECT_FALSE(fs::exists(dir_ / "pool/authorities/3"));
  EXPECT_FALSE(fs::exists(dir_ / "pool/certificates/3"));
}

TEST_F(JobStoreTest, APoolKeepsItsId) {
  const std::string id = Open()->id();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(Open()->id(), id);
  fs::remove_all(dir_ / "pool");
  EXPECT_NE(Open()->id(), id) << "another pool in its place";
}

TEST_F(JobStoreTest, ACertificateIsIssuedAnewAtHalfOfItsLife) {
  const auto issue = [this](std::chrono::seconds life) {
    auto issued = Open(life)->Issue(3, "host.roles", {"worker"}, {"host"});
    EXPECT_TRUE(issued.ok()) << issued.status().ToString();
    return *issued;
  };
  const Certificate first = issue(std::chrono::hours(1));
  EXPECT_EQ(issue(std::chrono::hours(1)), first);
  fs::remove_all(dir_ / "pool/certificates/3/host.roles");
  const Certificate brief = issue(std::chrono::seconds(4));
  EXPECT_EQ(brief.ca, first.ca);
  const MonotonicClock clock;
  const Time until = clock.Now() + std::chrono::minutes(1);
  while (issue(std::chrono::hours(1)) == brief) {
    ASSERT_LT(clock.Now(), until);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(issue(std::chrono::hours(1)), first);
}

namespace fs = std::filesystem;

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(AgentDirectory, ADirectoryOfOthersStaysAsItIs) {
  const TempDir dir;
  const std::string shared = dir / "shared";
  fs::create_directories(shared + "/secrets/7");
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  const auto refused = OpenAgentDirectory(shared);
  EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find(shared + ": has 'secrets' and is no agent's"), std::string::npos)
      << refused.status().message();
  EXPECT_EQ(ModeOf(shared), 01777u);
  EXPECT_TRUE(fs::exists(shared + "/secrets/7"));
  EXPECT_FALSE(fs::exists(shared + "/jobs"));
}

TEST(AgentDirectory, AnAgentTakesItsOwnAgain) {
  const TempDir dir;
  const std::string own = dir / "new/agent";
  {
    const auto lock = OpenAgentDirectory(own);
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
    EXPECT_EQ(ModeOf(own), 0711u);
    EXPECT_EQ(OpenAgentDirectory(own).status().message(), own + ": another agent uses it");
    // As a killed agent leaves them.
    fs::create_directories(own + "/secrets/12/roles");
    std::ofstream(own + "/secrets/12/roles/key.pem") << "key";
    fs::create_directories(own + "/jobs/12/run");
    fs::create_directories(own + "/secrets/of-mine");
  }
  const auto lock = OpenAgentDirectory(own);
  ASSERT_TRUE(lock.ok()) << lock.status().ToString();
  EXPECT_FALSE(fs::exists(own + "/secrets/12"));
  EXPECT_TRUE(fs::exists(own + "/jobs/12/run"));
  EXPECT_TRUE(fs::exists(own + "/secrets/of-mine")) << "no job's name";
  fs::create_directories(dir / "disk/lost+found");
  EXPECT_TRUE(OpenAgentDirectory(dir / "disk").ok());
}

TEST(AgentDirectory, ItBelongsToOnePool) {
  const TempDir dir;
  const std::string own = dir / "agent";
  ASSERT_TRUE(OpenAgentDirectory(own).ok());
  auto pool = PoolOfAgentDirectory(own);
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  EXPECT_EQ(*pool, "");
  // As an agent of a former version leaves it.
  fs::create_directories(own + "/jobs/12/run");
  pool = PoolOfAgentDirectory(own);
  EXPECT_EQ(pool.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(pool.status().message().find(own + ": has jobs of an unknown pool"), std::string::npos)
      << pool.status().message();
  ASSERT_TRUE(GiveAgentDirectory(own, "0123abcd").ok());
  pool = PoolOfAgentDirectory(own);
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  EXPECT_EQ(*pool, "0123abcd");
  ASSERT_TRUE(OpenAgentDirectory(own).ok()) << "the file is the agent's own";
  for (const char* id : {"", "../x", "two words"})
    EXPECT_EQ(GiveAgentDirectory(own, id).code(), Code::kInvalidArgument) << id;
  std::ofstream(own + "/pool") << "\n";
  EXPECT_EQ(PoolOfAgentDirectory(own).status().code(), Code::kDataLoss);
}

TEST(AgentDirectory, AProbeSaysWhyNothingCanBeWritten) {
  const TempDir dir;
  const std::string own = dir / "agent";
  ASSERT_TRUE(OpenAgentDirectory(own).ok());
  EXPECT_TRUE(ProbeAgentDirectory(own).ok());
  EXPECT_FALSE(fs::exists(own + "/probe"));
  // As root can see it, too.
  fs::create_directories(own + "/probe/x");
  EXPECT_FALSE(ProbeAgentDirectory(own).ok());
  EXPECT_TRUE(fs::exists(own + "/probe/x"));
}

}  // namespace

}  // namespace leat::pool
