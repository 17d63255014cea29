// The coordinator and the publishers of predictions together: a job whose scores, publishers and coordinator
// are lost at random. The topic has each event once.
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "protocol/coordinator/testing.h"
#include "protocol/predictions/publisher.h"

namespace leat::protocol {
namespace {

class LossyJob : public CoordinatorTest {
 protected:
  LossyJob() {
    config_.max_unpublished = 40;
    config_.feeds = {":7"};
    config_.checkpoint_interval = seconds(0);
  }
  static constexpr uint64_t kEnd0 = 400, kEnd1 = 1300;

  void Play(uint64_t seed) {
    rng_ = Rng(seed);
    topic_.clear();
    notes_.clear();
    publishers_.clear();
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
      PublishSome();
      if (coordinator_->status().finished) break;
      Work();
      if (!careful_ && rng_.Chance(0.03)) publishers_.clear();
      if (!careful_ && rng_.Chance(0.03)) Save();
      if (!careful_ && rng_.Chance(0.02)) Restart();
    }
    ASSERT_LT(rounds, limit) << coordinator_->status().waiting_for << ", " << topic_.size() << " published";
    EXPECT_EQ(topic_.size(), kEnd0 + kEnd1 - 1000);
  }

 private:
  void Begin() {
    orders_.clear();
    generations_.clear();
    Run(kEnd0, kEnd1, true);
    held_.clear();
  }
  void Restart() {
    if (manifest_) ledger_ = saved_;
    if (!manifest_) ledger_ = start_;
    Start({manifest_, journal_});
    if (rng_.Chance(0.5)) publishers_.clear();
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

  // All partitions are published by the coordinator's own feed.
  void PublishSome() {
    std::vector<PublisherReport> reports;
    for (const PublisherOrder& order : coordinator_->publisher_orders()) {
      if (order.fresh) {
        EXPECT_EQ(notes_.try_emplace(order.partition, order.start).first->second, order.start);
      }
      ASSERT_TRUE(notes_.contains(order.partition));
      auto [at, fresh] =
          publishers_.try_emplace(order.partition, order.partition, notes_.at(order.partition));
      PartitionPublisher& publisher = at->second;
      if (const auto next = publisher.Next(30); next && rng_.Chance(0.7)) {
        for (const auto& prediction : next->predictions)
          EXPECT_TRUE(topic_.insert({order.partition, prediction.offset}).second) << prediction.offset;
        notes_[order.partition] = next->end;
        publisher.OnPublished(true);
      } else if (next) {
        publisher.OnPublished(false);
      }
      reports.push_back({.partition = order.partition,
                         .assignment = order.assignment,
                         .published = publisher.published(),
                         .held = publisher.Held(3),
                         .rescored = publisher.rescored(),
                         .status = {}});
    }
    if (!Lost()) Take(coordinator_->OnPublishers(now_, reports));
    ASSERT_NE(coordinator_->status().phase, Phase::kEnded);
  }
  void Hand(const Cut& cut, uint32_t run) {
    const auto at = publishers_.find(cut.partition);
    if (Lost() || at == publishers_.end()) return;
    RunScores scores{.cut = cut, .run = run, .events = {}, .scores = {}, .keys = {}};
    const uint64_t first = uint64_t{run} * cut.run * cut.batch_size;
    for (uint64_t i = 0; i < cut.EventsOf(run); ++i) {
      scores.events.push_back(static_cast<uint32_t>(first + i));
      scores.scores.push_back(0);
      scores.keys.emplace_back();
    }
    (void)at->second.Take(scores);
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
  std::set<std::pair<uint32_t, uint64_t>> topic_;  // partition, offset
  std::map<uint32_t, uint64_t> notes_;
  std::map<uint32_t, PartitionPublisher> publishers_;
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
}

}  // namespace
}  // namespace leat::protocol
