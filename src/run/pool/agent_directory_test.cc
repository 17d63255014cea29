#include "run/pool/agent_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"

namespace leat::pool {
namespace {

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
