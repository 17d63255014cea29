// The coordinator and the publishers of predictions together: a job whose scores, publishers and coordinator
// are lost at random, and whose feeds stop in the middle of a transaction and go on later. The topic has each
// event once.
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "protocol/coordinator/testing.h"
#include "protocol/predictions/publisher.h"

namespace leat::protocol {
namespace {

// As brokers keep it: whoever opens a group makes the one before fail.
struct PredictionsTopic {
  std::set<std::pair<uint32_t, uint64_t>> records;  // partition, offset
  std::map<uint32_t, uint64_t> notes;               // how far each partition is published
  std::map<uint32_t, uint64_t> openers;             // the number of the last one, by group
};

class PlayedFeed {
 public:
  PlayedFeed(PredictionsTopic* topic, NodeId node, std::string address)
      : topic_(topic), node_(node), address_(std::move(address)) {}
  NodeId node() const { return node_; }
  const std::string& address() const { return address_; }

  void SetOrders(const std::vector<PublisherOrder>& orders) {
    std::erase_if(groups_, [&](const auto& entry) {
      return std::ranges::none_of(orders, [&](const PublisherOrder& order) {
        return order.group == entry.first && order.assignment == entry.second.assignment;
      });
    });
    for (const PublisherOrder& order : orders) {
      auto [at, opened] = groups_.try_emplace(order.group);
      if (opened) at->second = {.assignment = order.assignment, .opener = ++topic_->openers[order.group]};
      if (at->second.publishers.contains(order.partition)) continue;
      if (order.fresh) topic_->notes.try_emplace(order.partition, order.start);
      ASSERT_TRUE(topic_->notes.contains(order.partition));
      const uint64_t note = topic_->notes.at(order.partition);
      if (order.fresh) {
        EXPECT_EQ(note, order.start);
      }
      at->second.publishers.try_emplace(order.partition, order.partition, note);
    }
  }
  std::vector<PublisherReport> Reports() const {
    std::vector<PublisherReport> reports;
    for (const auto& [number, group] : groups_) {
      for (const auto& [partition, publisher] : group.publishers) {
        reports.push_back({.partition = partition,
                           .assignment = group.assignment,
                           .published = publisher.published(),
                           .held = publisher.Held(3),
                           .rescored = publisher.rescored(),
                           .status = {}});
      }
    }
    return reports;
  }
  void Take(const RunScores& scores) {
    for (auto& [number, group] : groups_) {
      const auto at = group.publishers.find(scores.cut.partition);
      if (at != group.publishers.end()) (void)at->second.Take(scores);
    }
  }
  void Begin() {
    for (auto& [number, group] : groups_) {
      if (!group.transaction.empty()) continue;
      for (auto& [partition, publisher] : group.publishers) {
        if (auto next = publisher.Next(30)) group.transaction.emplace(partition, std::move(*next));
      }
    }
  }
  // Ends all transactions. Returns the number of those that another opener has fenced.
  size_t End(bool commit) {
    size_t fenced = 0;
    for (auto at = groups_.begin(); at != groups_.end();) {
      auto& [number, group] = *at;
      if (!group.transaction.empty() && topic_->openers.at(number) != group.opener) {
        ++fenced;
        at = groups_.erase(at);
        continue;
      }
      for (const auto& [partition, publication] : std::exchange(group.transaction, {})) {
        if (commit) {
          for (const auto& prediction : publication.predictions) {
            EXPECT_TRUE(topic_->records.insert({partition, prediction.offset}).second)
                << "offset " << prediction.offset << " twice";
          }
          topic_->notes[partition] = publication.end;
        }
        group.publishers.at(partition).OnPublished(commit);
      }
      ++at;
    }
    return fenced;
  }
  void Forget() { groups_.clear(); }

  bool stopped = false;

 private:
  struct Group {
    uint64_t assignment = 0;
    uint64_t opener = 0;
    std::map<uint32_t, PartitionPublisher> publishers = {};
    std::map<uint32_t, PartitionPublisher::Publication> transaction = {};
  };
  PredictionsTopic* topic_;
  NodeId node_;
  std::string address_;
  std::map<uint32_t, Group> groups_;
};

class LossyJob : public CoordinatorTest {
 protected:
  LossyJob() {
    config_.max_unpublished = 40;
    config_.feeds = {":7"};
    config_.checkpoint_interval = seconds(0);
  }
  static constexpr uint64_t kEnd0 = 400, kEnd1 = 1300;
  static constexpr uint64_t kSplit = 20;

  void Play(uint64_t seed) {
    rng_ = Rng(seed);
    topic_ = {};
    feeds_.clear();
    restarted_ = false;
    config_.publishing_groups = 1 + seed % 2;
    members_ =
        seed % 3 == 0 ? 0 : 2;  // feeds that are members; without them the coordinator's process publishes
    journal_.clear();
    manifest_.reset();
    ledger_ = start_;
    Start({});
    Begin();
    const uint64_t patient = 2000, limit = 4000;  // then nothing is lost any more
    uint64_t rounds = 0;
    for (; !coordinator_->status().finished && rounds < limit; ++rounds) {
      careful_ = rounds > patient;
      now_ += milliseconds(rng_.Below(600));
      Take(coordinator_->OnTimer(now_));
      for (size_t i = 0; i < feeds_.size(); ++i) Publish(&feeds_[i]);
      CheckLimit();
      if (coordinator_->status().finished) break;
      Work();
      for (PlayedFeed& feed : feeds_) {
        if (!careful_ && rng_.Chance(0.03)) feed.Forget();
      }
      if (!careful_ && rng_.Chance(0.03)) Save();
      if (!careful_ && rng_.Chance(0.02)) Restart();
    }
    ASSERT_LT(rounds, limit) << coordinator_->status().waiting_for << ", " << topic_.records.size()
                             << " published";
    EXPECT_EQ(topic_.records.size(), kEnd0 + kEnd1 - 1000);
  }
  size_t fenced() const { return fenced_; }

 private:
  void Begin() {
    orders_.clear();
    generations_.clear();
    Run(kEnd0, kEnd1, true);
    held_.clear();
    if (feeds_.empty()) feeds_.emplace_back(&topic_, NodeId(), ":7");
    while (feeds_.size() > 1) feeds_.pop_back();
    for (size_t i = 0; i < members_; ++i) AddFeed();
  }
  void AddFeed() {
    const std::string address = "feed:" + std::to_string(++addresses_);
    feeds_.emplace_back(&topic_, Join(Role::kFeed, address).node, address);
  }
  void Restart() {
    if (manifest_) ledger_ = saved_;
    if (!manifest_) ledger_ = start_;
    Start({manifest_, journal_});
    if (rng_.Chance(0.5)) feeds_.front().Forget();
    restarted_ = true;
    Begin();
  }
  void Save() {
    Admin(AdminRequest::Kind::kCheckpoint);
    saved_ = ledger_;
    Manifest manifest = SaveAll();
    Commit(manifest);
    manifest_ = manifest;
  }
  bool Lost() { return !careful_ && rng_.Chance(0.15); }

  void Publish(PlayedFeed* feed) {
    const bool own = feed->node() == NodeId();
    if (feed->stopped) {
      if (!careful_ && !rng_.Chance(0.05)) return;
      feed->stopped = false;  // it goes on where it was, in the middle of a transaction
    }
    fenced_ += feed->End(rng_.Chance(0.7));
    if (!own) {
      const auto reply = std::get<FeedHeartbeatReply>(
          Call(FeedHeartbeat{.node = feed->node(), .publishers = feed->Reports()}));
      if (reply.evicted) {
        *feed = PlayedFeed(&topic_, Join(Role::kFeed, feed->address()).node, feed->address());
        return;
      }
      feed->SetOrders(reply.publish);
    } else {
      if (!Lost()) Take(coordinator_->OnPublishers(now_, feed->Reports()));
      feed->SetOrders(coordinator_->publisher_orders());
    }
    ASSERT_NE(coordinator_->status().phase, Phase::kEnded);
    feed->Begin();
    feed->stopped = !own && !careful_ && rng_.Chance(0.05);
  }
  // The limit is that of all partitions together. After a restart some are unknown until they are opened.
  void CheckLimit() {
    if (restarted_) return;
    std::map<uint32_t, uint64_t> ends;
    for (const JournalRecord& record : journal_) {
      if (const auto* made = std::get_if<CutsMade>(&record)) {
        for (const Cut& cut : made->cuts) ends[cut.partition] = cut.end;
      }
    }
    uint64_t unpublished = 0;
    for (const auto& [partition, end] : ends) unpublished += end - std::min(end, topic_.notes.at(partition));
    EXPECT_LT(unpublished, config_.max_unpublished + kSplit);
  }
  void Hand(const Cut& cut, uint32_t run) {
    if (Lost()) return;
    RunScores scores{.cut = cut, .run = run, .events = {}, .scores = {}, .keys = {}};
    const uint64_t first = uint64_t{run} * cut.run * cut.batch_size;
    for (uint64_t i = 0; i < cut.EventsOf(run); ++i) {
      scores.events.push_back(static_cast<uint32_t>(first + i));
      scores.scores.push_back(0);
      scores.keys.emplace_back();
    }
    const std::string address = coordinator_->status().view.publishers.at(cut.partition);
    for (PlayedFeed& feed : feeds_) {
      if (feed.address() == address && !feed.stopped) feed.Take(scores);
    }
  }
  void Work() {
    std::vector<uint64_t> held, released;
    for (const Lease& lease : held_) (rng_.Chance(0.5) ? held : released).push_back(lease.id);
    for (const Lease& lease : held_) {
      if (std::ranges::count(released, lease.id) == 0) continue;
      for (uint32_t run = 0; run < lease.cut.runs(); ++run) {
        if (!lease.missing.Has(run)) continue;
        Hand(lease.cut, run);
        if (!Lost()) ledger_.Record(lease.cut, run);
      }
    }
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker_;
    heartbeat.leases_wanted = 2;
    heartbeat.held = held;
    heartbeat.released = released;
    heartbeat.can_rescore = true;
    const auto reply = std::get<WorkerHeartbeatReply>(Call(heartbeat));
    if (reply.evicted) {
      worker_ = JoinWorker();
      held_.clear();
      return;
    }
    std::erase_if(held_, [&](const Lease& lease) {
      return std::ranges::count(held, lease.id) == 0 || std::ranges::count(reply.revoked, lease.id) > 0;
    });
    if (!Lost()) held_.insert(held_.end(), reply.leases.begin(), reply.leases.end());
    for (const Lease& lease : reply.rescores) {
      for (uint32_t run = 0; run < lease.cut.runs(); ++run) {
        if (lease.missing.Has(run)) Hand(lease.cut, run);
      }
    }
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }

  const Ledger start_ = ledger_;
  Rng rng_{0};
  bool careful_ = false;
  PredictionsTopic topic_;
  std::deque<PlayedFeed> feeds_;  // first that of the coordinator's process
  size_t members_ = 0;
  uint64_t addresses_ = 0;
  size_t fenced_ = 0;
  bool restarted_ = false;
  std::vector<Lease> held_;
  std::optional<Manifest> manifest_;
  Ledger saved_;
};

TEST_F(LossyJob, PublishesEachEventOnceWhateverIsLost) {
  for (uint64_t seed = 0; seed < SeedsOf(200); ++seed) {
    SCOPED_TRACE(seed);
    Play(seed);
    if (HasFailure()) return;
  }
  EXPECT_GE(fenced(), SeedsOf(200) / 10);
}

}  // namespace
}  // namespace leat::protocol
