// An active coordinator, standbys with directories of their own, and members, with messages that the test
// carries.
#include "protocol/succession/replication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/succession/election.h"

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kActive = 100, kFirstElector = 101, kSecondElector = 102;

Bytes Payload(const std::string& text) {
  const ByteView bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

JournalRecord Joined(uint64_t node, Role role = Role::kServer) {
  MemberJoined joined;
  joined.member.node = NodeId(node);
  joined.member.role = role;
  return joined;
}

// A standby, with the journal and the checkpoint on its disk.
struct Standby {
  Standby(uint64_t number, uint64_t term = 0) : journal(number, term) {}

  FollowedJournal journal;
  std::vector<std::string> records;
  uint64_t checkpoint = 0;
  bool in_set = false, electable = false;
  bool silent = false;
  uint64_t call = 0;
  int snapshots = 0;
};

ControlReply AnswerOf(uint64_t term, const std::optional<CoordinatorSet>& coordinators, bool waiting) {
  ServerHeartbeatReply reply;
  reply.term = term;
  reply.coordinators = coordinators;
  reply.waiting = waiting;
  return reply;
}

class ReplicationTest : public ::testing::Test {
 protected:
  ReplicationTest() { Start({.term = 1, .coordinator = kActive}); }

  // Starts a coordinator with three servers.
  void Start(ReplicationConfig config) {
    Electorate electorate(Role::kServer);
    for (uint64_t node = 1; node <= 3; ++node) electorate.OnRecord(0, Joined(node));
    electorate.OnRecord(0, SlicesPlaced());
    if (config.marked) electorate.OnRecord(0, JournalAgreed{{NodeId(1), NodeId(2), NodeId(3)}});
    active_.emplace(config, electorate);
    for (uint64_t node = 1; node <= 3; ++node) {
      members_[node].OnJoined(NodeId(node), 1);
      active_->OnElector(now_, NodeId(node), members_[node].state());
    }
  }

  uint64_t Append(const std::string& text, const JournalRecord& record = IdsReserved{}) {
    journal_.push_back(text);
    const Bytes encoded[] = {Payload(text)};
    return active_->Append(now_, std::span(&record, 1), encoded);
  }
  void Tell(uint64_t node) {
    auto& member = members_[node];
    active_->OnElector(now_, NodeId(node), member.state());
    const auto set = active_->SetFor(member.state());
    EXPECT_TRUE(member.OnReply(AnswerOf(1, set, false)));
    active_->OnElector(now_, NodeId(node), member.state());
  }
  void TellAll() {
    for (uint64_t node = 1; node <= 3; ++node) Tell(node);
  }
  // Carries everything between the coordinator and its standbys for a while.
  void Run(Duration lasts = milliseconds(500)) {
    const Time until = now_ + lasts;
    while (now_ < until) {
      for (auto& [number, standby] : standbys_) {
        if (standby.silent || standby.call != 0) continue;
        standby.call = ++calls_;
        EXPECT_TRUE(
            active_->OnFollow(now_, standby.call, standby.journal.MakeRequest(standby.checkpoint)).ok());
      }
      if (active_->TakeSnapshotWanted()) {
        Bytes frames;
        for (const std::string& text : journal_) JournalReplication::AppendFrame(Payload(text), &frames);
        active_->OnSnapshot(now_, frames);
      }
      if (const auto marker = active_->TakeMarker()) Append("marker", *marker);
      for (const auto& [call, reply] : active_->TakeReplies()) Deliver(call, reply);
      now_ += milliseconds(10);
      active_->OnTimer(now_);
    }
  }
  void Deliver(uint64_t call, const FollowReply& reply) {
    for (auto& [number, standby] : standbys_) {
      if (standby.call != call) continue;
      standby.call = 0;
      if (standby.silent) return;
      const auto received = standby.journal.OnReply(reply);
      ASSERT_TRUE(received.ok()) << received.status().ToString();
      if (received->anew) standby.records.clear();
      standby.snapshots += received->anew ? 1 : 0;
      for (const Bytes& record : received->records) standby.records.emplace_back(AsText(record));
      standby.journal.OnSynced();
      standby.in_set = reply.in_set;
      standby.electable = reply.electable;
    }
  }
  Standby& Add(uint64_t number) { return standbys_.emplace(number, Standby(number)).first->second; }

  Time now_{seconds(1000)};
  std::optional<JournalReplication> active_;
  std::vector<std::string> journal_ = {"a", "b"};
  std::map<uint64_t, Promises> members_;
  std::map<uint64_t, Standby> standbys_;
  uint64_t calls_ = 0;
};

TEST_F(ReplicationTest, WithoutStandbysEverythingIsAgreed) {
  const uint64_t position = Append("c");
  EXPECT_EQ(position, active_->agreed());
  EXPECT_FALSE(active_->SetFor({}));
}

TEST_F(ReplicationTest, NoStandbyIsNeededBeforeTheElectorsKnowThatTheyAre) {
  Electorate electorate(Role::kServer);
  for (uint64_t node = 1; node <= 3; ++node) electorate.OnRecord(0, Joined(node));
  active_.emplace(ReplicationConfig{.term = 1, .coordinator = kActive}, electorate);
  Add(kFirstElector);
  for (uint64_t node = 1; node <= 3; ++node) {
    if (node == 2) Append("placed", SlicesPlaced());
    Run();
    EXPECT_FALSE(active_->TakeMarker());
    EXPECT_FALSE(standbys_.at(kFirstElector).in_set);
    active_->OnElector(now_, NodeId(node), members_[node].state());
  }
  Run();
  EXPECT_TRUE(standbys_.at(kFirstElector).in_set);
}

TEST_F(ReplicationTest, AStandbyGetsTheJournalAndIsThenNeeded) {
  Add(kFirstElector);
  Run();
  EXPECT_THAT(standbys_.at(kFirstElector).records, ElementsAre("a", "b", "marker", "marker"));
  // Until a majority knows the set, it is needed all the same: one of the members may already elect it.
  EXPECT_TRUE(standbys_.at(kFirstElector).in_set);
  EXPECT_FALSE(standbys_.at(kFirstElector).electable);
  EXPECT_THAT(active_->set().coordinators, ElementsAre(kActive));
  const uint64_t position = Append("c");
  EXPECT_LT(active_->agreed(), position);
  Run();
  EXPECT_GE(active_->agreed(), position);
  TellAll();
  EXPECT_THAT(active_->set().coordinators, ElementsAre(kActive, kFirstElector));
  Run();
  EXPECT_TRUE(standbys_.at(kFirstElector).electable);
  standbys_.at(kFirstElector).silent = true;
  EXPECT_LT(active_->agreed(), Append("d"));
}

TEST_F(ReplicationTest, AStandbyThatIsSilentIsLeftOutOnceAMajorityKnows) {
  Add(kFirstElector);
  Run();
  TellAll();
  standbys_.at(kFirstElector).silent = true;
  const uint64_t position = Append("c");
  Run(milliseconds(1700));
  TellAll();
  EXPECT_LT(active_->agreed(), position) << "it may only be slow";
  Run(milliseconds(700));
  EXPECT_LT(active_->agreed(), position);
  Tell(1);
  EXPECT_LT(active_->agreed(), position) << "the two others may elect it";
  Tell(2);
  EXPECT_EQ(active_->agreed(), position);
  EXPECT_THAT(active_->set().coordinators, ElementsAre(kActive));
}

TEST_F(ReplicationTest, ATermNeedsAllStandbysToConfirmIt) {
  Add(kFirstElector);
  Run();
  TellAll();
  const uint64_t position = active_->Append(now_, {}, {});
  EXPECT_LT(active_->agreed(), position);
  const size_t records = standbys_.at(kFirstElector).records.size();
  Run(milliseconds(50));
  EXPECT_EQ(active_->agreed(), position);
  EXPECT_EQ(standbys_.at(kFirstElector).records.size(), records);
}

TEST_F(ReplicationTest, AStandbyComesIntoTheSetWithTheCheckpointThatWasNewest) {
  active_->OnCheckpoint(7);
  Add(kFirstElector);
  Run();
  EXPECT_FALSE(standbys_.at(kFirstElector).in_set);
  EXPECT_FALSE(active_->HaveCheckpoint(7));
  standbys_.at(kFirstElector).checkpoint = 7;
  Run();
  EXPECT_TRUE(standbys_.at(kFirstElector).in_set);
  EXPECT_TRUE(active_->HaveCheckpoint(7));
}

TEST_F(ReplicationTest, RecordsLargerThanAMessageComeInPieces) {
  journal_.push_back(std::string(5'000'000, 'x'));
  Add(kFirstElector);
  Run();
  EXPECT_EQ(standbys_.at(kFirstElector).records.size(), journal_.size());
  Append(std::string(3'000'000, 'y'));
  Run();
  EXPECT_EQ(standbys_.at(kFirstElector).records.back(), std::string(3'000'000, 'y'));
  EXPECT_TRUE(active_->AllAgreed());
  EXPECT_EQ(standbys_.at(kFirstElector).snapshots, 1);
}

TEST_F(ReplicationTest, NothingIsAgreedWithoutElectors) {
  active_.emplace(ReplicationConfig{.term = 1, .coordinator = kActive}, Electorate(Role::kServer));
  Add(kFirstElector);
  Run();
  EXPECT_FALSE(standbys_.at(kFirstElector).in_set) << "nobody could elect it, or let it go";
  EXPECT_TRUE(active_->AllAgreed());
}

TEST_F(ReplicationTest, AnElectedCoordinatorActsOnceAMajorityKnowsThatTheOthersAreOut) {
  Start({.term = 2, .coordinator = kFirstElector, .elected = true, .marked = true});
  EXPECT_GT(Append("c"), 0u);
  Run();
  EXPECT_EQ(active_->agreed(), 0u);
  for (uint64_t node = 1; node <= 2; ++node) {
    const auto set = active_->SetFor(members_[node].state());
    ASSERT_TRUE(set);
    EXPECT_THAT(set->coordinators, ElementsAre(kFirstElector));
    EXPECT_FALSE(members_[node].OnReply(AnswerOf(2, set, true))) << "the rest of the answer does not count";
    active_->OnElector(now_, NodeId(node), members_[node].state());
    EXPECT_EQ(active_->AllAgreed(), node == 2);
  }
}

TEST_F(ReplicationTest, APromiseToAnotherOneReplacesIt) {
  active_->OnElector(now_, NodeId(1), {.promised = 2});
  EXPECT_EQ(active_->replaced_by(), 2u);
}

// An even number has no use: it bears as many losses as one elector less, and needs one more vote.
TEST_F(ReplicationTest, TheNumberOfElectorsIsOdd) {
  Add(kFirstElector);
  TellAll();
  const auto electors = [this] {
    Run();
    for (auto& [node, member] : members_) Tell(node);
    Run();
    std::vector<uint64_t> nodes;
    for (const NodeId node : active_->electorate().newest()) nodes.push_back(node.value);
    EXPECT_TRUE(active_->electorate().Settled());
    return nodes;
  };
  const auto leaves = [this](uint64_t node) {
    members_.erase(node);
    Append("left", MembersLeft{{NodeId(node)}});
  };
  const auto joins = [this](uint64_t node) {
    Append("joined", Joined(node));
    members_[node].OnJoined(NodeId(node), 1);
  };
  EXPECT_THAT(electors(), ElementsAre(1, 2, 3));
  joins(4);
  EXPECT_THAT(electors(), ElementsAre(1, 2, 3)) << "four are no better";
  leaves(2);
  EXPECT_THAT(electors(), ElementsAre(1, 3, 4));
  leaves(3);
  EXPECT_THAT(electors(), ElementsAre(1, 3, 4)) << "its process may be there";
  joins(5);
  EXPECT_THAT(electors(), ElementsAre(1, 4, 5));
  joins(6);
  joins(7);
  EXPECT_THAT(electors(), ElementsAre(1, 4, 5, 6, 7));
  for (const uint64_t node : {1, 4, 6, 7}) leaves(node);
  EXPECT_THAT(electors(), ElementsAre(5));
}

TEST_F(ReplicationTest, AStandbyThatKnowsALaterTermReplacesIt) {
  EXPECT_EQ(active_->OnFollow(now_, 1, {.coordinator = kFirstElector, .term = 3}).code(), Code::kStale);
  EXPECT_EQ(active_->replaced_by(), 3u);
  EXPECT_EQ(active_->OnFollow(now_, 2, {.coordinator = kActive}).code(), Code::kFailedPrecondition);
}

// ---- elections

class ElectionTest : public ::testing::Test {
 protected:
  ElectionTest() {
    for (uint64_t node = 1; node <= 3; ++node) {
      electorate_.OnRecord(0, Joined(node));
      members_[node].OnJoined(NodeId(node), 1);
    }
    electorate_.OnRecord(0, JournalAgreed{{NodeId(1), NodeId(2), NodeId(3)}});
  }
  Candidate Make(uint64_t number) {
    return Candidate({.coordinator = number, .founder = false, .term = 1}, electorate_);
  }
  void Know(uint64_t node, CoordinatorSet set) {
    EXPECT_TRUE(members_[node].OnReply(AnswerOf(set.term, set, false)));
  }
  // The member calls the candidate, and promises if it is asked to.
  void Call(uint64_t node, Candidate* candidate) {
    const auto asked = candidate->OnCall(now_, true, NodeId(node), 1, members_[node].state());
    if (asked) candidate->OnPromise(members_[node].OnCandidacy(*asked));
  }

  Time now_{seconds(50)};
  Electorate electorate_{Role::kServer};
  std::map<uint64_t, Promises> members_;
};

TEST_F(ElectionTest, AMajorityElectsACandidateOfItsSet) {
  for (uint64_t node = 1; node <= 3; ++node) Know(node, {1, 1, {kActive, kFirstElector}});
  Candidate candidate = Make(kFirstElector);
  Call(1, &candidate);
  EXPECT_EQ(candidate.term(), 1u) << "one member may have lost its coordinator alone";
  Call(2, &candidate);
  EXPECT_EQ(candidate.term(), 2u);
  EXPECT_FALSE(candidate.elected());
  Call(1, &candidate);
  EXPECT_EQ(candidate.elected(), 2u);
  EXPECT_FALSE(members_[1].OnReply(AnswerOf(1, std::nullopt, false))) << "the former coordinator is ignored";
  EXPECT_TRUE(members_[3].OnReply(AnswerOf(1, std::nullopt, false)));
  EXPECT_TRUE(members_[1].OnReply(AnswerOf(2, std::nullopt, false)));
}

TEST_F(ElectionTest, ACandidateThatWasLeftOutIsNotElected) {
  // It was in the first set, and is not in the second, which a majority knows.
  Know(1, {1, 1, {kActive, kFirstElector}});
  Know(2, {1, 2, {kActive}});
  Know(3, {1, 2, {kActive}});
  Candidate candidate = Make(kFirstElector);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &candidate);
  }
  EXPECT_FALSE(candidate.elected());
  EXPECT_TRUE(candidate.excluded());
}

TEST_F(ElectionTest, AMemberHearsOfANewerSetFromACandidate) {
  // The coordinator of the second term was elected without the first member, which still knows a set that no
  // majority has ever known.
  Know(1, {1, 3, {kSecondElector}});
  Know(2, {2, 2, {kActive, kFirstElector}});
  Candidate left_out = Make(kSecondElector), candidate = Make(kFirstElector);
  for (int round = 0; round < 40; ++round) {
    for (uint64_t node = 1; node <= 2; ++node) {
      Call(node, &left_out);
      Call(node, &candidate);
    }
    now_ += seconds(1);
    left_out.OnTimer(now_);
    candidate.OnTimer(now_);
    if (candidate.elected()) break;
  }
  EXPECT_TRUE(candidate.elected());
  EXPECT_FALSE(left_out.elected());
}

TEST_F(ElectionTest, ASetOfAnEarlierTermDoesNotExcludeTheCoordinatorOfALaterOne) {
  // The coordinators of the second and the third term told one member each of their sets, and were lost.
  Know(1, {2, 1, {kSecondElector}});
  Know(2, {1, 1, {kActive, kFirstElector, kSecondElector}});
  Know(3, {3, 1, {kFirstElector}});
  Candidate candidate({.coordinator = kFirstElector, .founder = true, .term = 3}, electorate_);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t node = 1; node <= 2; ++node) Call(node, &candidate);
  }
  EXPECT_FALSE(candidate.elected());
  EXPECT_FALSE(candidate.excluded()) << "two of three know the second term's set";
  for (uint64_t node = 3; node >= 1; --node) Call(node, &candidate);
  EXPECT_TRUE(candidate.elected());
}

TEST_F(ElectionTest, ATermIsPromisedToOneCandidateOfTheSet) {
  for (uint64_t node = 1; node <= 2; ++node) Know(node, {1, 1, {kActive, kFirstElector, kSecondElector}});
  EXPECT_TRUE(members_[1].OnCandidacy({2, kFirstElector}).granted);
  EXPECT_FALSE(members_[1].OnCandidacy({2, kSecondElector}).granted);
  EXPECT_TRUE(members_[1].OnCandidacy({2, kFirstElector}).granted) << "its answer may have been lost";
  EXPECT_TRUE(members_[1].OnCandidacy({3, kSecondElector}).granted);
  EXPECT_FALSE(members_[1].OnCandidacy({2, kFirstElector}).granted);
  EXPECT_FALSE(members_[2].OnCandidacy({2, kSecondElector + 1}).granted);
  EXPECT_FALSE(members_[2].OnCandidacy({1, kActive}).granted) << "not a term that it follows already";
}

TEST_F(ElectionTest, ACandidateWithoutAMajorityTriesALaterTerm) {
  for (uint64_t node = 1; node <= 3; ++node) Know(node, {1, 1, {kActive, kFirstElector, kSecondElector}});
  Candidate first = Make(kFirstElector);
  Call(1, &first);
  Call(2, &first);
  EXPECT_TRUE(members_[1].OnCandidacy({2, kSecondElector}).granted);
  EXPECT_TRUE(members_[3].OnCandidacy({2, kSecondElector}).granted);
  Call(1, &first);
  Call(3, &first);
  EXPECT_FALSE(first.elected());
  now_ += seconds(2);
  first.OnTimer(now_);
  Call(1, &first);
  Call(2, &first);
  EXPECT_EQ(first.term(), 2u) << "it pauses, and the other one is elected";
  now_ += seconds(1);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &first);
  }
  EXPECT_EQ(first.elected(), 3u);
}

TEST_F(ElectionTest, ACandidateDefersToOneThatWasPromisedATerm) {
  for (uint64_t node = 1; node <= 3; ++node) Know(node, {1, 1, {kActive, kFirstElector, kSecondElector}});
  for (uint64_t node = 1; node <= 3; ++node)
    EXPECT_TRUE(members_[node].OnCandidacy({2, kSecondElector}).granted);
  Candidate first = Make(kFirstElector);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &first);
    now_ += seconds(1);
  }
  EXPECT_EQ(first.term(), 1u) << "the other one may be about to start";
  for (int round = 0; round < 2; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &first);
  }
  EXPECT_EQ(first.elected(), 3u) << "it has not come";
}

TEST_F(ElectionTest, AMemberThatHasHeardOfNoSetElectsTheFounderAlone) {
  Candidate outsider = Make(kFirstElector);
  Candidate founder({.coordinator = kActive, .founder = true, .term = 1}, electorate_);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &founder);
  }
  EXPECT_EQ(founder.elected(), 2u);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t node = 1; node <= 3; ++node) Call(node, &outsider);
  }
  EXPECT_FALSE(outsider.elected());
}

TEST_F(ElectionTest, AStandbyThatCannotBeElectedLeavesTheMembersToTheFounder) {
  Candidate outsider = Make(kFirstElector);
  Candidate founder({.coordinator = kActive, .founder = true, .term = 1}, electorate_);
  const Time until = now_ + seconds(8);
  for (; now_ < until && !founder.elected(); now_ += milliseconds(100)) {
    outsider.OnTimer(now_);
    founder.OnTimer(now_);
    for (uint64_t node = 1; node <= 3; ++node) {
      // The next address is called only if there is no answer at this one.
      const auto asked = outsider.OnCall(now_, true, NodeId(node), 1, members_[node].state());
      asked ? outsider.OnPromise(members_[node].OnCandidacy(*asked)) : Call(node, &founder);
    }
  }
  EXPECT_FALSE(outsider.elected());
  EXPECT_TRUE(founder.elected());
}

// ---- electorates

JournalAgreed Named(std::vector<uint64_t> nodes) {
  JournalAgreed named;
  for (const uint64_t node : nodes) named.electors.push_back(NodeId(node));
  return named;
}

TEST(Electorate, AMajorityIsOneOfBothElectoratesUntilTheSecondIsAgreed) {
  Electorate electorate(Role::kServer);
  for (uint64_t node = 1; node <= 3; ++node) electorate.OnRecord(node, Joined(node));
  electorate.OnRecord(4, Joined(9, Role::kWorker));
  EXPECT_THAT(electorate.joined(), SizeIs(3));
  EXPECT_TRUE(electorate.Empty()) << "nobody is named";
  EXPECT_FALSE(electorate.Majority([](NodeId) { return true; }));
  const auto is = [](std::vector<uint64_t> nodes) {
    return [nodes](NodeId node) { return std::ranges::count(nodes, node.value) > 0; };
  };
  electorate.OnRecord(5, Named({1, 2, 3}));
  EXPECT_FALSE(electorate.Empty());
  EXPECT_TRUE(electorate.Settled());
  EXPECT_TRUE(electorate.Majority(is({1, 3})));
  EXPECT_FALSE(electorate.Majority(is({1})));
  electorate.OnRecord(10, MembersLeft{{NodeId(1), NodeId(2)}});
  electorate.OnRecord(20, Joined(4));
  EXPECT_TRUE(electorate.Majority(is({1, 3}))) << "they are electors until others are named";
  electorate.OnRecord(30, Named({3, 4}));
  EXPECT_FALSE(electorate.Settled());
  EXPECT_FALSE(electorate.Majority(is({3, 4}))) << "of {1, 2, 3} it is not one";
  EXPECT_TRUE(electorate.Majority(is({2, 3, 4})));
  electorate.OnAgreed(29);
  EXPECT_FALSE(electorate.Settled());
  electorate.OnAgreed(30);
  EXPECT_TRUE(electorate.Majority(is({3, 4})));
  EXPECT_THAT(electorate.agreed(), ElementsAre(NodeId(3), NodeId(4)));
}

TEST(Electorate, TheNextRecordSaysThatTheOneBeforeWasAgreed) {
  Electorate electorate(Role::kServer);
  electorate.OnRecord(1, Named({1, 2, 3}));
  electorate.OnRecord(2, Named({2, 3}));
  electorate.OnRecord(3, Named({2, 3, 4}));
  EXPECT_THAT(electorate.agreed(), ElementsAre(NodeId(2), NodeId(3)));
  EXPECT_THAT(electorate.newest(), SizeIs(3));
  electorate.OnAgreedElectors({NodeId(2), NodeId(3)});
  EXPECT_FALSE(electorate.Settled());
  Electorate other = electorate;
  other.OnAgreedElectors({NodeId(2), NodeId(3), NodeId(4)});
  EXPECT_TRUE(other.Settled());
  electorate.OnRecord(4, Named({2, 3, 4}));
  EXPECT_TRUE(electorate.Settled());
}

// ---- received records

TEST(FollowedJournal, WhatContradictsItselfIsRefused) {
  FollowedJournal journal(kFirstElector, 2);
  EXPECT_EQ(journal.OnReply({.term = 1, .stream = 1}).status().code(), Code::kStale);
  Bytes frames;
  JournalReplication::AppendFrame(Payload("record"), &frames);
  FollowReply reply{.term = 2, .stream = 1, .snapshot = frames.size(), .offset = 0, .bytes = frames};
  ASSERT_TRUE(journal.OnReply(reply).ok());
  journal.OnSynced();
  EXPECT_EQ(journal.MakeRequest(0).synced, frames.size());
  reply.offset = 5;
  EXPECT_EQ(journal.OnReply(reply).status().code(), Code::kDataLoss);
  EXPECT_EQ(journal.MakeRequest(0).stream, 0u) << "it begins anew";
  reply.offset = 0;
  reply.bytes.back() ^= std::byte{1};
  EXPECT_EQ(journal.OnReply(reply).status().code(), Code::kDataLoss);
  reply.bytes.assign(12, std::byte{0xff});
  reply.snapshot = 12;
  EXPECT_EQ(journal.OnReply(reply).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace leat::protocol
