#include "protocol/allreduce/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"

namespace leat::protocol {
namespace {

// Members whose pieces are expressions instead of numbers: "((0+1)+2)". Messages of different connections
// overtake each other; members start, and memory is returned, at random times.
struct Members {
  struct Message {
    uint32_t from = 0;
    uint32_t phase = 0;
    uint32_t piece = 0;
    std::string value;
  };
  struct Member {
    explicit Member(const ReduceShape& shape, uint32_t rank) : reduction(shape, rank) {}
    Reduction reduction;
    bool started = false, finished = false;
    std::vector<std::string> values;
    std::vector<Message> aside;
    std::vector<Hop> unsent;  // sent, and memory not returned yet
    std::map<uint32_t, uint64_t> early_of;
    std::vector<Message> waiting;
    std::vector<uint32_t> ready;
  };

  Members(const ReduceShape& its_shape, uint64_t seed) : shape(its_shape), rng(seed) {
    for (uint32_t rank = 0; rank < shape.members; ++rank) {
      members.emplace_back(shape, rank);
      members.back().values.assign(members.back().reduction.pieces(), std::to_string(rank));
    }
  }

  void Take(uint32_t rank, const Message& m) {
    Member& member = members[rank];
    const Hop hop{m.from, m.phase, m.piece};
    const auto verdict = member.reduction.Expects(hop);
    ASSERT_NE(verdict, Reduction::Verdict::kWrong);
    if (verdict == Reduction::Verdict::kInPlace) {
      member.values[m.piece] = m.value;
    } else {
      member.aside.push_back(m);
    }
    member.reduction.Arrived(hop);
    EXPECT_EQ(member.reduction.Expects(hop), Reduction::Verdict::kWrong) << "twice";
    Act(rank);
  }

  void Act(uint32_t rank) {
    Member& member = members[rank];
    ReduceAction action;
    while (member.reduction.Next(&action)) {
      ASSERT_FALSE(member.finished);
      switch (action.kind) {
        case ReduceAction::Kind::kOwn:
          break;
        case ReduceAction::Kind::kCombine: {
          const auto m = std::ranges::find_if(member.aside, [&](const Message& a) {
            return Hop{a.from, a.phase, a.piece} == action.hop;
          });
          ASSERT_NE(m, member.aside.end());
          for (const Hop& hop : member.unsent) ASSERT_NE(hop.piece, action.hop.piece) << "still being sent";
          std::string& value = member.values[action.hop.piece];
          value =
              action.incoming_first ? "(" + m->value + "+" + value + ")" : "(" + value + "+" + m->value + ")";
          member.aside.erase(m);
          break;
        }
        case ReduceAction::Kind::kSend:
          ASSERT_GT(member.reduction.piece(action.hop.piece).bytes, 0u);
          wires[{rank, action.hop.peer}].push_back(
              {rank, action.hop.phase, action.hop.piece, member.values[action.hop.piece]});
          member.unsent.push_back(action.hop);
          break;
        case ReduceAction::Kind::kReady:
          words.push_back({rank, action.hop.peer});
          break;
        case ReduceAction::Kind::kFinished:
          member.finished = true;
          if (shape.path == ReducePath::kOneShot) AddUp(rank);
          break;
      }
    }
  }

  // Combines what one shot has brought.
  void AddUp(uint32_t rank) {
    Member& member = members[rank];
    if (member.values.empty()) return;
    member.aside.push_back({rank, 0, 0, member.values[0]});
    std::ranges::sort(member.aside, {}, &Message::from);
    std::string sum;
    for (const Message& m : member.aside) sum = sum.empty() ? m.value : "(" + sum + "+" + m.value + ")";
    member.values[0] = sum;
    member.aside.clear();
  }

  // Makes one event happen; false if none can.
  bool Step() {
    struct Choice {
      int kind;
      uint32_t a, b;
    };
    std::vector<Choice> choices;
    for (uint32_t rank = 0; rank < shape.members; ++rank) {
      if (!members[rank].started) choices.push_back({0, rank, 0});
      if (!members[rank].unsent.empty()) choices.push_back({1, rank, 0});
    }
    for (const auto& [ends, queue] : wires) {
      if (!queue.empty()) choices.push_back({2, ends.first, ends.second});
    }
    if (!words.empty()) choices.push_back({3, 0, 0});
    if (choices.empty()) return false;
    const Choice choice = choices[rng() % choices.size()];
    Member& member = members[choice.kind == 2 ? choice.b : choice.a];
    if (choice.kind == 0) {
      member.started = true;
      member.reduction.Begin();
      for (const uint32_t peer : member.ready) member.reduction.PeerReady(peer);
      Act(choice.a);
      for (const auto& m : std::exchange(member.waiting, {})) Take(choice.a, m);
    } else if (choice.kind == 1) {
      const size_t i = rng() % member.unsent.size();
      const Hop hop = member.unsent[i];
      member.unsent.erase(member.unsent.begin() + static_cast<ptrdiff_t>(i));
      member.reduction.Sent(hop);
      Act(choice.a);
    } else if (choice.kind == 2) {
      auto& queue = wires[{choice.a, choice.b}];
      const Message m = queue.front();
      queue.pop_front();
      if (member.started) {
        Take(choice.b, m);
      } else {
        member.early_of[m.from] += member.reduction.piece(m.piece).bytes;
        EXPECT_LE(member.early_of[m.from], shape.eager_bytes);
        member.waiting.push_back(m);
      }
    } else {
      const auto [from, to] = words.front();
      words.pop_front();
      if (members[to].started) {
        members[to].reduction.PeerReady(from);
        Act(to);
      } else {
        members[to].ready.push_back(from);
      }
    }
    return true;
  }

  const ReduceShape shape;
  Rng rng;
  std::vector<Member> members;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> wires;
  std::deque<std::pair<uint32_t, uint32_t>> words;  // ready messages
};

// Each rank once, whatever the parentheses.
bool HoldsAll(const std::string& value, uint32_t members) {
  std::vector<uint32_t> seen(members, 0);
  for (size_t i = 0; i < value.size();) {
    if (value[i] < '0' || value[i] > '9') {
      ++i;
      continue;
    }
    size_t used = 0;
    const auto rank = std::stoul(value.substr(i), &used);
    if (rank >= members || ++seen[rank] > 1) return false;
    i += used;
  }
  return std::ranges::count(seen, 1u) == static_cast<ptrdiff_t>(members);
}

TEST(PathOf, FollowsFromTheOrderAndTheSize) {
  EXPECT_EQ(PathOf(false, false, 100, 100), ReducePath::kExchange);
  EXPECT_EQ(PathOf(false, false, 101, 100), ReducePath::kRing);
  for (const uint64_t bytes : {1, 1000}) {
    EXPECT_EQ(PathOf(false, true, bytes, 100), ReducePath::kOneShot);
    EXPECT_EQ(PathOf(true, false, bytes, 100), ReducePath::kChain);
    EXPECT_EQ(PathOf(true, true, bytes, 100), ReducePath::kChain) << "lanes keep their order";
  }
}

class ReductionTest : public ::testing::TestWithParam<ReducePath> {};

TEST_P(ReductionTest, EveryOrderOfEventsEndsWithTheSameSumEverywhere) {
  const uint32_t most = GetParam() == ReducePath::kOneShot ? kMaxOneShotMembers : 9;
  for (uint32_t count = 1; count <= most; ++count) {
    for (const uint64_t bytes : {0, 1, 64, 65, 700, 5000}) {
      std::vector<std::string> first;
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(std::to_string(count) + " members, " + std::to_string(bytes) + " bytes, seed " +
                     std::to_string(seed));
        Members all(
            {.path = GetParam(), .members = count, .bytes = bytes, .piece_bytes = 128, .eager_bytes = 256},
            seed);
        while (all.Step() && !HasFatalFailure()) {
        }
        for (const auto& member : all.members) {
          ASSERT_TRUE(member.finished);
          EXPECT_TRUE(member.aside.empty());
          EXPECT_TRUE(member.reduction.WaitsFor().empty());
          uint64_t covered = 0;
          for (uint32_t i = 0; i < member.reduction.pieces(); ++i) {
            const auto range = member.reduction.piece(i);
            if (range.bytes == 0) continue;
            EXPECT_EQ(range.begin, covered);
            covered += range.bytes;
            EXPECT_TRUE(HoldsAll(member.values[i], count)) << member.values[i];
            EXPECT_EQ(member.values[i], all.members[0].values[i]);
          }
          EXPECT_EQ(covered, bytes);
        }
        // The order of additions does not depend on the order of events.
        if (seed == 1) first = all.members[0].values;
        EXPECT_EQ(all.members[0].values, first);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, ReductionTest,
                         ::testing::Values(ReducePath::kRing, ReducePath::kExchange, ReducePath::kChain,
                                           ReducePath::kOneShot));

TEST(ReductionPaths, TheChainAddsInTheOrderOfRanks) {
  Members all({.path = ReducePath::kChain, .members = 4, .bytes = 100}, 1);
  while (all.Step()) {
  }
  EXPECT_EQ(all.members[0].values[0], "(((0+1)+2)+3)");
}

TEST(ReductionPaths, OneShotEndsWhenEverythingHasArrivedEvenIfOthersStillRead) {
  Reduction shot({.path = ReducePath::kOneShot, .members = 3, .bytes = 4000}, 1);
  EXPECT_EQ(shot.pieces(), 1u);
  shot.Begin();
  std::vector<uint32_t> sent_to;
  ReduceAction action;
  while (shot.Next(&action)) {
    ASSERT_EQ(action.kind, ReduceAction::Kind::kSend);
    sent_to.push_back(action.hop.peer);
  }
  EXPECT_EQ(sent_to, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(shot.Expects({1, 0, 0}), Reduction::Verdict::kWrong) << "itself";
  EXPECT_EQ(shot.Expects({0, 1, 0}), Reduction::Verdict::kWrong) << "there is one phase";
  EXPECT_EQ(shot.Expects({3, 0, 0}), Reduction::Verdict::kWrong);
  shot.Arrived({2, 0, 0});
  EXPECT_FALSE(shot.Next(&action));
  EXPECT_EQ(shot.WaitsFor(), std::vector<uint32_t>{0});
  shot.Arrived({0, 0, 0});
  ASSERT_TRUE(shot.Next(&action));
  EXPECT_EQ(action.kind, ReduceAction::Kind::kFinished);
  shot.Sent({0, 0, 0});
  shot.Sent({2, 0, 0});
  EXPECT_FALSE(shot.Next(&action)) << "once";
}

TEST(ReductionPaths, AGroupConnectsThePeersOfEveryPath) {
  const auto has = [](const std::vector<uint32_t>& peers, uint32_t peer) {
    return std::ranges::count(peers, peer) == 1;
  };
  for (uint32_t members = 1; members <= 40; ++members) {
    for (uint32_t rank = 0; rank < members; ++rank) {
      const auto peers = ReducePeers(members, rank);
      for (const auto path :
           {ReducePath::kRing, ReducePath::kExchange, ReducePath::kChain, ReducePath::kOneShot}) {
        if (path == ReducePath::kOneShot && members > kMaxOneShotMembers) continue;
        for (const uint32_t peer : ReducePeers(path, members, rank)) EXPECT_TRUE(has(peers, peer));
      }
      for (const uint32_t peer : peers) {
        EXPECT_NE(peer, rank);
        EXPECT_TRUE(has(ReducePeers(members, peer), rank)) << "one of two alone would wait for the other";
      }
      EXPECT_LE(peers.size(), 4 + static_cast<size_t>(std::bit_width(members))) << "far from all";
    }
  }
}

TEST(ReductionPaths, WhatIsNotOfThePathIsRefused) {
  Reduction ring({.members = 4, .bytes = 4000}, 2);
  ring.Begin();
  EXPECT_EQ(ring.Expects({1, 0, 0}), Reduction::Verdict::kBuffered);
  EXPECT_EQ(ring.Expects({1, 1, 0}), Reduction::Verdict::kInPlace);
  EXPECT_EQ(ring.Expects({3, 0, 0}), Reduction::Verdict::kWrong) << "not its neighbour";
  EXPECT_EQ(ring.Expects({1, 0, 2}), Reduction::Verdict::kWrong) << "begins here";
  EXPECT_EQ(ring.Expects({1, 1, 3}), Reduction::Verdict::kWrong) << "ends here";
  EXPECT_EQ(ring.Expects({1, 2, 0}), Reduction::Verdict::kWrong);
  EXPECT_EQ(ring.Expects({1, 99, 0}), Reduction::Verdict::kWrong);
  EXPECT_EQ(ring.Expects({1, 0, 4}), Reduction::Verdict::kWrong);
  EXPECT_EQ(ring.WaitsFor(), std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace leat::protocol
