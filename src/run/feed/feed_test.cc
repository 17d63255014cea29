// A remote source against feeds on threads of their own: it reads what the feeds' source has, through lost
// connections and feeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/rng.h"
#include "net/fault/testing.h"
#include "net/testing.h"
#include "net/tls/testing.h"
#include "net/transports.h"
#include "run/feed/client.h"
#include "run/feed/server.h"
#include "stream/files.h"
#include "stream/join/join_source.h"
#include "stream/join/testing.h"
#include "stream/source.h"
#include "stream/testing.h"

namespace leat::feed {
namespace {

using ::testing::HasSubstr;

net::TransportOptions Options(std::shared_ptr<net::TlsIdentity> tls = nullptr) {
  return {
      .token = "token", .port = FeedPort(), .tls = std::move(tls), .stall_timeout = std::chrono::seconds(2)};
}

// A feed on a thread.
class FeedThread {
 public:
  explicit FeedThread(Contents contents, const std::string& address = "127.0.0.1:0",
                      std::shared_ptr<net::TlsIdentity> tls = nullptr)
      : server_(std::move(contents)), transport_(net::MakeTcpTransport(loop_, Options(std::move(tls)))) {
    auto listener = transport_->Listen(address, [this](std::unique_ptr<net::Connection> connection) {
      return server_.Adopt(std::move(connection));
    });
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~FeedThread() {
    loop_.Stop();
    thread_.join();
  }
  const std::string& address() const { return listener_->address(); }

 private:
  net::Loop loop_;
  Server server_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

// Records its requests.
class FakeSource final : public stream::Source {
 public:
  Result<std::vector<stream::PartitionRange>> Ranges() override {
    return std::vector<stream::PartitionRange>{{0, 3, 9, false}, {1, 0, 2, true}};
  }
  Status Read(uint32_t, uint64_t begin, uint64_t end, stream::RecordBatch* out) override {
    const auto wanted = out->wanted;
    *out = stream::BatchOf(std::vector<std::string>(end - begin, "x"), begin);
    out->wanted = wanted;
    for (const auto& attribute : wanted) {
      out->attributes.emplace_back();
      for (uint64_t i = begin; i < end; ++i) out->attributes.back().Append(AsBytes(attribute.header));
    }
    if (begin <= 4 && 4 < end) out->lost.push_back({4 - begin, 5 - begin, "damaged"});
    out->absent = {{end - begin - 1, end - begin}};
    out->expired = 1;
    return begin < 3 ? Status(Code::kNotFound, "retention") : Status();
  }
  Status Pin(const std::string& owner, uint32_t partition, uint64_t offset) override {
    return Say("pin " + owner + " " + std::to_string(partition) + " " + std::to_string(offset));
  }
  Status Sync(uint32_t partition, uint64_t end) override {
    return Say("sync " + std::to_string(partition) + " " + std::to_string(end));
  }
  Status Advance(uint32_t partition, uint64_t end) override {
    return Say("advance " + std::to_string(partition) + " " + std::to_string(end));
  }
  Status Unpin(const std::string& owner) override { return Say("unpin " + owner); }
  Status CommitOffsets(const std::string& group, std::span<const uint64_t> offsets) override {
    return Say("commit " + group + " " + std::to_string(offsets.size()) + " " +
               std::to_string(offsets.back()));
  }
  Result<uint64_t> Fingerprint(uint32_t partition, uint64_t offset) override {
    return 100 * partition + offset;
  }

  // The name of the call becomes the status.
  static Status Say(const std::string& what) { return {Code::kFailedPrecondition, what}; }
};

// A feed on a thread that answers as it is told.
class FakeFeed final : public net::Receiver {
 public:
  using Answer = std::function<std::pair<Reply, Bytes>(const Request&)>;
  explicit FakeFeed(Answer answer)
      : answer_(std::move(answer)), transport_(net::MakeTcpTransport(loop_, Options())) {
    auto listener = transport_->Listen("127.0.0.1:0", [this](std::unique_ptr<net::Connection> connection) {
      connections_.push_back(std::move(connection));
      return this;
    });
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~FakeFeed() override {
    loop_.Stop();
    thread_.join();
  }
  const std::string& address() const { return listener_->address(); }

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView header,
                                                     uint64_t) override {
    LEAT_ASSIGN_OR_RETURN(request_, fields::Decode<Request>(header, "request"));
    return std::vector<std::span<std::byte>>();
  }
  void OnMessage(net::Connection& connection) override {
    auto answer = std::make_shared<std::pair<Reply, Bytes>>(answer_(request_));
    connection.Send(static_cast<uint8_t>(FrameType::kReply), fields::Encode(answer->first), {answer->second},
                    [answer](const Status&) {});
  }
  void OnClosed(net::Connection&, const Status&) override {}

  const Answer answer_;
  Request request_;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<net::Connection>> connections_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

class FeedTest : public ::testing::Test {
 protected:
  static Contents Records(std::vector<std::string> records, uint32_t partitions = 1, uint64_t id = 0) {
    return {.id = id,
            .open = [records = std::move(records), partitions]() -> Result<std::unique_ptr<stream::Source>> {
              return stream::MakeMemorySource(records, partitions);
            }};
  }
  ClientOptions ForFeeds(std::vector<std::string> addresses,
                         std::shared_ptr<net::TlsIdentity> tls = nullptr) {
    ClientOptions options;
    options.make_transport = [tls = std::move(tls)](net::Loop& loop) {
      return net::MakeTcpTransport(loop, Options(tls));
    };
    options.find_feeds = [addresses = std::move(addresses)]() -> Result<std::vector<std::string>> {
      return addresses;
    };
    options.counts = counts_;
    return options;
  }
  std::unique_ptr<stream::Source> Open(ClientOptions options) {
    return MakeRemoteSource(std::make_shared<Client>(std::move(options)));
  }
  static std::vector<std::string> Numbered(size_t count, size_t bytes) {
    std::vector<std::string> records;
    for (size_t i = 0; i < count; ++i)
      records.push_back(std::to_string(i) + "/" + std::string(i * 7919 % bytes, 'x'));
    return records;
  }
  static void ExpectSame(stream::Source& source, const std::vector<std::string>& records) {
    stream::RecordBatch batch;
    const Status read = source.Read(0, 0, records.size(), &batch);
    ASSERT_TRUE(read.ok()) << read.ToString();
    EXPECT_EQ(stream::TextsOf(batch), records);
    ASSERT_EQ(batch.data.size(), batch.offsets.back() + stream::RecordBatch::kPadding);
  }

  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

TEST_F(FeedTest, ReadsWhatTheSourceHas) {
  const auto records = Numbered(5000, 5000);  // several replies
  const FeedThread feed(Records(records));
  const auto source = Open(ForFeeds({feed.address()}));
  const auto ranges = source->Ranges();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  EXPECT_EQ(*ranges, (std::vector<stream::PartitionRange>{{0, 0, 5000, true}}));
  ExpectSame(*source, records);
  stream::RecordBatch batch;
  ASSERT_TRUE(source->Read(0, 100, 103, &batch).ok());
  EXPECT_EQ(batch.first_offset, 100u);
  EXPECT_EQ(stream::TextsOf(batch), std::vector<std::string>(records.begin() + 100, records.begin() + 103));
  ASSERT_TRUE(source->Read(0, 7, 7, &batch).ok());
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_EQ(source->Read(0, 4999, 5001, &batch).code(), Code::kFailedPrecondition);
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_EQ(counts_->retries, 0u);
  EXPECT_GT(counts_->bytes, 10'000'000u);
}

TEST_F(FeedTest, PassesOnWhatAStreamIsAskedFor) {
  const FeedThread feed({.open = []() -> Result<std::unique_ptr<stream::Source>> {
    return std::unique_ptr<stream::Source>(std::make_unique<FakeSource>());
  }});
  const auto source = Open(ForFeeds({feed.address()}));
  EXPECT_EQ(*source->Ranges(), *FakeSource().Ranges());
  EXPECT_EQ(source->Pin("a@b", 1, 2), FakeSource::Say("pin a@b 1 2"));
  EXPECT_EQ(source->Sync(3, 4), FakeSource::Say("sync 3 4"));
  EXPECT_EQ(source->Advance(5, 6), FakeSource::Say("advance 5 6"));
  EXPECT_EQ(source->Unpin("a@b"), FakeSource::Say("unpin a@b"));
  EXPECT_EQ(source->CommitOffsets("g", std::vector<uint64_t>{7, 8}), FakeSource::Say("commit g 2 8"));
  EXPECT_EQ(*source->Fingerprint(2, 5), 205u);
  stream::RecordBatch batch;
  batch.wanted = {{stream::Attribute::Kind::kHeader, "shop"}};
  ASSERT_TRUE(source->Read(0, 3, 9, &batch).ok());
  ASSERT_EQ(batch.lost.size(), 1u);
  EXPECT_EQ(batch.lost[0].begin, 1u);
  EXPECT_EQ(batch.lost[0].end, 2u);
  EXPECT_EQ(batch.lost[0].reason, "damaged");
  EXPECT_EQ(batch.absent, (std::vector<stream::RecordBatch::Absent>{{5, 6}}));
  EXPECT_EQ(batch.expired, 1u);
  EXPECT_EQ(AsText(batch.Value(0, 5).value()), "shop");
  EXPECT_EQ(source->Read(0, 1, 9, &batch), Status(Code::kNotFound, "retention"));
  EXPECT_EQ(batch.size(), 0u);
}

// Events far apart, each with a label of its own, in two partitions.
class JoinedFeedTest : public FeedTest {
 protected:
  static constexpr uint64_t kEvents = 600;

  JoinedFeedTest() {
    for (const auto& topic : {events_, labels_}) {
      topic->partitions.resize(2);
      topic->sealed = true;
    }
    for (uint64_t i = 0; i < kEvents; ++i) {
      const auto time = static_cast<int64_t>(10'000 * i);
      for (const uint32_t partition : {0, 1}) {
        events_->Append(partition, {std::to_string(i), time});
        labels_->Append(partition, {std::to_string(i), time + 5, "label " + std::to_string(i)});
      }
    }
  }
  Contents Joined() const {
    const auto opener = [](std::shared_ptr<stream::MemoryTopic> topic) {
      return [topic]() -> Result<std::unique_ptr<stream::TimedSource>> {
        return std::unique_ptr<stream::TimedSource>(std::make_unique<stream::MemoryTimedSource>(topic));
      };
    };
    return {.open = [events = opener(events_), labels = opener(labels_)] {
      return stream::MakeJoinSource({.open_events = events, .open_labels = labels, .window_ms = 100});
    }};
  }
  // Adds what a source reports now.
  static void Report(stream::Source& source, std::vector<std::vector<stream::LabelMark>>* marks) {
    const auto ranges = source.Ranges();
    ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
    marks->resize(ranges->size());
    for (const auto& range : *ranges) {
      auto& all = (*marks)[range.partition];
      all.insert(all.end(), range.marks.begin(), range.marks.end());
      EXPECT_EQ(range.sealed, !all.empty() && all.back().events == kEvents);
    }
  }

  std::shared_ptr<stream::MemoryTopic> events_ = std::make_shared<stream::MemoryTopic>();
  std::shared_ptr<stream::MemoryTopic> labels_ = std::make_shared<stream::MemoryTopic>();
};

TEST_F(JoinedFeedTest, MarksComeThroughAFeed) {
  const FeedThread feed(Joined());
  const auto source = Open(ForFeeds({feed.address()}));
  const auto unmarked = source->Ranges();
  ASSERT_TRUE(unmarked.ok());
  EXPECT_EQ(*unmarked, (std::vector<stream::PartitionRange>{{0, 0, kEvents, true}, {1, 0, kEvents, true}}));
  for (const uint32_t partition : {0, 1}) source->WantMarks(partition, {}, 2 * kEvents);
  std::vector<std::vector<stream::LabelMark>> marks;
  for (int i = 0; i < 5; ++i) Report(*source, &marks);
  for (const auto& of_partition : marks) {
    ASSERT_EQ(of_partition.size(), kEvents);
    for (uint64_t i = 0; i < kEvents; ++i) EXPECT_EQ(of_partition[i].events, i + 1);
  }
  // Another reader asks the same feed; each goes on where it is.
  const auto other = Open(ForFeeds({feed.address()}));
  other->WantMarks(1, marks[1][99], 2 * kEvents);
  const auto first = other->Ranges();
  ASSERT_TRUE(first.ok());
  ASSERT_FALSE((*first)[1].marks.empty());
  EXPECT_EQ((*first)[1].marks.front().events, 101u);
  const auto nothing = source->Ranges();
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE((*nothing)[0].marks.empty() && (*nothing)[1].marks.empty());
  EXPECT_TRUE((*nothing)[0].sealed && (*nothing)[1].sealed);
  const auto next = other->Ranges();
  ASSERT_TRUE(next.ok());
  ASSERT_FALSE((*next)[1].marks.empty());
  EXPECT_EQ((*next)[1].marks.front().events, (*first)[1].marks.back().events + 1);
}

TEST_F(JoinedFeedTest, LabelsComeWithTheirEvents) {
  const FeedThread feed(Joined());
  const auto source = Open(ForFeeds({feed.address()}));
  stream::RecordBatch batch;
  batch.wanted = {{stream::Attribute::Kind::kKey, ""}, {stream::Attribute::Kind::kLabel, ""}};
  batch.labels_begin = 10;
  batch.labels_end = 500;
  ASSERT_TRUE(source->Read(1, 0, kEvents, &batch).ok());
  ASSERT_EQ(batch.size(), kEvents);
  for (uint64_t i = 0; i < kEvents; ++i) {
    EXPECT_EQ(AsText(batch.Value(0, i).value()), std::to_string(i));
    const auto label = batch.Value(1, i);
    ASSERT_EQ(label.has_value(), 10 <= i && i < 500) << i;
    if (!label) continue;
    EXPECT_EQ(AsText(label->subspan(sizeof(uint64_t))), "label " + std::to_string(i));
  }
  batch.labels_end = kEvents + 1;
  EXPECT_EQ(source->Read(1, 0, kEvents, &batch).code(), Code::kFailedPrecondition);
}

TEST_F(FeedTest, MarksThatDoNotFollowAreDataLoss) {
  std::atomic<uint64_t> room = 0;
  const FakeFeed feed([&room](const Request& request) {
    if (!request.marks.empty()) room = request.marks[0].room;
    Reply reply{.sequence = request.sequence, .checksum = Checksum({}, request.sequence)};
    reply.ranges = {{0, 0, 10, false, {{5, 0, 1}}}};
    return std::pair{reply, Bytes()};
  });
  const auto source = Open(ForFeeds({feed.address()}));
  EXPECT_EQ(source->Ranges().status().code(), Code::kDataLoss) << "nobody asked for marks";
  source->WantMarks(0, {}, 5);
  EXPECT_TRUE(source->Ranges().ok());
  EXPECT_EQ(room, 5u);
  EXPECT_EQ(source->Ranges().status().code(), Code::kDataLoss) << "the same mark again";
  EXPECT_EQ(room, 4u);
  source->WantMarks(0, {}, 0);
  EXPECT_EQ(source->Ranges().status().code(), Code::kDataLoss) << "one too many";
  source->WantMarks(0, {4, 0, 2}, 5);
  EXPECT_EQ(source->Ranges().status().code(), Code::kDataLoss) << "the labels go back";
}

TEST_F(FeedTest, ReadsThroughBrokenConnections) {
  const auto records = Numbered(3000, 30'000);
  const FeedThread feed(Records(records));
  auto options = ForFeeds({feed.address()});
  auto faults = std::make_shared<net::Faults>(net::FaultSchedule{.seed = 5, .cut = 0.2});
  options.make_transport = [faults](net::Loop& loop) {
    return net::MakeFaultTransport(loop, net::MakeTcpTransport(loop, Options()), faults);
  };
  options.first_backoff = options.max_backoff = std::chrono::milliseconds(1);
  const auto source = Open(std::move(options));
  ExpectSame(*source, records);
  EXPECT_GT(counts_->retries, 0u);
}

TEST_F(FeedTest, ALostFeedIsReplacedByTheNext) {
  const auto records = Numbered(1000, 100);
  const FeedThread second(Records(records));
  auto first = std::make_unique<FeedThread>(Records(records));
  auto options = ForFeeds({first->address()});
  // Once the first is lost, the coordinator knows both.
  auto calls = std::make_shared<int>(0);
  options.find_feeds = [calls, a = first->address(), b = second.address()] {
    return Result<std::vector<std::string>>(++*calls == 1 ? std::vector{a} : std::vector{a, b});
  };
  const auto source = Open(std::move(options));
  ExpectSame(*source, records);
  first.reset();
  ExpectSame(*source, records);
  EXPECT_GE(counts_->retries, 1u);
}

TEST_F(FeedTest, AFeedOfAnotherJobIsRefused) {
  const FeedThread other(Records({"wrong"}, 1, 17)), right(Records({"right"}, 1, 18));
  auto options = ForFeeds({other.address(), right.address()});
  options.content = 18;
  ExpectSame(*Open(options), {"right"});
  options.find_feeds = [&]() -> Result<std::vector<std::string>> { return std::vector{other.address()}; };
  options.deadline = std::chrono::milliseconds(300);
  stream::RecordBatch batch;
  const Status read = Open(options)->Read(0, 0, 1, &batch);
  EXPECT_EQ(read.code(), Code::kUnavailable);
  EXPECT_THAT(read.message(), HasSubstr("another job's stream"));
}

TEST_F(FeedTest, NoFeedAnswersInTime) {
  auto options = ForFeeds({});
  options.deadline = std::chrono::milliseconds(200);
  EXPECT_THAT(Open(options)->Sync(0, 1).message(), HasSubstr("the job has no feed"));
  options = ForFeeds({"127.0.0.1:1"});
  options.deadline = std::chrono::milliseconds(200);
  const Status status = Open(options)->Sync(0, 1);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:1"));
}

TEST_F(FeedTest, AnAbortEndsACall) {
  Client client(ForFeeds({}));
  std::thread aborter([&client] { client.Abort(); });
  Reply reply;
  Bytes payload;
  EXPECT_EQ(client.Call({.kind = RequestKind::kRanges}, &reply, &payload).code(), Code::kAborted);
  aborter.join();
}

TEST_F(FeedTest, AFailureToOpenIsTheReplyAndIsTriedAgain) {
  auto opened = std::make_shared<int>(0);
  const FeedThread feed({.open = [opened]() -> Result<std::unique_ptr<stream::Source>> {
    if (++*opened == 1) return Status(Code::kNotFound, "no file yet");
    return stream::MakeMemorySource({"late"}, 1);
  }});
  const auto source = Open(ForFeeds({feed.address()}));
  EXPECT_EQ(source->Ranges().status(), Status(Code::kNotFound, "no file yet"));
  ExpectSame(*source, {"late"});
}

TEST_F(FeedTest, AssetsAreFetchedWholeAndChecked) {
  const TempDir directory;
  const std::string path = directory.path() + "/asset";
  std::string content(9 << 20, '\0');
  Rng rng(3);
  for (char& c : content) c = static_cast<char>(rng());
  std::ofstream(path, std::ios::binary) << content;
  const std::string identity = stream::ToString(*stream::IdentifyFile(path));
  const FeedThread feed({.open = {}, .assets = {{path, identity}}});
  Client client(ForFeeds({feed.address()}));
  const TempDir here;
  const std::string copy = here.path() + "/copy";
  const auto left = [&here] {
    return std::distance(std::filesystem::directory_iterator(here.path()),
                         std::filesystem::directory_iterator());
  };
  const Status fetched = FetchAsset(client, identity, copy);
  ASSERT_TRUE(fetched.ok()) << fetched.ToString();
  std::ifstream in(copy, std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(in), {}) == content);
  EXPECT_EQ(left(), 1);
  std::filesystem::remove(copy);
  EXPECT_EQ(FetchAsset(client, "5:0000000000000001", copy).code(), Code::kNotFound);
  EXPECT_EQ(FetchAsset(client, "99999999999:0000000000000001", copy).code(), Code::kResourceExhausted);
  EXPECT_EQ(FetchAsset(client, "nonsense", copy).code(), Code::kInvalidArgument);
  content[5] ^= 1;
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(FetchAsset(client, identity, copy).code(), Code::kDataLoss);
  std::ofstream(path, std::ios::binary) << "short";
  EXPECT_EQ(FetchAsset(client, identity, copy).code(), Code::kDataLoss);
  EXPECT_EQ(left(), 0) << "what is not the asset is removed";
  EXPECT_EQ(FetchAsset(client, identity, here.path() + "/none/copy").code(), Code::kPermissionDenied);
}

// Servers and bots fetch files of the model, and have no business with the stream.
TEST_F(FeedTest, CertificatesSayWhoMayReadTheStream) {
  const TempDir directory;
  const std::string path = directory.path() + "/asset";
  std::ofstream(path) << "asset";
  const std::string identity = stream::ToString(*stream::IdentifyFile(path));
  net::testing::TestAuthority authority;
  const FeedThread feed({.open = []() -> Result<std::unique_ptr<stream::Source>> {
                           return std::unique_ptr<stream::Source>(new FakeSource());
                         },
                         .assets = {{path, identity}}},
                        "127.0.0.1:0", authority.Identity({"feed"}));
  for (const std::string role : {"worker", "coordinator", "server", "bots"}) {
    const bool reads = role == "worker" || role == "coordinator";
    const auto client = std::make_shared<Client>(ForFeeds({feed.address()}, authority.Identity({role})));
    EXPECT_TRUE(FetchAsset(*client, identity, directory.path() + "/copy").ok()) << role;
    EXPECT_TRUE(Describe(*client).ok()) << role;
    const auto source = MakeRemoteSource(client);
    const auto ranges = source->Ranges();
    EXPECT_EQ(ranges.ok(), reads) << role;
    EXPECT_THAT(ranges.status().message(), HasSubstr(reads ? "" : "the certificate is for the role " + role));
    stream::RecordBatch records;
    EXPECT_EQ(source->Read(0, 3, 4, &records).ok(), reads) << role;
    const bool changes = role == "coordinator";
    const std::vector<uint64_t> offsets = {3};
    for (const Status& status : {source->Sync(0, 9), source->Advance(0, 9), source->Pin("job", 0, 3),
                                 source->Unpin("job"), source->CommitOffsets("group", offsets)}) {
      EXPECT_EQ(status.code(), changes ? Code::kFailedPrecondition : Code::kPermissionDenied)
          << role << ": " << status.ToString();
    }
    source->WantMarks(0, {}, 1);  // for all readers of this feed
    EXPECT_EQ(source->Ranges().ok(), changes) << role;
  }
}

TEST_F(FeedTest, DescribesItsContents) {
  const FeedThread feed({.open = {}, .description = "columns: [x]"});
  Client client(ForFeeds({feed.address()}));
  const auto text = Describe(client);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "columns: [x]");
}

// Answers with one record for each offset; `change` is applied to the first `replies` replies.
FakeFeed::Answer Answering(uint32_t records, int replies, const std::function<void(Reply*)>& change) {
  auto left = std::make_shared<int>(replies);
  return [=](const Request& request) {
    const Bytes payload = EncodeRecords(stream::BatchOf(std::vector<std::string>(records, "x")));
    Reply reply{.sequence = request.sequence, .records = records};
    reply.checksum = Checksum(payload, request.sequence);
    if ((*left)-- > 0) change(&reply);
    return std::pair(reply, payload);
  };
}

TEST_F(FeedTest, ADamagedReplyIsAskedForAgain) {
  const std::function<void(Reply*)> changes[] = {[](Reply* reply) { ++reply->checksum; },
                                                 [](Reply* reply) { ++reply->sequence; }};
  for (const auto& change : changes) {
    counts_ = std::make_shared<Counts>();
    const FakeFeed feed(Answering(3, 1, change));
    ExpectSame(*Open(ForFeeds({feed.address()})), {"x", "x", "x"});
    EXPECT_EQ(counts_->retries, 1u);
  }
}

TEST_F(FeedTest, OtherRecordsThanAskedForAreDataLoss) {
  for (const uint32_t records : {0u, 4u}) {
    const FakeFeed feed(Answering(records, 0, nullptr));
    stream::RecordBatch batch;
    EXPECT_EQ(Open(ForFeeds({feed.address()}))->Read(0, 0, 3, &batch).code(), Code::kDataLoss) << records;
    EXPECT_EQ(batch.size(), 0u);
  }
}

// A peer that asks again and again without reading would fill the feed's memory.
TEST_F(FeedTest, APeerThatAsksAgainBeforeTheReplyLosesItsConnection) {
  const TempDir folder;
  const std::string path = folder.path() + "/asset";
  std::ofstream(path) << std::string(Server::kMaxAssetBytes, 'x');
  const FeedThread feed({.open = {}, .assets = {{.path = path, .identity = "a"}}});
  net::Loop loop;
  const auto transport = net::MakeTcpTransport(loop, Options());
  net::testing::Recorder peer;
  std::unique_ptr<net::Connection> connection;
  constexpr size_t kRequests = 8;  // their replies do not fit into the buffers of sockets
  transport->Connect(feed.address(), &peer, std::chrono::seconds(60), [&](auto connected) {
    ASSERT_TRUE(connected.ok());
    connection = std::move(*connected);
    for (uint64_t i = 1; i <= kRequests; ++i) {
      const Request request{
          .sequence = i, .kind = RequestKind::kAsset, .end = Server::kMaxAssetBytes, .name = "a"};
      connection->Send(static_cast<uint8_t>(FrameType::kRequest), fields::Encode(request), {});
    }
  });
  ASSERT_TRUE(net::testing::RunUntil(
      loop, [&] { return peer.closed.has_value() || peer.messages.size() == kRequests; }));
  EXPECT_TRUE(peer.closed.has_value());
}

TEST_F(FeedTest, APeerThatViolatesTheProtocolLosesItsConnectionOnly) {
  const FeedThread feed(Records({"one"}));
  net::Loop loop;
  const auto transport = net::MakeTcpTransport(loop, Options());
  class Peer final : public net::Receiver {
   public:
    Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView,
                                                       uint64_t) override {
      return Status(Code::kDataLoss, "unexpected");
    }
    void OnMessage(net::Connection&) override {}
    void OnClosed(net::Connection&, const Status&) override { closed = true; }
    bool closed = false;
  };
  Peer peer;
  std::unique_ptr<net::Connection> connection;
  transport->Connect(feed.address(), &peer, std::chrono::seconds(60), [&](auto connected) {
    ASSERT_TRUE(connected.ok());
    connection = std::move(*connected);
    connection->Send(1, Bytes(3), {});
  });
  const Time until = loop.Now() + std::chrono::seconds(60);
  while (!peer.closed && loop.Now() < until) loop.RunOnce(std::chrono::milliseconds(5));
  EXPECT_TRUE(peer.closed);
  ExpectSame(*Open(ForFeeds({feed.address()})), {"one"});
}

}  // namespace
}  // namespace leat::feed
