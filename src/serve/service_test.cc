#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing.h"
#include "serve/testing.h"

namespace leat::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kEvent = R"({"amount": 5, "hour": 6, "country": "MX", "shop": 3})";
constexpr const char* kBadEvent = R"({"amount": "abc", "hour": 6, "country": "MX", "shop": 3})";

// The thread of an exchange is the test's.
class TestExchange final : public http::Exchange {
 public:
  void Send(http::Reply answer) override {
    EXPECT_FALSE(reply) << "a second reply";
    reply = std::move(answer);
  }
  void Post(std::function<void()> work) override {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    wake_.notify_all();
  }
  // Runs the posted functions until there is a reply.
  void Await() {
    while (!reply) {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(wake_.wait_for(lock, std::chrono::seconds(30), [this] { return !work_.empty(); }));
      const auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
    }
  }
  std::optional<http::Reply> reply;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
};

class ServiceTest : public ::testing::Test {
 protected:
  void Start(Service::Options options = {}) {
    options.program_version = "0.1";
    service = std::make_unique<Service>(std::move(options), registry);
  }
  void SetModel() { EXPECT_TRUE(service->SetModel(job, testing::Kernels()).ok()); }
  void Publish(uint64_t seed) {
    protocol::Parameters* const set = service->versions()->Begin();
    ASSERT_NE(set, nullptr);
    testing::Fill(set, seed);
    service->versions()->Complete(set, MonotonicClock().Now());
  }
  http::Reply Ask(http::Request request) {
    const auto exchange = std::make_shared<TestExchange>();
    service->Handle(0, std::move(request), exchange);
    service->OnRoundEnd(0);
    exchange->Await();
    return *exchange->reply;
  }
  http::Admission Admit(const std::string& path, const std::string& authorization) {
    return service->Admit({.target = path, .headers = {{"authorization", authorization}}}, {});
  }
  http::Reply Get(const std::string& path) { return Ask({.head = {.method = "GET", .target = path}}); }
  http::Reply Post(const std::string& path, const std::string& body,
                   const std::string& type = "application/json") {
    return Ask(
        {.head = {.method = "POST", .target = path, .headers = {{"content-type", type}}}, .body = body});
  }
  static std::string ErrorOf(const http::Reply& reply) { return Json::parse(reply.body)["error"]; }

  const job::Job job = testing::Payments();
  metrics::Registry registry;
  std::unique_ptr<Service> service;
};

TEST_F(ServiceTest, HealthFollowsTheModel) {
  Start();
  service->NotReady("nobody there");
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Get("/v2").status, 200);
  for (const char* path : {"/v2/models/payments", "/v2/models/payments/ready"}) {
    const http::Reply reply = Get(path);
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_EQ(ErrorOf(reply), "nobody there");
  }
  // Reasons have names and addresses, and everyone may ask here.
  EXPECT_EQ(Get("/v2/health/ready").status, 503);
  EXPECT_EQ(ErrorOf(Get("/v2/health/ready")), "the model is not known yet");
  EXPECT_EQ(service->WhyNotReady(), "the model is not known yet");
  EXPECT_EQ(Post("/v1/predict", kEvent).status, 503);
  SetModel();
  EXPECT_EQ(Get("/v2/health/ready").status, 503);
  EXPECT_EQ(ErrorOf(Get("/v2/health/ready")), "there are no parameters yet");
  EXPECT_EQ(service->WhyNotReady(), "there are no parameters yet");
  EXPECT_EQ(ErrorOf(Get("/v2/models/payments/ready")), "nobody there");
  EXPECT_EQ(Get("/v2/models/payments").status, 200);
  EXPECT_EQ(Post("/v1/predict", kEvent).status, 503);
  Publish(1);
  EXPECT_EQ(Get("/v2/health/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/payments/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/payments/versions/1/ready").status, 200);
  EXPECT_EQ(Post("/v1/predict", kEvent).status, 200);
}

TEST_F(ServiceTest, EventsAreAnsweredOneByOne) {
  Start();
  SetModel();
  Publish(1);
  const Json single = Json::parse(Post("/v1/predict", kEvent).body);
  EXPECT_EQ(single["version"], 1);
  EXPECT_GE(single["age_seconds"], 0);
  EXPECT_GT(single["score"], 0);
  const http::Reply reply =
      Post("/v1/predict", std::string("[") + kEvent + "," + kBadEvent + "," + kEvent + "]");
  EXPECT_EQ(reply.status, 200);
  const Json several = Json::parse(reply.body)["predictions"];
  ASSERT_EQ(several.size(), 3u);
  EXPECT_NEAR(several[0]["score"].get<float>(), single["score"].get<float>(), 1e-6);
  EXPECT_NEAR(several[2]["score"].get<float>(), single["score"].get<float>(), 1e-6);
  EXPECT_THAT(several[1]["error"].get<std::string>(), HasSubstr("amount"));
  EXPECT_EQ(registry.counter("leat_serve_rejected_events_total").value(), 1u);

  const http::Reply bad = Post("/v1/predict", kBadEvent);
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(ErrorOf(bad), HasSubstr("amount"));
  const http::Reply all_bad = Post("/v1/predict", std::string("[") + kBadEvent + "]");
  EXPECT_EQ(all_bad.status, 200);
  EXPECT_EQ(Json::parse(all_bad.body)["predictions"].size(), 1u);
}

TEST_F(ServiceTest, ARequestIsNotAffectedByABadOne) {
  Start();
  SetModel();
  Publish(1);
  const auto infer = [](const char* event) {
    const Json input = {{"name", "events"}, {"shape", {2}}, {"datatype", "BYTES"}, {"data", {kEvent, event}}};
    return http::Request{.head = {.method = "POST", .target = "/v2/models/payments/infer"},
                         .body = Json{{"inputs", {input}}}.dump()};
  };
  // In one round, so in one batch.
  const auto good = std::make_shared<TestExchange>(), bad = std::make_shared<TestExchange>();
  service->Handle(0, infer(kEvent), good);
  service->Handle(0, infer(kBadEvent), bad);
  service->OnRoundEnd(0);
  good->Await();
  bad->Await();
  EXPECT_EQ(good->reply->status, 200);
  EXPECT_EQ(Json::parse(good->reply->body)["outputs"][0]["shape"], Json({2, 1}));
  EXPECT_EQ(bad->reply->status, 400);
  EXPECT_THAT(ErrorOf(*bad->reply), ::testing::StartsWith("event 1: amount"));
}

TEST_F(ServiceTest, FeaturesAndEventsHaveTheSameScores) {
  Start();
  SetModel();
  Publish(1);
  EventReader reader(job, 10);
  const auto rows = reader.Read("", kEvent);
  const Json input = {{"name", "features"},
                      {"shape", {1, testing::kWidth}},
                      {"datatype", "FP32"},
                      {"data", (*rows)->rows.features}};
  const http::Reply reply = Post("/v2/models/payments/infer", Json{{"id", "7"}, {"inputs", {input}}}.dump());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = Json::parse(reply.body);
  EXPECT_EQ(json["model_name"], "payments");
  EXPECT_EQ(json["model_version"], "1");
  EXPECT_EQ(json["id"], "7");
  EXPECT_EQ(json["outputs"][0]["data"][0], Json::parse(Post("/v1/predict", kEvent).body)["score"]);
}

TEST_F(ServiceTest, WhatThereIsNot) {
  Start({.max_rows = 2});
  SetModel();
  Publish(1);
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Get("/v2/models/payments/x").status, 404);
  EXPECT_EQ(ErrorOf(Get("/v2/models/other")), "there is no model 'other'; this is 'payments'");
  EXPECT_EQ(ErrorOf(Post("/v2/models/other/infer", "{}")), "there is no model 'other'; this is 'payments'");
  EXPECT_EQ(ErrorOf(Get("/v2/models/payments/versions/2")),
            "version '2' is not served; the version is now 1");
  EXPECT_EQ(Get("/v2/models/%70ayments").status, 200);
  EXPECT_EQ(Get("/v2/models/%7").status, 404);
  EXPECT_EQ(Get("/v1/predict").status, 405);
  EXPECT_EQ(Get("/v1/predict").headers, "Allow: POST\r\n");
  for (const char* path : {"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/payments"}) {
    EXPECT_EQ(Post(path, "").status, 405) << path;
    EXPECT_EQ(Post(path, "").headers, "Allow: GET, HEAD\r\n");
  }
  // A path that does not exist has no right method.
  for (const char* path : {"/", "/nowhere", "/v1/predict/", "/v2/", "/v2/health", "/v2/health/x",
                           "/v2/models", "/v2/models/payments/x", "*"}) {
    for (const char* method : {"GET", "POST", "PUT", "OPTIONS", "BREW"})
      EXPECT_EQ(Ask({.head = {.method = method, .target = path}}).status, 404) << method << " " << path;
  }
  EXPECT_EQ(Post("/v1/predict", "[nope]").status, 400);
  EXPECT_EQ(Post("/v2/models/payments/infer", "{}").status, 400);
  EXPECT_EQ(Post("/v1/predict", std::string("[") + kEvent + "," + kEvent + "," + kEvent + "]").status, 413);
  EXPECT_EQ(
      Ask({.head = {.method = "POST", .target = "/v1/predict", .headers = {{"content-encoding", "gzip"}}}})
          .status,
      415);
}

TEST_F(ServiceTest, TokensKeepOthersOut) {
  const TempDir folder;
  const std::string file = std::string(folder.path()) + "/tokens";
  std::ofstream(file) << "first-token-0000001\n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  Start({.tokens = std::move(Tokens::Load(file)).value()});
  SetModel();
  Publish(1);
  using Peer = http::Admission::Peer;
  for (const char* path : {"/v2/health/live", "/v2/health/ready"}) {
    const http::Admission probe = Admit(path, "");
    EXPECT_FALSE(probe.refusal);
    EXPECT_FALSE(probe.body);
    EXPECT_EQ(probe.peer, Peer::kUnknown);
  }
  for (const char* path : {"/v2/models/payments", "/nowhere", "/v1/predict", "/v2/health/", "/v2/health/x",
                           "/v2/health/live/"}) {
    const http::Admission client = Admit(path, "Bearer first-token-0000001");
    EXPECT_FALSE(client.refusal) << path;
    EXPECT_TRUE(client.body);
    EXPECT_EQ(client.peer, Peer::kKnown);
    for (const char* no : {"", "Bearer first-token-0000002"}) {
      const auto refusal = Admit(path, no).refusal;
      ASSERT_TRUE(refusal) << path;
      EXPECT_EQ(refusal->status, 401);
    }
  }
}

TEST_F(ServiceTest, WithoutTokensEveryoneMayAsk) {
  Start();
  EXPECT_FALSE(Admit("/v1/predict", "").refusal);
  EXPECT_TRUE(Admit("/v1/predict", "").body);
  EXPECT_EQ(Admit("/v1/predict", "").peer, http::Admission::Peer::kAnyone);
  EXPECT_FALSE(Admit("/v2/health/live", "").body);
}

TEST_F(ServiceTest, WhatWaitsAtTheEndIsRefused) {
  Start({.max_wait = std::chrono::minutes(10)});
  SetModel();
  Publish(1);
  const auto exchange = std::make_shared<TestExchange>();
  service->Handle(0, {.head = {.method = "POST", .target = "/v1/predict"}, .body = kEvent}, exchange);
  service->OnRoundEnd(0);
  service->Stop();
  exchange->Await();
  EXPECT_EQ(exchange->reply->status, 503);
  EXPECT_EQ(Post("/v1/predict", kEvent).status, 503);
}

// A job that was restarted may have other settings, but not another model.
TEST_F(ServiceTest, TheModelStays) {
  Start();
  SetModel();
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = testing::kPayments;
    text.replace(text.find(from), from.size(), to);
    return job::Job::FromText(text, "job.yaml");
  };
  const auto again = [&](const job::Job& other) {
    return service->SetModel(other, testing::Kernels()).message();
  };
  EXPECT_EQ(again(job), "");
  EXPECT_EQ(again(with("learning_rate: 0.1", "learning_rate: 0.2")), "");
  EXPECT_EQ(again(with("units: 8", "units: 9")),
            "job 'payments' has another model than the one that is served");
  EXPECT_EQ(again(with("mean: 3", "mean: 4")),
            "job 'payments' has another schema than the one that is served");
}

TEST_F(ServiceTest, TheAgeGrows) {
  Start();
  SetModel();
  protocol::Parameters* const set = service->versions()->Begin();
  service->versions()->Complete(set, MonotonicClock().Now() - std::chrono::seconds(100));
  service->UpdateMetrics();
  EXPECT_NEAR(registry.gauge("leat_serve_age_seconds").value(), 100, 30);
  EXPECT_GE(Json::parse(Post("/v1/predict", kEvent).body)["age_seconds"], 100);
}

}  // namespace
}  // namespace leat::serve
