#include "pool/messages_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace leat::pool {
namespace {

using ::testing::HasSubstr;

std::string Nested(const std::string& open, const std::string& close, int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

// A body may have 4 MiB, and functions that follow the nesting would need a stack of gigabytes.
TEST(PoolMessagesTest, DeepNestingIsRefused) {
  for (const std::string& deep : {Nested("[", "]", 1'000'000), Nested("{\"a\":", "}", 300'000),
                                  Nested("[", "]", 100), std::string(1'000'000, '[')}) {
    for (const std::string& body :
         {deep, R"({"job":)" + deep + R"(,"discard":false})", R"({"spec":{"servers":)" + deep + "}}",
          R"({"agent":"a","instance":)" + deep + "}"}) {
      for (const std::string& why :
           {CancelFromJson(body).status().message(), SubmitFromJson(body).status().message(),
            ReportFromJson(body).status().message(), JobFromJson(body).status().message(),
            ReplyFromJson(body).status().message(), AccessFromJson(body).status().message(),
            StoredFromJson(body).status().message()})
        EXPECT_THAT(why, HasSubstr("it is nested deeper than 8 levels"));
    }
  }
}

// Not what it is: it may be long, or a secret.
TEST(PoolMessagesTest, AFieldOfAnotherTypeIsNamedWithItsType) {
  const auto refusal = [](const std::string& job) {
    return CancelFromJson(R"({"job":)" + job + R"(,"discard":false})").status().message();
  };
  EXPECT_EQ(refusal("7"), "");
  EXPECT_EQ(refusal("-7"), "request to cancel: job is -7");
  EXPECT_EQ(refusal("7.5"), "request to cancel: job is 7.5");
  EXPECT_EQ(refusal(R"("a secret")"), "request to cancel: job is a string");
  EXPECT_EQ(refusal("[[7]]"), "request to cancel: job is an array");
  EXPECT_EQ(refusal("{}"), "request to cancel: job is an object");
  EXPECT_EQ(refusal("null"), "request to cancel: job is null");
  EXPECT_EQ(refusal("true"), "request to cancel: job is true");
}

JobStatus StatusIn(JobId id, JobState state, size_t text) {
  JobStatus job;
  job.record = {.id = id, .spec = {.name = std::string(200, 'n')}, .state = state};
  (IsOver(state) ? job.record.reason : job.waiting) = std::string(text, 'w');
  return job;
}

std::vector<uint64_t> NumbersOf(const nlohmann::json& all) {
  std::vector<uint64_t> numbers;
  for (const auto& job : all["jobs"]) numbers.push_back(job["job"]);
  return numbers;
}

TEST(PoolMessagesTest, TheListOfJobsFitsIntoAReply) {
  std::vector<JobStatus> jobs;
  for (JobId id = 1; id <= 20'000; ++id)
    jobs.push_back(StatusIn(id, id % 1000 == 0 ? JobState::kQueued : JobState::kFailed, 1000));
  const std::vector<AgentStatus> agents(1000, {.name = "agent", .host = "host"});
  const auto few = nlohmann::json::parse(StatusJson(jobs, agents));
  EXPECT_EQ(few["jobs"].size(), 120u) << "20 that wait, and 100 that are over";
  EXPECT_EQ(NumbersOf(few).front(), 1000u);
  EXPECT_EQ(NumbersOf(few)[20], 19'901u);
  EXPECT_EQ(few["agents"].size(), 1000u);
  EXPECT_EQ(few["left_out"]["jobs"], 19'880u);

  const std::string text = StatusJson(jobs, agents, {.over = 1'000'000});
  EXPECT_LE(text.size(), size_t{4} << 20);
  EXPECT_GE(text.size(), size_t{2} << 20);
  const auto all = nlohmann::json::parse(text);
  EXPECT_EQ(NumbersOf(all).front(), 1000u) << "those that wait come first";
  EXPECT_TRUE(std::ranges::is_sorted(NumbersOf(all)));

  // Jobs that wait may be too many, too.
  for (JobStatus& job : jobs) job = StatusIn(job.record.id, JobState::kQueued, 1000);
  EXPECT_LE(StatusJson(jobs, agents).size(), size_t{4} << 20);
  EXPECT_FALSE(nlohmann::json::parse(StatusJson({}, agents)).contains("left_out"));
}

TEST(PoolMessagesTest, WhatAnAgentIsToldFitsIntoAReply) {
  AgentReply reply{.pool = "p"};
  for (JobId id = 1; id <= 100; ++id) {
    reply.orders.starts.push_back(
        {.id = {.job = id, .number = id}, .again = true, .resumes = true, .bucket = "s3://b"});
    reply.jobs[id] = {.job = id, .payload = {.file = std::string(250 << 10, 'f'), .workers = "1"}};
  }
  const std::string text = ToJson(reply);
  EXPECT_LE(text.size(), size_t{4} << 20);
  const auto read = ReplyFromJson(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->pool, "p");
  EXPECT_EQ(read->orders.starts, reply.orders.starts);
  EXPECT_EQ(read->jobs.size(), 12u) << "the others wait for a later reply";
  EXPECT_EQ(read->jobs.begin()->first, 1u);

  // The largest one fits alone: a byte of it has up to six in JSON.
  const auto job = [](size_t bytes) {
    return AgentReply{
        .jobs = {{1, {.job = 1, .payload = {.file = std::string(bytes, '\1'), .workers = "1"}}}}};
  };
  const std::string largest = ToJson(job(256 << 10));
  EXPECT_LE(largest.size(), size_t{3} << 20);
  EXPECT_TRUE(ReplyFromJson(largest).ok());
  EXPECT_EQ(ReplyFromJson(ToJson(job((256 << 10) + 1))).status().code(), Code::kInvalidArgument);
}

TEST(PoolMessagesTest, AListHasADefault) {
  EXPECT_EQ(ListFromJson("")->over, 100u);
  EXPECT_EQ(ListFromJson(ToJson(ListRequest{7}))->over, 7u);
  EXPECT_EQ(ListFromJson("{}").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace leat::pool
