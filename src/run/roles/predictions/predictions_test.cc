// A publisher against brokers that fail, and a sender against feeds that come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "net/transports.h"
#include "run/feed/server.h"
#include "run/roles/predictions/publisher_service.h"
#include "run/roles/predictions/worker_predictions.h"

namespace leat::roles {
namespace {

using protocol::Cut;
using protocol::RunScores;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A topic with the notes of its partitions, as brokers keep them.
struct Topic {
  std::mutex mutex;
  std::vector<std::string> records;
  std::map<uint32_t, uint64_t> notes;
  std::map<uint32_t, uint64_t> openers;  // the number of the last one, by publishing group
  uint64_t transactions = 0;             // committed
  Status next_open, next_write;          // errors, each once
  bool committed_nevertheless = false;   // a write that fails
};

class FakeTransactions final : public stream::TopicTransactions {
 public:
  FakeTransactions(Topic& topic, uint32_t group)
      : topic_(topic), group_(group), opener_(++topic.openers[group]) {}
  Result<Notes> Committed(const std::vector<uint32_t>& partitions) override {
    std::lock_guard lock(topic_.mutex);
    Notes notes;
    for (const uint32_t partition : partitions) {
      const auto at = topic_.notes.find(partition);
      if (at != topic_.notes.end()) notes.insert(*at);
    }
    return notes;
  }
  Status Write(std::span<const Record> records, const Notes& notes) override {
    std::lock_guard lock(topic_.mutex);
    if (topic_.openers[group_] != opener_) return {Code::kStale, "fenced"};
    const Status status = std::exchange(topic_.next_write, Status());
    if (!status.ok() && !topic_.committed_nevertheless) return status;
    for (const Record& record : records) topic_.records.emplace_back(record.value);
    for (const auto& [partition, offset] : notes) topic_.notes[partition] = offset;
    ++topic_.transactions;
    return status;
  }

 private:
  Topic& topic_;
  const uint32_t group_;
  const uint64_t opener_;
};

PublisherService::Open OpenIn(Topic& topic) {
  return [&topic](uint32_t group) -> Result<std::unique_ptr<stream::TopicTransactions>> {
    std::lock_guard lock(topic.mutex);
    if (const Status status = std::exchange(topic.next_open, Status()); !status.ok()) return status;
    return std::unique_ptr<stream::TopicTransactions>(std::make_unique<FakeTransactions>(topic, group));
  };
}

Cut CutOf(uint64_t begin, uint64_t end, uint32_t partition = 0) {
  return {.partition = partition, .after = {0, begin}, .begin = {0, begin}, .end = end, .batch_size = 1000};
}

RunScores Score(const Cut& cut, float mark = 0) {
  RunScores scores{.cut = cut, .events = {}, .scores = {}, .keys = {}};
  for (uint32_t i = 0; i < cut.events(); ++i) {
    scores.events.push_back(i);
    scores.scores.push_back(static_cast<float>(cut.begin.offset + i) + mark);
    scores.keys.emplace_back();
  }
  return scores;
}

std::vector<RunScores> Scores(std::initializer_list<RunScores> scores) {
  return scores;
}

size_t RecordsIn(Topic& topic) {
  std::lock_guard lock(topic.mutex);
  return topic.records.size();
}

std::optional<uint64_t> PublishedBy(const PublisherService& service) {
  const auto reports = service.Reports();
  return reports.empty() ? std::nullopt : reports[0].published;
}

// Whether the service comes to this offset.
bool Comes(const PublisherService& service, uint64_t offset) {
  return WaitFor([&] { return PublishedBy(service) == offset; });
}

TEST(Predictions, AreJson) {
  const auto text = [](std::vector<float> scores, bool rescored) {
    std::string out;
    AppendPrediction(2,
                     {.offset = 71,
                      .scores = scores.data(),
                      .width = static_cast<uint32_t>(scores.size()),
                      .rescored = rescored},
                     &out);
    return out;
  };
  EXPECT_EQ(text({0.25f}, false), R"({"partition":2,"offset":71,"score":0.25})");
  EXPECT_EQ(text({0.5f, 1e-9f}, true), R"({"partition":2,"offset":71,"scores":[0.5,1e-09],"rescored":true})");
  EXPECT_EQ(text({std::numeric_limits<float>::infinity()}, false),
            R"({"partition":2,"offset":71,"score":null})");
}

TEST(PublisherService, PublishesEachSplitOnceWhateverFails) {
  Topic topic;
  {
    PublisherService service(OpenIn(topic));
    topic.next_open = Status(Code::kUnavailable, "no broker");
    service.SetOrders({{.partition = 0, .assignment = 1, .start = 10, .fresh = true}});
    ASSERT_TRUE(Comes(service, 10));
    EXPECT_EQ(topic.notes[0], 10u) << "before anything is published";
    EXPECT_TRUE(service.Take(Scores({Score(CutOf(10, 20))})).ok());
    EXPECT_EQ(service.Take(Scores({Score(CutOf(0, 5, 1))})).code(), Code::kNotFound);
    ASSERT_TRUE(Comes(service, 20));
    for (const bool nevertheless : {false, true}) {
      const uint64_t begin = *PublishedBy(service);
      {
        std::lock_guard lock(topic.mutex);
        topic.next_write = Status(Code::kUnavailable, "the connection is lost");
        topic.committed_nevertheless = nevertheless;
      }
      EXPECT_TRUE(service.Take(Scores({Score(CutOf(begin, begin + 10))})).ok());
      ASSERT_TRUE(Comes(service, begin + 10)) << service.Reports()[0].status.ToString();
    }
    EXPECT_TRUE(service.Take(Scores({Score(CutOf(30, 40), 0.5f)})).ok()) << "published already";
  }
  EXPECT_EQ(topic.records.size(), 30u);
  // Another one goes on.
  PublisherService service(OpenIn(topic));
  service.SetOrders({{.partition = 0, .assignment = 2, .start = 10}});
  ASSERT_TRUE(Comes(service, 40));
  EXPECT_TRUE(service.Take(Scores({Score(CutOf(40, 41))})).ok());
  ASSERT_TRUE(Comes(service, 41));
  std::lock_guard lock(topic.mutex);
  for (uint64_t i = 0; i < topic.records.size(); ++i)
    EXPECT_THAT(topic.records[i], HasSubstr("\"offset\":" + std::to_string(10 + i) + ","));
}

TEST(PublisherService, AGroupIsWrittenInOneTransaction) {
  Topic topic;
  topic.notes = {{1, 30}, {9, 50}};
  PublisherService service(OpenIn(topic));
  const auto published = [&service] {
    std::map<uint32_t, std::optional<uint64_t>> found;
    for (const auto& report : service.Reports()) found[report.partition] = report.published;
    return found;
  };
  std::vector<protocol::PublisherOrder> orders = {{.partition = 1, .group = 1, .assignment = 4},
                                                  {.partition = 9, .group = 1, .assignment = 4}};
  service.SetOrders(orders);
  using Published = std::map<uint32_t, std::optional<uint64_t>>;
  ASSERT_TRUE(WaitFor([&] { return published() == Published{{1, 30}, {9, 50}}; }));
  EXPECT_EQ(topic.openers[1], 1u);
  // The first split of each comes last, so both partitions are ready at once.
  EXPECT_TRUE(service.Take(Scores({Score(CutOf(40, 45, 1)), Score(CutOf(55, 60, 9))})).ok());
  EXPECT_TRUE(service.Take(Scores({Score(CutOf(30, 40, 1)), Score(CutOf(50, 55, 9))})).ok());
  ASSERT_TRUE(WaitFor([&] { return published() == Published{{1, 45}, {9, 60}}; }));
  {
    std::lock_guard lock(topic.mutex);
    EXPECT_EQ(topic.transactions, 1u);
    EXPECT_EQ(topic.records.size(), 25u);
    // The group goes on with both after an error.
    topic.next_write = Status(Code::kUnavailable, "the connection is lost");
    topic.committed_nevertheless = true;
  }
  EXPECT_TRUE(service.Take(Scores({Score(CutOf(45, 46, 1)), Score(CutOf(60, 61, 9))})).ok());
  ASSERT_TRUE(WaitFor([&] { return published() == Published{{1, 46}, {9, 61}}; }));
  // A partition that has had no event before joins the group, which stays open.
  orders.push_back({.partition = 17, .group = 1, .assignment = 4, .start = 7, .fresh = true});
  service.SetOrders(orders);
  ASSERT_TRUE(WaitFor([&] { return published() == Published{{1, 46}, {9, 61}, {17, 7}}; }));
  std::lock_guard lock(topic.mutex);
  EXPECT_EQ(topic.openers[1], 2u);
  EXPECT_EQ(topic.notes[17], 7u);
  EXPECT_EQ(topic.records.size(), 27u);
}

TEST(PublisherService, WhatItHoldsIsReported) {
  Topic topic;
  PublisherService service(OpenIn(topic));
  service.SetOrders({{.partition = 0, .assignment = 1, .fresh = true}});
  ASSERT_TRUE(Comes(service, 0));
  EXPECT_TRUE(service.Take(Scores({Score(CutOf(10, 20))})).ok());
  const auto report = service.Reports().at(0);
  EXPECT_EQ(report.assignment, 1u);
  EXPECT_EQ(report.published, 0u);
  ASSERT_EQ(report.held.size(), 1u);
  EXPECT_EQ(report.held[0].cut, CutOf(10, 20));
  EXPECT_TRUE(report.held[0].batches.full());
  EXPECT_EQ(RecordsIn(topic), 0u);
  service.SetOrders({});
  EXPECT_THAT(service.Reports(), IsEmpty());
}

TEST(PublisherService, AnotherJobsNoteOrNoNoteIsRefused) {
  Topic topic;
  topic.notes[0] = 7;
  PublisherService service(OpenIn(topic));
  service.SetOrders({{.partition = 0, .assignment = 1, .fresh = true}});
  const auto refused = [&service] {
    const auto reports = service.Reports();
    return !reports.empty() && reports[0].status.code() == Code::kFailedPrecondition;
  };
  ASSERT_TRUE(WaitFor(refused));
  EXPECT_THAT(service.Reports()[0].status.message(), HasSubstr("up to offset 7 already"));
  service.SetOrders({{.partition = 1, .assignment = 2, .fresh = false}});
  ASSERT_TRUE(WaitFor(refused));
  EXPECT_THAT(service.Reports()[0].status.message(), HasSubstr("do not know any more"));
}

TEST(PublisherService, OfTwoThatPublishAPartitionOneIsFenced) {
  Topic topic;
  PublisherService former(OpenIn(topic));
  former.SetOrders({{.partition = 0, .assignment = 1, .fresh = true}});
  ASSERT_TRUE(Comes(former, 0));
  PublisherService later(OpenIn(topic));
  later.SetOrders({{.partition = 0, .assignment = 2, .fresh = true}});
  ASSERT_TRUE(Comes(later, 0));
  EXPECT_TRUE(former.Take(Scores({Score(CutOf(0, 10), 0.5f)})).ok());
  ASSERT_TRUE(WaitFor([&] { return former.Reports()[0].status.code() == Code::kStale; }));
  EXPECT_TRUE(later.Take(Scores({Score(CutOf(0, 10))})).ok());
  ASSERT_TRUE(Comes(later, 10));
  EXPECT_EQ(RecordsIn(topic), 10u);
}

// A feed that keeps the scores it gets.
struct Keeper {
  explicit Keeper(const std::string& address = "127.0.0.1:0") {
    auto started = feed::ServerThread::Start(address, {.token = "token"},
                                             {.open = nullptr,
                                              .assets = {},
                                              .description = "",
                                              .on_scores = [this](std::vector<RunScores> scores) {
                                                std::lock_guard lock(mutex);
                                                if (!refusal.ok()) return refusal;
                                                for (auto& run : scores) taken.push_back(std::move(run));
                                                return Status();
                                              }});
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    feed = std::move(*started);
  }
  size_t count() {
    std::lock_guard lock(mutex);
    return taken.size();
  }
  std::mutex mutex;
  Status refusal;
  std::vector<RunScores> taken;
  std::unique_ptr<feed::ServerThread> feed;
};

ScoreSender::Options SenderOptions(std::function<void()> on_room = {}) {
  return {.feed_at =
              [](const std::string& address) {
                feed::ClientOptions options;
                options.make_transport = [](net::Loop& loop) {
                  return net::MakeTcpTransport(loop, {.token = "token", .port = feed::FeedPort()});
                };
                options.find_feeds = [address]() -> Result<std::vector<std::string>> {
                  return std::vector{address};
                };
                options.connect_timeout = std::chrono::milliseconds(200);
                return options;
              },
          .max_waiting = 25,
          .on_room = std::move(on_room)};
}

TEST(ScoreSender, SendsInOrderToWhoPublishes) {
  Keeper first, second;
  std::atomic<int> rooms = 0;
  ScoreSender sender(SenderOptions([&rooms] { ++rooms; }));
  for (uint64_t i = 0; i < 4; ++i) sender.Send(Score(CutOf(10 * i, 10 * i + 10, i % 2)));
  EXPECT_FALSE(sender.has_room());
  EXPECT_THAT(sender.Unsent(), ElementsAre(protocol::UnsentScores{0, 0}, protocol::UnsentScores{1, 10}));
  sender.SetPublishers({first.feed->address(), ""});
  ASSERT_TRUE(WaitFor([&] { return first.count() == 2; }));
  EXPECT_TRUE(WaitFor([&] { return sender.has_room(); }));
  EXPECT_THAT(sender.Unsent(), ElementsAre(protocol::UnsentScores{1, 10}));
  sender.SetPublishers({first.feed->address(), second.feed->address()});
  ASSERT_TRUE(WaitFor([&] { return second.count() == 2; }));
  sender.Flush(std::chrono::seconds(5));
  EXPECT_THAT(sender.Unsent(), IsEmpty());
  EXPECT_GE(rooms, 1);
  std::lock_guard lock(first.mutex);
  EXPECT_EQ(first.taken[0].cut, CutOf(0, 10));
  EXPECT_EQ(first.taken[1].cut, CutOf(20, 30));
  EXPECT_EQ(first.taken[1].scores, Score(CutOf(20, 30)).scores);
}

TEST(ScoreSender, TriesAgainUntilTheyAreTaken) {
  Keeper keeper;
  keeper.refusal = Status(Code::kNotFound, "not published here");
  ScoreSender sender(SenderOptions());
  sender.SetPublishers({keeper.feed->address()});
  sender.Send(Score(CutOf(0, 10)));
  sender.Send(Score(CutOf(10, 20)));
  sender.Flush(std::chrono::milliseconds(300));
  EXPECT_THAT(sender.Unsent(), ElementsAre(protocol::UnsentScores{0, 0}));
  {
    std::lock_guard lock(keeper.mutex);
    keeper.refusal = Status();
  }
  ASSERT_TRUE(WaitFor([&] { return keeper.count() == 2; }));
  // It knows that they are taken, or it would send them again.
  ASSERT_TRUE(WaitFor([&] { return sender.Unsent().empty(); }));
  // The feed is lost, and another one takes over.
  keeper.feed.reset();
  sender.Send(Score(CutOf(20, 30)));
  Keeper other;
  sender.SetPublishers({other.feed->address()});
  ASSERT_TRUE(WaitFor([&] { return other.count() == 1; }));
}

}  // namespace
}  // namespace leat::roles
