#include "run/pool/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
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

}  // namespace
}  // namespace leat::pool
