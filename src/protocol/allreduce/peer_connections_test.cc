
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "protocol/allreduce/reduction.h"

namespace leat::protocol {
namespace {

using Loss = PeerConnections::Loss;
using PeerPhase = PeerConnections::Phase;

constexpr auto kBoth = {ChannelKind::kData, ChannelKind::kControl};

TEST(JudgeCall, ComparesTheGroupWithTheNewest) {
  EXPECT_EQ(JudgeCall(7, 7), CallVerdict::kAccept);
  EXPECT_EQ(JudgeCall(8, 7), CallVerdict::kKeep);
  EXPECT_EQ(JudgeCall(6, 7), CallVerdict::kReject);
  EXPECT_EQ(JudgeCall(1, 0), CallVerdict::kKeep) << "no group is known yet";
}

TEST(PeerConnections, AGroupOfOneIsComplete) {
  const PeerConnections alone(1, 1, 0, 2);
  EXPECT_TRUE(alone.formed());
  EXPECT_TRUE(alone.Peers().empty());
}

// In any order of messages, each pair has one caller, and all members complete the group.
TEST(PeerConnections, FormInAnyOrder) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    const auto members = static_cast<uint32_t>(2 + rng.Below(7));
    const auto channels = static_cast<uint32_t>(1 + rng.Below(2));
    std::vector<PeerConnections> all;
    struct Message {
      uint32_t to;
      Greet greet;
      bool call;
    };
    std::vector<Message> under_way;
    for (uint32_t rank = 0; rank < members; ++rank) {
      all.emplace_back(5, members, rank, channels);
      EXPECT_FALSE(all[rank].formed());
      for (const uint32_t peer : all[rank].Calls()) {
        EXPECT_LT(peer, rank);
        for (uint32_t c = 0; c < channels; ++c)
          under_way.push_back({peer, all[rank].MyGreet(static_cast<ChannelKind>(c)), true});
      }
    }
    while (!under_way.empty()) {
      const size_t i = rng.Below(under_way.size());
      const Message message = under_way[i];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
      PeerConnections& to = all[message.to];
      const Greet& greet = message.greet;
      if (message.call) {
        ASSERT_TRUE(to.Accept(greet)) << "seed " << seed;
        EXPECT_FALSE(to.Accept(greet)) << "it has called already";
        under_way.push_back({greet.rank, to.MyGreet(greet.kind), false});
      } else {
        ASSERT_TRUE(to.Answers(greet.rank, greet));
        EXPECT_FALSE(to.greeted(greet.rank, greet.kind));
        ASSERT_TRUE(to.Missing().has_value());
        EXPECT_FALSE(to.greeted(*to.Missing(), ChannelKind::kData) &&
                     (channels == 1 || to.greeted(*to.Missing(), ChannelKind::kControl)));
        to.Answered(greet.rank, greet.kind);
      }
      EXPECT_TRUE(to.greeted(greet.rank, greet.kind));
    }
    for (const PeerConnections& member : all) EXPECT_TRUE(member.formed()) << "seed " << seed;
  }
}

TEST(PeerConnections, RefuseCallsThatDoNotBelongToTheGroup) {
  PeerConnections member(5, 4, 1, 2);
  EXPECT_FALSE(member.Accept({5, 3, 2, ChannelKind::kData})) << "of another size";
  EXPECT_FALSE(member.Accept({5, 4, 0, ChannelKind::kData})) << "a lower rank is called, it does not call";
  EXPECT_FALSE(member.Accept({5, 4, 1, ChannelKind::kData})) << "its own rank";
  EXPECT_TRUE(member.Accept({5, 4, 2, ChannelKind::kData}));
  PeerConnections one_channel(5, 4, 1, 1);
  EXPECT_FALSE(one_channel.Accept({5, 4, 2, ChannelKind::kControl}));
  // In a large group, not all members are peers.
  PeerConnections many(5, 16, 0, 2);
  const auto peers = many.Peers();
  EXPECT_EQ(peers, ReducePeers(16, 0));
  EXPECT_EQ(std::ranges::find(peers, 7u), peers.end());
  EXPECT_FALSE(many.Accept({5, 16, 7, ChannelKind::kData}));
  member.Stop();
  EXPECT_FALSE(member.Accept({5, 4, 3, ChannelKind::kData})) << "it is over";
}

TEST(PeerConnections, BelieveNoAnswerOfAnother) {
  const PeerConnections member(5, 4, 2, 2);
  EXPECT_TRUE(member.Answers(0, {5, 4, 0, ChannelKind::kData}));
  EXPECT_FALSE(member.Answers(0, {4, 4, 0, ChannelKind::kData})) << "of an earlier group";
  EXPECT_FALSE(member.Answers(0, {5, 3, 0, ChannelKind::kData}));
  EXPECT_FALSE(member.Answers(0, {5, 4, 1, ChannelKind::kData}));
}

PeerConnections Formed(uint32_t members, uint32_t rank) {
  PeerConnections made(5, members, rank, 2);
  for (const uint32_t peer : made.Peers()) {
    for (const ChannelKind kind : kBoth) {
      if (peer < rank) {
        made.Answered(peer, kind);
      } else {
        EXPECT_TRUE(made.Accept({5, members, peer, kind}));
      }
    }
  }
  EXPECT_TRUE(made.formed());
  return made;
}

TEST(PeerConnections, APeerIsLostWhenAllItsChannelsAreClosed) {
  for (const uint32_t peer : {0u, 2u}) {
    PeerConnections member = Formed(4, 1);
    EXPECT_EQ(member.Closed(peer, ChannelKind::kData), Loss::kAwaitReason);
    EXPECT_TRUE(member.Stop());
    EXPECT_FALSE(member.Stop());
    EXPECT_EQ(member.phase(), PeerPhase::kStopped);
    EXPECT_EQ(member.Closed(peer, ChannelKind::kControl), Loss::kPeer);
    EXPECT_TRUE(member.End());
    EXPECT_FALSE(member.End());
    EXPECT_EQ(member.Closed(0, ChannelKind::kControl), Loss::kNone);
    EXPECT_EQ(member.phase(), PeerPhase::kEnded);
  }
  PeerConnections member = Formed(4, 1);
  EXPECT_EQ(member.Closed(2, ChannelKind::kControl), Loss::kPeer);
  member.Stop();
  EXPECT_EQ(member.Closed(0, ChannelKind::kData), Loss::kNone) << "its reason is awaited already";
  // With one channel there is nothing to wait for.
  PeerConnections one_channel(5, 2, 1, 1);
  one_channel.Answered(0, ChannelKind::kData);
  EXPECT_EQ(one_channel.Closed(0, ChannelKind::kData), Loss::kPeer);
}

}  // namespace
}  // namespace leat::protocol
