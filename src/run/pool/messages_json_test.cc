#include "run/pool/messages_json.h"

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
           {FromJson<CancelRequest>(body).status().message(),
            FromJson<SubmitRequest>(body).status().message(), FromJson<AgentReport>(body).status().message(),
            FromJson<JobNumber>(body).status().message(), FromJson<AgentReply>(body).status().message(),
            FromJson<UserAccess>(body).status().message(), FromJson<StoredJob>(body).status().message()})
        EXPECT_THAT(why, HasSubstr("it is nested deeper than 8 levels"));
    }
  }
}

// Not what it is: it may be long, or a secret.
TEST(PoolMessagesTest, AFieldOfAnotherTypeIsNamedWithItsType) {
  const auto refusal = [](const std::string& job) {
    return FromJson<CancelRequest>(R"({"job":)" + job + R"(,"discard":false})").status().message();
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
    reply.jobs.push_back({.job = id, .payload = {.file = std::string(250 << 10, 'f'), .workers = "1"}});
  }
  const std::string text = ReplyJson(reply);
  EXPECT_LE(text.size(), size_t{4} << 20);
  const auto read = FromJson<AgentReply>(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->pool, "p");
  EXPECT_EQ(read->orders.starts, reply.orders.starts);
  EXPECT_EQ(read->jobs.size(), 12u) << "the others wait for a later reply";
  EXPECT_EQ(read->jobs.front().job, 1u);

  // The largest one fits alone: a byte of it has up to six in JSON.
  const auto job = [](size_t bytes) {
    return AgentReply{.jobs = {{.job = 1, .payload = {.file = std::string(bytes, '\1'), .workers = "1"}}}};
  };
  const std::string largest = ReplyJson(job(256 << 10));
  EXPECT_LE(largest.size(), size_t{3} << 20);
  EXPECT_TRUE(FromJson<AgentReply>(largest).ok());
  EXPECT_EQ(FromJson<AgentReply>(ReplyJson(job((256 << 10) + 1))).status().code(), Code::kInvalidArgument);
}

// ---- goldens: agents, pools and stored files of one version have these texts

const JobPayload kPayload = {.file = "name: a",
                             .data = "/data",
                             .workers = "1:2",
                             .bots = true,
                             .token = "t",
                             .environment = {{"AWS_REGION", "r"}}};
const JobSpec kSpec = {.name = "a",
                       .priority = -5,
                       .share = 0.5,
                       .resources = {{100, 1}, {500, 2}, {1000, 3}},
                       .classes = {"x", "net", "cpu"},
                       .servers = 2,
                       .least_workers = 1,
                       .workers = 3,
                       .bucket = "s3://b/p"};
const JobRecord kRecord = {.id = 1,
                           .spec = kSpec,
                           .state = JobState::kFailed,
                           .home = "one",
                           .begun = true,
                           .saved = true,
                           .address = "h:1",
                           .discard = true,
                           .reason = "why",
                           .preemptions = 4,
                           .over_s = 17};
const AgentReport kReport = {
    .pool = "3f2a",
    .agent = "one",
    .instance = 5,
    .sequence = 1,
    .host = "10.0.0.2",
    .offer = {8000, 8'000'000'000},
    .host_class = "cpu",
    .running = {{{1, ProcessRole::kCoordinator, 4294967297, 0}, "10.0.0.2:4000", "brokers"}},
    .ended = {{1, {1, ProcessRole::kServer, 4294967299, 2}, 137, "lost", true}},
    .wants = {{1, 1, 3, 100, true}},
    .renews = {3}};

AgentReply Orders() {
  AgentReply reply{.pool = "3f2a"};
  reply.orders.acknowledged = 3;
  reply.orders.starts = {{{1, ProcessRole::kWorker, 5, 1}, "h:1", true, true, "s3://b"}};
  reply.orders.grants = {{1, 1, 2}};
  reply.orders.stops = {{2, true}};
  reply.orders.ends = {{1, ProcessRole::kServer, 6, 0}};
  reply.jobs = {{1, kPayload, 1, {"a", "b", "c"}, {"d", "e", "f"}}};
  return reply;
}

// And is read again.
template <class Message>
void ExpectText(const Message& message, const std::string& text) {
  EXPECT_EQ(ToJson(message), text);
  const auto read = FromJson<Message>(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(ToJson(*read), text);
}

TEST(PoolMessagesTest, EachMessageHasItsText) {
  ExpectText(kReport, R"({"pool":"3f2a","agent":"one","instance":5,"sequence":1,"host":"10.0.0.2",)"
                      R"("offer":{"millicores":8000,"memory":8000000000},"class":"cpu","running":[{"job":1,)"
                      R"("role":"coordinator","number":4294967297,"index":0,"address":"10.0.0.2:4000",)"
                      R"("waits":"brokers"}],"ended":[{"event":1,"job":1,"role":"ps","number":4294967299,)"
                      R"("index":2,"exit_code":137,"error":"lost","host_failed":true}],"wants":[{"job":1,)"
                      R"("servers":1,"workers":3,"events":100,"lost":true}],"renews":[3]})");
  ExpectText(Orders(),
             R"({"pool":"3f2a","acknowledged":3,"starts":[{"job":1,"role":"worker","number":5,"index":1,)"
             R"("coordinator":"h:1","again":true,"resumes":true,"bucket":"s3://b"}],"grants":[{"job":1,)"
             R"("servers":1,"workers":2}],"stops":[{"job":2,"discard":true}],"ends":[{"job":1,)"
             R"("role":"ps","number":6,"index":0}],"jobs":[{"job":1,"payload":{"file":"name: a",)"
             R"("data":"/data","workers":"1:2","bots":true,"token":"t",)"
             R"("environment":{"AWS_REGION":"r"}},"servers":1,"roles":{"ca":"a","certificate":"b",)"
             R"("key":"c"},"pool":{"ca":"d","certificate":"e","key":"f"}}]})");
  ExpectText(SubmitRequest{kSpec, kPayload, true},
             R"({"spec":{"name":"a","priority":-5,"share":0.5,"coordinator":{"millicores":100,)"
             R"("memory":1},"ps":{"millicores":500,"memory":2},"worker":{"millicores":1000,"memory":3},)"
             R"("classes":{"coordinator":"x","ps":"net","worker":"cpu"},"servers":2,"least_workers":1,)"
             R"("workers":3,"bucket":"s3://b/p"},"payload":{"file":"name: a","data":"/data",)"
             R"("workers":"1:2","bots":true,"token":"t","environment":{"AWS_REGION":"r"}},"wait":true})");
  ExpectText(CancelRequest{7, true}, R"({"job":7,"discard":true})");
  ExpectText(JobNumber{3}, R"({"job":3})");
  ExpectText(UserAccess{"h:1", "t", {"a", "b", "c"}},
             R"({"coordinator":"h:1","token":"t","admin":{"ca":"a","certificate":"b","key":"c"}})");
  ExpectText(StoredJob{kRecord, kPayload},
             R"({"id":1,"spec":{"name":"a","priority":-5,"share":0.5,"coordinator":{"millicores":100,)"
             R"("memory":1},"ps":{"millicores":500,"memory":2},"worker":{"millicores":1000,"memory":3},)"
             R"("classes":{"coordinator":"x","ps":"net","worker":"cpu"},"servers":2,"least_workers":1,)"
             R"("workers":3,"bucket":"s3://b/p"},"state":5,"home":"one","begun":true,"saved":true,)"
             R"("address":"h:1","discard":true,"reason":"why","preemptions":4,"over_s":17,)"
             R"("payload":{"file":"name: a","data":"/data","workers":"1:2","bots":true,"token":"t",)"
             R"("environment":{"AWS_REGION":"r"}}})");
  ExpectText(ListRequest{7}, R"({"over":7})");
}

TEST(PoolMessagesTest, AStatusHasItsText) {
  const JobStatus job = {.record = kRecord,
                         .coordinator = "h:1",
                         .grant = {.admitted = true, .servers = 1, .workers = 2},
                         .servers = 1,
                         .workers = 2,
                         .cores = 1.5,
                         .fair_cores = 2.25,
                         .core_seconds = 10,
                         .events = 100,
                         .waiting = "w"};
  const AgentStatus agent = {.name = "one",
                             .host = "h",
                             .host_class = "cpu",
                             .offer = {8000, 5},
                             .free = {500, 3},
                             .processes = 2,
                             .lost = true,
                             .left_out = "why"};
  EXPECT_EQ(StatusJson({job}, {agent}),
            R"({"jobs":[{"job":1,"name":"a","state":"failed","priority":-5,"share":0.5,"cores":1.5,)"
            R"("fair_cores":2.25,"core_seconds":10.0,"workers":2,"ps":1,"granted":{"workers":2,"ps":1},)"
            R"("events":100,"preemptions":4,"coordinator":"h:1","home":"one","waits_for":"w",)"
            R"("reason":"why"}],"agents":[{"agent":"one","host":"h","cores":8.0,"free_cores":0.5,)"
            R"("memory":5,"free_memory":3,"processes":2,"lost":true,"class":"cpu","left_out":"why"}]})");
}

TEST(PoolMessagesTest, AStoredJobOfAFormerVersionIsRead) {
  std::string text = ToJson(StoredJob{kRecord, kPayload});
  for (const std::string field : {"\"begun\":true,", "\"over_s\":17,"}) {
    const size_t at = text.find(field);
    ASSERT_NE(at, std::string::npos);
    text.erase(at, field.size());
    EXPECT_TRUE(FromJson<StoredJob>(text).ok());
  }
  const auto read = FromJson<StoredJob>(text);
  JobRecord former = kRecord;
  former.begun = false;
  former.over_s = 0;
  EXPECT_EQ(read->record, former);
  EXPECT_EQ(read->payload, kPayload);
}

TEST(PoolMessagesTest, WhatCannotBeIsRefusedByItsName) {
  const auto report = [](auto change) {
    AgentReport changed = kReport;
    change(&changed);
    return FromJson<AgentReport>(ToJson(changed)).status().message();
  };
  EXPECT_EQ(report([](auto* r) { r->agent = ""; }), "agent's report: the agent has no name");
  EXPECT_EQ(report([](auto* r) { r->agent = "a\nb"; }), "agent's report: agent has control characters");
  EXPECT_EQ(report([](auto* r) { r->host_class = "\x7f"; }), "agent's report: class has control characters");
  for (const char* host : {"", "../a", "a/b", ".a"})
    EXPECT_EQ(report([&](auto* r) { r->host = host; }), "agent's report: host is no host") << host;
  EXPECT_EQ(report([](auto* r) { r->wants[0].workers = 100'001; }),
            "agent's report: wants[0].workers is 100001, at most 100000");
  EXPECT_EQ(report([](auto* r) { r->running[0].id.role = ProcessRole(3); }),
            "agent's report: running[0].role is unknown");
  EXPECT_EQ(report([](auto* r) { r->ended[0].exit_code = 1'000'000'001; }),
            "agent's report: ended[0].exit_code is 1000000001");
  const auto submit = [](auto change) {
    SubmitRequest changed{kSpec, kPayload, true};
    change(&changed);
    return FromJson<SubmitRequest>(ToJson(changed)).status().message();
  };
  EXPECT_EQ(submit([](auto* s) {
              s->payload.environment = {{"LD_PRELOAD", "secret"}};
            }),
            "submitted job: payload: variable LD_PRELOAD is not of object storage");
  EXPECT_EQ(submit([](auto* s) { s->payload.environment["AWS_REGION"] = std::string(4097, 's'); }),
            "submitted job: payload.environment.AWS_REGION is no text of at most 4096 bytes");
  EXPECT_EQ(submit([](auto* s) { s->payload.token = std::string(257, 's'); }),
            "submitted job: payload.token is no text of at most 256 bytes");
  EXPECT_EQ(submit([](auto* s) { s->spec.least_workers = 4; }),
            "submitted job: spec: the job wants 3 workers, fewer than its minimum of 4");
  EXPECT_EQ(submit([](auto* s) { s->spec.resources.server.memory = (uint64_t{1} << 50) + 1; }),
            "submitted job: spec.ps.memory is 1125899906842625, at most 1125899906842624");
  std::string stored = ToJson(StoredJob{kRecord, kPayload});
  stored.replace(stored.find("\"state\":5"), 9, "\"state\":7");
  EXPECT_EQ(FromJson<StoredJob>(stored).status().message(), "stored job: state is unknown");
}

TEST(PoolMessagesTest, AListHasADefault) {
  EXPECT_EQ(ListFromJson("")->over, 100u);
  EXPECT_EQ(ListFromJson(ToJson(ListRequest{7}))->over, 7u);
  EXPECT_EQ(ListFromJson("{}").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace leat::pool
