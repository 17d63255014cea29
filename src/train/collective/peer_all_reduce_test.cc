#include "train/collective/peer_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "net/same_host/shared_memory.h"
#include "net/transports.h"
#include "train/collective/testing.h"

namespace leat::collective {
namespace {

using testing::Cluster;
using ::testing::HasSubstr;
using testing::RandomFloats;

// Small limits, so that small buckets take every path in many pieces.
PeerOptions SmallPieces() {
  PeerOptions options;
  options.exchange_bytes = 256;
  options.piece_bytes = 1024;
  options.eager_bytes = 2048;
  return options;
}

std::span<std::byte> BytesOf(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// A bucket on each member, and its outcome.
struct Together {
  explicit Together(Cluster& its_cluster)
      : cluster(its_cluster), data(cluster.size()), ended(cluster.size()) {}

  void Fill(size_t elements, uint64_t seed) {
    for (size_t rank = 0; rank < data.size(); ++rank) data[rank] = RandomFloats(elements, seed * 100 + rank);
    given = data;
  }
  void Start(size_t rank) {
    cluster[rank].all->Start({.data = BytesOf(data[rank])},
                             [this, rank](const Status& status) { ended[rank] = status; });
  }
  bool AllEnded(const std::vector<size_t>& but = {}) const {
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      if (!ended[rank].has_value() && std::ranges::find(but, rank) == but.end()) return false;
    }
    return true;
  }
  // Compares with a sum in double precision, and the bits across members.
  void Check() const {
    for (size_t rank = 0; rank < data.size(); ++rank) {
      ASSERT_TRUE(ended[rank].has_value() && ended[rank]->ok()) << ended[rank]->ToString();
      EXPECT_TRUE(SameBits(data[rank], data[0])) << "rank " << rank;
    }
    for (size_t i = 0; i < data[0].size(); ++i) {
      double sum = 0, size = 0;
      for (const auto& v : given) {
        sum += v[i];
        size += std::abs(v[i]);
      }
      ASSERT_NEAR(data[0][i], sum, 1e-6 * size) << "element " << i;
    }
  }

  Cluster& cluster;
  std::vector<std::vector<float>> data, given;
  std::vector<std::optional<Status>> ended;
};

struct Size {
  uint32_t members;
  bool tcp;
};

class AllReduceSizes : public ::testing::TestWithParam<Size> {};

TEST_P(AllReduceSizes, AreTheSumEverywhere) {
  Cluster cluster({.members = GetParam().members, .options = SmallPieces(), .tcp = GetParam().tcp});
  ASSERT_TRUE(cluster.FormAll());
  uint64_t seed = 1;
  for (const size_t elements : {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 101, 127, 1009, 4096, 10007, 65537}) {
    SCOPED_TRACE(elements);
    Together bucket(cluster);
    bucket.Fill(elements, ++seed);
    for (size_t rank = 0; rank < cluster.size(); ++rank) bucket.Start(rank);
    ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
    bucket.Check();
  }
}

INSTANTIATE_TEST_SUITE_P(Members, AllReduceSizes,
                         ::testing::Values(Size{1, false}, Size{2, false}, Size{3, false}, Size{4, false},
                                           Size{5, false}, Size{6, false}, Size{7, false}, Size{8, false},
                                           Size{2, true}, Size{4, true}, Size{5, true}),
                         [](const auto& given) {
                           return std::to_string(given.param.members) + (given.param.tcp ? "Tcp" : "");
                         });

TEST(AllReduceTest, UsualSettingsWithALargeBucket) {
  for (const uint32_t members : {2u, 3u}) {
    Cluster cluster({.members = members, .tcp = true});
    ASSERT_TRUE(cluster.FormAll());
    Together bucket(cluster);
    bucket.Fill(3'000'001, members);
    for (size_t rank = 0; rank < cluster.size(); ++rank) bucket.Start(rank);
    ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
    bucket.Check();
  }
}

// Shared payloads are added in place and copied past the caches, at any alignment.
TEST(AllReduceTest, BucketsInSharedMemory) {
  for (const uint32_t members : {2u, 3u}) {
    PeerOptions options = SmallPieces();
    options.piece_bytes = 64 << 10;  // smaller ones are copied, not shared
    Cluster cluster({.members = members, .options = options, .ucx = true});
    ASSERT_TRUE(cluster.FormAll());
    for (const size_t elements : {999, 65'536, 200'001}) {
      for (const size_t from : {0, 3}) {
        SCOPED_TRACE(std::to_string(members) + " members, " + std::to_string(elements) + " from " +
                     std::to_string(from));
        Together bucket(cluster);
        bucket.Fill(elements, elements + from);
        std::vector<Buffer> memories;
        net::Spans places;
        for (size_t rank = 0; rank < members; ++rank) {
          const Buffer& memory =
              memories.emplace_back(net::MakeSharedBuffer((elements + from) * sizeof(float)));
          ASSERT_TRUE(net::FindSharedRegion(memory.bytes()));
          places.push_back(memory.bytes().subspan(from * sizeof(float)));
          std::ranges::copy(BytesOf(bucket.data[rank]), places[rank].begin());
          cluster[rank].all->Start({.data = places[rank], .memory = memory},
                                   [&bucket, rank](const Status& status) { bucket.ended[rank] = status; });
        }
        ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
        for (size_t rank = 0; rank < members; ++rank)
          std::ranges::copy(places[rank], BytesOf(bucket.data[rank]).begin());
        bucket.Check();
      }
    }
  }
}

// ---- gather_only

// Each member's contribution, in memory that the others can read.
struct GatherOnlyCase {
  GatherOnlyCase(Cluster& its_cluster, size_t elements, uint64_t seed)
      : cluster(its_cluster), ended(cluster.size()) {
    for (size_t rank = 0; rank < cluster.size(); ++rank) {
      given.push_back(RandomFloats(elements, seed * 100 + rank));
      memories.push_back(net::MakeSharedBuffer(elements * sizeof(float)));
      std::ranges::copy(BytesOf(given[rank]), memories[rank].data());
    }
  }
  void Start(size_t rank) {
    cluster[rank].all->Start({.data = memories[rank].bytes(), .memory = memories[rank], .gather_only = true},
                             [this, rank](const Status& status) { ended[rank] = status; });
  }
  void StartAll() {
    for (size_t rank = 0; rank < cluster.size(); ++rank) Start(rank);
  }
  bool AllEnded() const {
    return std::ranges::all_of(ended, [](const auto& status) { return status.has_value(); });
  }
  // Expects every member to read all contributions.
  void Check(size_t rank) const {
    ASSERT_TRUE(ended[rank].has_value() && ended[rank]->ok()) << ended[rank]->ToString();
    const auto seen = cluster[rank].all->Contributions();
    ASSERT_TRUE(seen.ok()) << seen.status().ToString();
    ASSERT_EQ(seen->size(), cluster.size());
    for (size_t r = 0; r < seen->size(); ++r) {
      EXPECT_TRUE(std::ranges::equal((*seen)[r], std::as_bytes(std::span(given[r])))) << r << " by " << rank;
    }
    EXPECT_EQ((*seen)[rank].data(), memories[rank].data());
  }

  Cluster& cluster;
  std::vector<std::vector<float>> given;
  std::vector<Buffer> memories;
  std::vector<std::optional<Status>> ended;
};

PeerOptions OneShot() {
  PeerOptions options = SmallPieces();
  options.one_shot = true;
  return options;
}

struct Way {
  const char* name;
  bool tcp, ucx;
};
class GatherOnlyTest : public ::testing::TestWithParam<Way> {
 protected:
  Cluster::Settings Of(uint32_t members) const {
    return {.members = members, .options = OneShot(), .tcp = GetParam().tcp, .ucx = GetParam().ucx};
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, GatherOnlyTest,
                         ::testing::Values(Way{"Inproc", false, false}, Way{"Tcp", true, false},
                                           Way{"Ucx", false, true}),
                         [](const auto& given) { return given.param.name; });

TEST_P(GatherOnlyTest, EveryMemberReadsAllContributions) {
  for (const uint32_t members : {1u, 2u, 3u, 4u}) {
    Cluster cluster(Of(members));
    ASSERT_TRUE(cluster.FormAll());
    Rng rng(members);
    for (const size_t elements : {1, 100, 9'000, 20'000, 400'000}) {
      SCOPED_TRACE(std::to_string(members) + " members, " + std::to_string(elements));
      GatherOnlyCase bucket(cluster, elements, elements);
      // In any order, and some before the others have started.
      std::vector<size_t> order(members);
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::shuffle(order, rng);
      for (const size_t rank : order) {
        bucket.Start(rank);
        int turns = 0;
        ASSERT_TRUE(cluster.Run([&] { return ++turns > 20; }));
      }
      Together other(cluster);  // a normal bucket proceeds meanwhile
      other.Fill(1'000, elements);
      for (size_t rank = 0; rank < members; ++rank) other.Start(rank);
      ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded() && other.AllEnded(); }));
      other.Check();
      for (size_t rank = 0; rank < members; ++rank) bucket.Check(rank);
      for (size_t rank = 0; rank < members; ++rank) cluster[rank].all->Release();
      EXPECT_TRUE(cluster.Run([&] {
        return std::ranges::none_of(bucket.memories, [](const Buffer& memory) { return memory.shared(); });
      })) << "released, and still held";
    }
  }
}

// A slow member may read contributions as long as it needs, while the others proceed.
TEST(ApartInSharedMemory, OneMemberMayBeAStepAhead) {
  Cluster cluster({.members = 2, .options = OneShot(), .ucx = true});
  ASSERT_TRUE(cluster.FormAll());
  GatherOnlyCase first(cluster, 50'000, 1), second(cluster, 50'000, 2);
  first.StartAll();
  ASSERT_TRUE(cluster.Run([&] { return first.AllEnded(); }));
  first.Check(0);
  cluster[0].all->Release();
  second.Start(0);
  int turns = 0;
  ASSERT_TRUE(cluster.Run([&] { return ++turns > 200; }));
  EXPECT_TRUE(first.memories[0].shared());
  EXPECT_FALSE(first.memories[1].shared());
  first.Check(1);
  cluster[1].all->Release();
  ASSERT_TRUE(cluster.Run([&] { return !first.memories[0].shared(); }));
  second.Start(1);
  ASSERT_TRUE(cluster.Run([&] { return second.AllEnded(); }));
  cluster[0].all->Release();
  ASSERT_TRUE(cluster.Run([&] { return !second.memories[1].shared(); }));
  EXPECT_TRUE(second.memories[0].shared()) << "released with the one before";
  second.Check(1);
}

TEST_P(GatherOnlyTest, WithTheGroupItIsOver) {
  Cluster cluster(Of(3));
  ASSERT_TRUE(cluster.FormAll());
  GatherOnlyCase bucket(cluster, 50'000, 1);
  bucket.StartAll();
  ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
  cluster[1].all->Abort({Code::kAborted, "enough"});
  EXPECT_FALSE(cluster[1].all->Contributions().ok());
  bucket.Check(0);
  ASSERT_TRUE(cluster.Run(
      [&] { return !cluster[0].all->Contributions().ok() && !cluster[2].all->Contributions().ok(); }));
  for (size_t rank = 0; rank < 3; ++rank) cluster[rank].all->Release();
  EXPECT_TRUE(cluster.Run([&] {
    return std::ranges::none_of(bucket.memories, [](const Buffer& memory) { return memory.shared(); });
  }));
}

TEST_P(GatherOnlyTest, AMemberThatDiesBeforeEndsIt) {
  Cluster cluster(Of(3));
  ASSERT_TRUE(cluster.FormAll());
  GatherOnlyCase bucket(cluster, 50'000, 1);
  bucket.Start(0);
  bucket.Start(1);
  int turns = 0;
  ASSERT_TRUE(cluster.Run([&] { return ++turns > 50; }));
  cluster.Kill(2);
  ASSERT_TRUE(cluster.Run([&] { return bucket.ended[0].has_value() && bucket.ended[1].has_value(); }));
  EXPECT_FALSE(bucket.ended[0]->ok());
  EXPECT_FALSE(bucket.ended[1]->ok());
}

TEST(AllReduceTest, OneShotIsForFewMembersOfOneHost) {
  EXPECT_TRUE(OneShotPays({"a:1", "a:2"}));
  EXPECT_TRUE(OneShotPays({"a:1", "a:2", "a:3", "a:4"}));
  EXPECT_FALSE(OneShotPays({"a:1", "a:2", "a:3", "a:4", "a:5"}));
  EXPECT_FALSE(OneShotPays({"a:1", "b:2"}));
}

TEST(AllReduceTest, ManyBucketsAtATimeWhileMembersStartThemAtTheirOwnPace) {
  constexpr size_t kBuckets = 40;
  Cluster cluster({.members = 4, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  Rng rng(3);
  std::vector<std::unique_ptr<Together>> buckets;
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets.push_back(std::make_unique<Together>(cluster));
    buckets.back()->Fill(rng() % 5000, i);
  }
  std::vector<size_t> next(cluster.size(), 0);
  ASSERT_TRUE(cluster.Run([&] {
    // The members start buckets one after the other, so that some pieces arrive early.
    const size_t rank = rng() % cluster.size();
    for (uint64_t n = rng() % 8; n > 0 && next[rank] < kBuckets; --n) buckets[next[rank]++]->Start(rank);
    return std::ranges::all_of(buckets, [](const auto& b) { return b->AllEnded(); });
  }));
  for (const auto& bucket : buckets) bucket->Check();
}

TEST(AllReduceTest, LateMessagesChangeNothing) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const auto faults = std::make_shared<net::Faults>(
        net::FaultSchedule{.seed = seed, .delay = 0.3, .longest_delay = std::chrono::milliseconds(2)});
    Cluster cluster({.members = 5, .options = SmallPieces(), .faults = faults});
    ASSERT_TRUE(cluster.FormAll());
    Together small(cluster), large(cluster);
    small.Fill(31, seed);
    large.Fill(9001, seed + 50);
    for (size_t rank = 0; rank < cluster.size(); ++rank) {
      small.Start(rank);
      large.Start(rank);
    }
    ASSERT_TRUE(cluster.Run([&] { return small.AllEnded() && large.AllEnded(); }));
    small.Check();
    large.Check();
    EXPECT_GT(faults->count(net::Fault::kDelay), 0u);
  }
}

TEST(AllReduceTest, ALateMemberIsSentNoMoreThanWasAgreed) {
  Cluster cluster({.members = 2, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  Together bucket(cluster);
  bucket.Fill(100'000, 1);
  bucket.Start(0);
  // An unexpected piece would be an error; here all pieces have long arrived.
  int turns = 0;
  ASSERT_TRUE(cluster.Run([&] { return ++turns > 2000; }));
  bucket.Start(1);
  ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
  bucket.Check();
}

// Rank 1 is ahead by more and more buckets, each with fewer early bytes than were agreed.
TEST(AllReduceTest, APeerCannotMakeAMemberKeepMoreThanTheLimit) {
  for (const size_t elements : {500u, 1u}) {
    PeerOptions options = SmallPieces();
    options.max_early_bytes = elements == 1 ? 100 * 4096 : 100'000;
    Cluster cluster({.members = 2, .options = options});
    ASSERT_TRUE(cluster.FormAll());
    std::vector<std::unique_ptr<Together>> buckets;
    const auto start = [&] {
      buckets.push_back(std::make_unique<Together>(cluster));
      buckets.back()->Fill(elements, 1);
      buckets.back()->Start(1);
    };
    // As many as fit are kept, and complete.
    const size_t fit = elements == 1 ? 100 : 24;
    for (int step = 0; step < 3; ++step) {
      buckets.clear();
      for (size_t i = 0; i < fit; ++i) start();
      int turns = 0;
      ASSERT_TRUE(cluster.Run([&] { return ++turns > 500; }));
      for (auto& bucket : buckets) {
        EXPECT_FALSE(bucket->ended[1].has_value());
        bucket->Start(0);
      }
      ASSERT_TRUE(cluster.Run([&] {
        return std::ranges::all_of(buckets, [](const auto& bucket) { return bucket->AllEnded(); });
      }));
      for (const auto& bucket : buckets) bucket->Check();
    }
    // More than that end the group.
    buckets.clear();
    for (size_t i = 0; i < 2 * fit; ++i) start();
    ASSERT_TRUE(cluster.Run([&] { return buckets.back()->ended[1].has_value(); }));
    EXPECT_FALSE(buckets.back()->ended[1]->ok());
  }
}

TEST(AllReduceTest, OnOneHostOnlyPiecesAreLargeAndOnlySmallBucketsExchanged) {
  EXPECT_EQ(ExchangeBytes({"a:1", "a:2"}), 16u << 10);
  EXPECT_EQ(ExchangeBytes({"a:1", "b:1", "a:2"}), 64u << 10);
  EXPECT_EQ(PieceBytes({"a:1", "a:2"}), 1u << 20);
  EXPECT_EQ(PieceBytes({"a:1", "b:1", "a:2"}), 256u << 10);
}

// Members made by the factory support gather_only for a few members of one host, as jobs need it, and
// otherwise not.
TEST(AllReduceTest, AJobsGroupFollowsFromItsAddresses) {
  const auto supports_gather_only = [](std::vector<std::string> addresses) {
    net::Loop loop;
    const auto transport = net::MakeTcpTransport(loop, {});
    Port port;
    return MakePeerAllReduce(loop, *transport, port, {.addresses = std::move(addresses)}, {})
        ->supports_gather_only();
  };
  EXPECT_TRUE(supports_gather_only({"127.0.0.1:1", "127.0.0.1:2"}));
  EXPECT_FALSE(supports_gather_only({"127.0.0.1:1", "127.0.0.2:2"}));
  EXPECT_FALSE(
      supports_gather_only({"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"}));
}

TEST(AllReduceTest, MaximumOfWords) {
  Cluster cluster({.members = 3, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  std::vector<std::vector<uint64_t>> data;
  for (uint64_t rank = 0; rank < 3; ++rank) {
    data.emplace_back(1000);
    for (uint64_t i = 0; i < 1000; ++i) data[rank][i] = (i + rank) % 3 + (uint64_t{1} << 63);
  }
  int ended = 0;
  for (size_t rank = 0; rank < 3; ++rank) {
    cluster[rank].all->Start({.data = std::as_writable_bytes(std::span(data[rank])), .reduce = kMaxU64},
                             [&](const Status& status) { ended += status.ok(); });
  }
  ASSERT_TRUE(cluster.Run([&] { return ended == 3; }));
  for (const auto& words : data) EXPECT_THAT(words, ::testing::Each((uint64_t{1} << 63) + 2));
}

// Ranks own contiguous blocks of lanes. For any distribution the bits are those of adding one lane after the
// other.
TEST(AllReduceTest, LanesAreAddedInOrderForAnyDistribution) {
  constexpr size_t kLanes = 8;
  for (const size_t elements : {1, 100, 5003}) {
    std::vector<std::vector<float>> lanes;
    for (size_t v = 0; v < kLanes; ++v) lanes.push_back(RandomFloats(elements, 10 + v));
    std::vector<float> expected = lanes[0];
    for (size_t v = 1; v < kLanes; ++v) {
      for (size_t i = 0; i < elements; ++i) expected[i] += lanes[v][i];
    }
    for (const uint32_t members : {1u, 2u, 3u, 4u, 5u, 8u, 11u}) {
      SCOPED_TRACE(members);
      Cluster cluster({.members = members, .options = SmallPieces()});
      ASSERT_TRUE(cluster.FormAll());
      auto mine = lanes;
      std::vector<std::vector<float>> results(members, std::vector<float>(elements, -1.0f));
      size_t ended = 0;
      for (uint32_t rank = 0; rank < members; ++rank) {
        Bucket bucket{.data = BytesOf(results[rank]), .order = Order::kLanes};
        for (size_t v = 0; v < kLanes; ++v) {
          if (v * members / kLanes != rank) continue;
          // On some ranks the first lane is in the memory of the result.
          if (bucket.lanes.empty() && rank % 2 == 1) {
            results[rank] = mine[v];
            bucket.data = BytesOf(results[rank]);
            bucket.lanes.push_back(bucket.data);
          } else {
            bucket.lanes.push_back(BytesOf(mine[v]));
          }
        }
        cluster[rank].all->Start(std::move(bucket), [&](const Status& status) { ended += status.ok(); });
      }
      ASSERT_TRUE(cluster.Run([&] { return ended == members; }));
      for (const auto& result : results) EXPECT_TRUE(SameBits(result, expected));
      EXPECT_EQ(mine, lanes);
    }
  }
}

TEST(AllReduceTest, DisagreeingMembersGetAnError) {
  Cluster cluster({.members = 2, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  std::vector<float> a(1000), b(2000);
  std::optional<Status> ended[2];
  cluster[0].all->Start({.data = BytesOf(a)}, [&](const Status& s) { ended[0] = s; });
  cluster[1].all->Start({.data = BytesOf(b)}, [&](const Status& s) { ended[1] = s; });
  ASSERT_TRUE(cluster.Run([&] { return ended[0].has_value() && ended[1].has_value(); }));
  for (const auto& status : ended) {
    EXPECT_EQ(status->code(), Code::kInvalidArgument);
    EXPECT_THAT(status->message(), HasSubstr("4000"));
    EXPECT_THAT(status->message(), HasSubstr("8000"));
  }
}

// ---- failures

// Kills a member after a number of loop iterations. Every other member must end with an error that names it,
// and no memory may change afterwards.
void DieAfter(int turns, uint32_t members, uint32_t victim, Order order, size_t elements, bool tcp) {
  Cluster cluster({.members = members, .options = SmallPieces(), .tcp = tcp});
  ASSERT_TRUE(cluster.FormAll());
  Together bucket(cluster);
  bucket.Fill(elements, 7);
  for (size_t rank = 0; rank < members; ++rank) {
    Bucket mine{.data = BytesOf(bucket.data[rank]), .order = order};
    if (order == Order::kLanes) mine.lanes = {mine.data};
    cluster[rank].all->Start(std::move(mine), [&, rank](const Status& s) { bucket.ended[rank] = s; });
  }
  int turn = 0;
  cluster.Run([&] { return ++turn > turns || bucket.AllEnded(); });
  if (bucket.AllEnded()) return;  // it was complete before
  const bool over = bucket.ended[victim].has_value();
  cluster.Kill(victim);
  // A member may have received everything before.
  ASSERT_TRUE(cluster.Run([&] {
    for (uint32_t rank = 0; rank < members; ++rank) {
      if (rank != victim && !cluster[rank].all->lost().has_value()) return false;
    }
    return bucket.AllEnded({victim});
  })) << "after "
      << turns << " turns " << over;
  const auto then = bucket.data;
  for (uint32_t rank = 0; rank < members; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(cluster[rank].all->lost(), victim);
    if (!bucket.ended[rank]->ok()) {
      EXPECT_EQ(bucket.ended[rank]->code(), Code::kUnavailable);
      EXPECT_THAT(bucket.ended[rank]->message(), HasSubstr("rank " + std::to_string(victim) + " ("));
    }
    // Later buckets end likewise.
    std::vector<float> later(100, 1.0f);
    std::optional<Status> ended;
    cluster[rank].all->Start({.data = BytesOf(later)}, [&](const Status& s) { ended = s; });
    EXPECT_FALSE(ended.has_value());
    ASSERT_TRUE(cluster.Run([&] { return ended.has_value(); }));
    EXPECT_FALSE(ended->ok());
  }
  EXPECT_EQ(then, bucket.data);
}

TEST(AllReduceFailures, AMemberDiesInTheRing) {
  for (int turns = 0; turns < 40; turns += 1)
    DieAfter(turns, 4, static_cast<uint32_t>(turns) % 4, Order::kAny, 20'000, false);
  for (int turns = 0; turns < 40; turns += 5)
    DieAfter(turns, 3, static_cast<uint32_t>(turns) % 3, Order::kAny, 20'000, true);
}
TEST(AllReduceFailures, AMemberDiesInTheExchange) {
  for (int turns = 0; turns < 12; ++turns)
    DieAfter(turns, 5, static_cast<uint32_t>(turns) % 5, Order::kAny, 50, false);
}
TEST(AllReduceFailures, AMemberDiesInTheChain) {
  for (int turns = 0; turns < 40; turns += 1)
    DieAfter(turns, 4, static_cast<uint32_t>(turns) % 4, Order::kLanes, 20'000, false);
}

TEST(AllReduceFailures, AMemberThatStandsStillIsNamedByAllWithinTheDeadline) {
  for (const bool ring : {true, false}) {
    PeerOptions options = SmallPieces();
    options.deadline = std::chrono::milliseconds(400);
    Cluster cluster({.members = 5, .options = options, .tcp = true});
    ASSERT_TRUE(cluster.FormAll());
    Together bucket(cluster);
    bucket.Fill(ring ? 20'000 : 20, 1);
    cluster[3].frozen = true;
    const Time begin = MonotonicClock().Now();
    for (const size_t rank : {0, 1, 2, 4}) bucket.Start(rank);
    ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded({3}); }));
    EXPECT_LT(MonotonicClock().Now() - begin, std::chrono::seconds(30));
    int blame = 0;  // members that found it themselves, not by another's abort
    for (const size_t rank : {0, 1, 2, 4}) {
      EXPECT_EQ(bucket.ended[rank]->code(), Code::kDeadlineExceeded);
      EXPECT_THAT(bucket.ended[rank]->message(), HasSubstr("rank 3 ("));
      EXPECT_THAT(bucket.ended[rank]->message(), HasSubstr("does not answer"));
      EXPECT_EQ(cluster[rank].all->lost(), 3u);
      blame += cluster[rank].all->unreachable() == 3u;
    }
    EXPECT_GE(blame, 1);
  }
}

TEST(AllReduceFailures, AMemberWhoseHostIsSilentIsUnreachableAtOnce) {
  const auto faults = std::make_shared<net::Faults>();
  Cluster cluster({.members = 2, .options = SmallPieces(), .faults = faults});
  ASSERT_TRUE(cluster.FormAll());
  Together bucket(cluster);
  bucket.Fill(20'000, 1);
  bucket.Start(1);
  faults->SetSilent(false);  // is not news
  EXPECT_FALSE(cluster[1].all->unreachable().has_value());
  faults->SetSilent(true);
  ASSERT_TRUE(cluster.Run([&] { return bucket.ended[1].has_value(); }));
  EXPECT_EQ(cluster[1].all->unreachable(), 0u);
  EXPECT_EQ(bucket.ended[1]->code(), Code::kUnavailable);
  EXPECT_THAT(bucket.ended[1]->message(), HasSubstr("rank 0 ("));
  EXPECT_THAT(bucket.ended[1]->message(), HasSubstr("no sign of life"));
}

TEST(AllReduceFailures, AMemberThatIsSlowIsWaitedFor) {
  PeerOptions options = SmallPieces();
  options.deadline = std::chrono::milliseconds(200);
  for (const size_t floats : {20, 20'000}) {
    Cluster cluster({.members = 4, .options = options});
    ASSERT_TRUE(cluster.FormAll());
    Together bucket(cluster);
    bucket.Fill(floats, 1);
    for (const size_t rank : {0, 2, 3}) bucket.Start(rank);
    const Time begin = MonotonicClock().Now();
    ASSERT_TRUE(cluster.Run([&] {
      return MonotonicClock().Now() - begin > 5 * options.deadline || bucket.AllEnded({0, 1, 2, 3});
    }));
    bucket.Start(1);
    ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
    for (const size_t rank : {0, 1, 2, 3}) {
      EXPECT_TRUE(bucket.ended[rank]->ok()) << bucket.ended[rank]->ToString();
      EXPECT_FALSE(cluster[rank].all->unreachable().has_value());
    }
  }
}

TEST(AllReduceFailures, AbortReachesEverybodyWithItsReason) {
  Cluster cluster({.members = 4, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  Together bucket(cluster);
  bucket.Fill(20'000, 1);
  for (const size_t rank : {0, 1, 2}) bucket.Start(rank);
  cluster[1].all->Abort({Code::kAborted, "the view has changed"});
  const auto then = bucket.data[1];
  EXPECT_FALSE(bucket.ended[1].has_value());
  ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded({3}); }));
  for (const size_t rank : {0, 1, 2})
    EXPECT_EQ(*bucket.ended[rank], Status(Code::kAborted, "the view has changed"));
  EXPECT_EQ(bucket.data[1], then);
  EXPECT_FALSE(cluster[0].all->lost().has_value());
  // The same processes form another group.
  cluster.NextGroup();
  ASSERT_TRUE(cluster.FormAll());
  Together again(cluster);
  again.Fill(20'000, 2);
  for (size_t rank = 0; rank < 4; ++rank) again.Start(rank);
  ASSERT_TRUE(cluster.Run([&] { return again.AllEnded(); }));
  again.Check();
}

TEST(AllReduceFailures, CutsOfConnectionsEndItEverywhere) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto faults = std::make_shared<net::Faults>();
    Cluster cluster({.members = 4, .options = SmallPieces(), .faults = faults});
    ASSERT_TRUE(cluster.FormAll());
    Together bucket(cluster);
    bucket.Fill(20'000, seed);
    for (uint64_t i = 0; i < seed; ++i) faults->Next(net::Fault::kNone);
    faults->Next(seed % 2 == 0 ? net::Fault::kCut : net::Fault::kDrop);
    for (size_t rank = 0; rank < 4; ++rank) bucket.Start(rank);
    ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded(); }));
    for (size_t rank = 0; rank < 4; ++rank) EXPECT_FALSE(bucket.ended[rank]->ok());
  }
}

TEST(AllReduceFailures, DestructionDuringABucketCallsNothing) {
  Cluster cluster({.members = 2, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  Together bucket(cluster);
  bucket.Fill(300'000, 1);
  bucket.Start(0);
  bucket.Start(1);
  int turn = 0;
  cluster.Run([&] { return ++turn > 1; });
  cluster[0].all.reset();
  const auto then = bucket.data[0];
  ASSERT_TRUE(cluster.Run([&] { return bucket.AllEnded({0}); }));
  EXPECT_FALSE(bucket.ended[0].has_value());
  EXPECT_FALSE(bucket.ended[1]->ok());
  EXPECT_EQ(bucket.data[0], then);
}

// ---- groups

TEST(GroupTest, EarlyMembersWaitForTheOthers) {
  Cluster cluster({.members = 4, .options = SmallPieces()});
  cluster.Form(3);
  cluster.Form(1);
  int turns = 0;
  ASSERT_TRUE(cluster.Run([&] { return ++turns > 200; }));
  EXPECT_FALSE(cluster[3].formed.has_value());
  cluster.Form(0);
  cluster.Form(2);
  ASSERT_TRUE(cluster.Run([&] {
    for (size_t rank = 0; rank < 4; ++rank) {
      if (!cluster[rank].formed.has_value()) return false;
    }
    return true;
  }));
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(cluster[rank].formed->ok());
}

TEST(GroupTest, OneThatDoesNotComeIsNamedAtTheDeadline) {
  PeerOptions options = SmallPieces();
  options.group.form_deadline = std::chrono::milliseconds(200);
  Cluster cluster({.members = 3, .options = options});
  cluster.Form(0);
  cluster.Form(2);
  ASSERT_TRUE(cluster.Run([&] { return cluster[0].formed.has_value() && cluster[2].formed.has_value(); }));
  for (const size_t rank : {0, 2}) {
    EXPECT_FALSE(cluster[rank].formed->ok());
    EXPECT_THAT(cluster[rank].formed->message(), HasSubstr("rank 1 ("));
  }
}

TEST(GroupTest, CallersOfAnEarlierGroupAreTurnedAway) {
  Cluster cluster({.members = 2, .options = SmallPieces()});
  cluster.NextGroup();
  cluster.Form(0);
  Cluster::Member& late = cluster[1];
  PeerOptions options = SmallPieces();
  options.group.group = 1;
  options.group.rank = 1;
  options.group.addresses = cluster.Addresses();
  late.all = std::make_unique<PeerAllReduce>(*late.loop, *late.transport, *late.port, options,
                                             [&](const Status& status) { late.formed = status; });
  ASSERT_TRUE(cluster.Run([&] { return late.formed.has_value(); }));
  EXPECT_FALSE(late.formed->ok());
  EXPECT_FALSE(cluster[0].formed.has_value());
  cluster.Form(1);
  ASSERT_TRUE(cluster.Run([&] { return cluster[0].formed.has_value() && cluster[1].formed.has_value(); }));
  EXPECT_TRUE(cluster[0].formed->ok());
  EXPECT_TRUE(cluster[1].formed->ok());
}

// Members on threads of their own.
TEST(AllReduceThreads, MembersOnTheirOwnThreads) {
  constexpr uint32_t kMembers = 4;
  constexpr size_t kBuckets = 20;
  Cluster cluster({.members = kMembers, .options = SmallPieces()});
  ASSERT_TRUE(cluster.FormAll());
  std::vector<std::unique_ptr<Together>> buckets;
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets.push_back(std::make_unique<Together>(cluster));
    buckets.back()->Fill(i * 997, i);
  }
  std::atomic<uint32_t> finished{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kMembers; ++rank) {
    threads.emplace_back([&, rank] {
      for (auto& bucket : buckets) bucket->Start(rank);
      const Time end = MonotonicClock().Now() + std::chrono::seconds(60);
      const auto mine = [&] {
        return std::ranges::all_of(buckets, [&](const auto& b) { return b->ended[rank].has_value(); });
      };
      bool counted = false;
      while (finished < kMembers && MonotonicClock().Now() < end) {
        cluster[rank].loop->RunOnce(std::chrono::milliseconds(1));
        if (!counted && mine()) {
          counted = true;
          ++finished;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& bucket : buckets) bucket->Check();
}

}  // namespace
}  // namespace leat::collective
