#include "train/step/step_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "train/collective/testing.h"
#include "train/step/testing.h"

namespace leat::step {
namespace {

using collective::testing::Cluster;
using protocol::Cut;
using protocol::GroupMember;
using protocol::Ledger;
using protocol::Position;
using protocol::TrainingState;

constexpr size_t kPartitions = 2;

const nn::Model& Model() {
  static const nn::Model model = testing::ModelOf(
      "{layers: [dense: {units: 7, activation: tanh}, batch_norm, dense: {units: 3}], "
      "loss: softmax_cross_entropy}",
      4);
  return model;
}

Cut CutOf(uint32_t partition, uint64_t begin, uint64_t end) {
  const Position from{0, begin};
  return protocol::MakeCut({.batch_size = 4}, partition, from, from, end);
}

// A member's parameters, optimizer state and ledger.
struct Holder {
  Holder() { state.Make({Position{}, Position{}}); }
  // Steps with gradients drawn from a seed, and their runs in the ledger.
  void Train(uint64_t seed, uint32_t steps) {
    const Cut cut = CutOf(1, 0, 40);
    for (uint32_t i = 0; i < steps; ++i) {
      Rng rng(seed + i);
      for (size_t v = 0; v < Model().variables().size(); ++v) {
        for (float& g : computer.parameters.gradients(v)) g = static_cast<float>(rng.Normal());
      }
      state.Apply(4);
      // The first one stays open.
      const auto batch = static_cast<uint32_t>(state.header().step) + 1;
      EXPECT_EQ(state.ledger().Record(cut, batch), Ledger::Entry::kNew);
      state.Complete(4);
    }
  }
  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> all;
    for (const auto& part : state.Memory()) {
      const auto bits = testing::Bits(part);
      all.insert(all.end(), bits.begin(), bits.end());
    }
    return all;
  }

  testing::Computer computer{Model()};
  TrainingState state{computer.parameters.table(),
                      optim::Defaults(optim::Kind::kAdam),
                      {.kind = protocol::StrategyKind::kAllReduce, .full_run = 4},
                      &computer.parameters};
};

class BroadcastStateTest : public ::testing::Test {
 protected:
  void Form(uint32_t members) {
    holders_.clear();
    ended_.clear();
    // Small limits, so that a state takes many pieces.
    collective::PeerOptions options;
    options.exchange_bytes = 64;
    options.piece_bytes = 256;
    options.eager_bytes = 512;
    cluster_.emplace(Cluster::Settings{.members = members, .options = options});
    ASSERT_TRUE(cluster_->FormAll());
    for (uint32_t rank = 0; rank < members; ++rank) {
      holders_.push_back(std::make_unique<Holder>());
      holders_.back()->Train(1000 * rank, rank);
    }
    ended_.resize(members);
  }
  void Share(uint32_t rank, uint32_t holder) {
    BroadcastState(*(*cluster_)[rank].all, holder, holders_[rank]->state,
                   [this, rank](Result<GroupMember::Snapshot> state) {
                     EXPECT_FALSE(ended_[rank].has_value());
                     ended_[rank] = std::move(state);
                   });
  }
  bool AllEnded(std::optional<uint32_t> but = std::nullopt) {
    return cluster_->Run([&] {
      for (uint32_t rank = 0; rank < ended_.size(); ++rank) {
        if (!ended_[rank].has_value() && rank != but) return false;
      }
      return true;
    });
  }
  void ExpectDataLossEverywhere() {
    for (const auto& ended : ended_) {
      ASSERT_FALSE(ended->ok());
      EXPECT_EQ(ended->status().code(), Code::kDataLoss) << ended->status().ToString();
    }
  }

  std::optional<Cluster> cluster_;
  std::vector<std::unique_ptr<Holder>> holders_;
  std::vector<std::optional<Result<GroupMember::Snapshot>>> ended_;
};

TEST_F(BroadcastStateTest, AllGetWhatTheHolderHas) {
  for (const uint32_t members : {1u, 2u, 3u, 5u}) {
    for (uint32_t holder = 0; holder < members; ++holder) {
      SCOPED_TRACE(std::to_string(holder) + " of " + std::to_string(members));
      Form(members);
      Holder& has = *holders_[holder];
      has.Train(77, 5 - std::min(holder, 4u));
      const auto header = has.state.header();
      const auto numbers = has.Numbers();
      ASSERT_GT(header.step, 0u);
      ASSERT_FALSE(header.ledger.partitions()[1].open.empty());
      for (uint32_t rank = 0; rank < members; ++rank) Share(rank, holder);
      // The holder's state has been read by now.
      for (float& w : has.computer.parameters.all_values()) w = -1;
      ASSERT_TRUE(AllEnded());
      for (uint32_t rank = 0; rank < members; ++rank) {
        SCOPED_TRACE(rank);
        ASSERT_TRUE(ended_[rank]->ok()) << ended_[rank]->status().ToString();
        GroupMember::Snapshot& shared = **ended_[rank];
        EXPECT_EQ(shared.header, header);
        if (rank == holder) {
          EXPECT_TRUE(shared.memory.empty()) << "it has it";
          continue;
        }
        ASSERT_TRUE(holders_[rank]->state.Adopt(std::move(shared.header), shared.memory, kPartitions).ok());
        EXPECT_EQ(holders_[rank]->Numbers(), numbers) << "values and slots";
        EXPECT_EQ(holders_[rank]->state.header(), header);
      }
    }
  }
}

TEST_F(BroadcastStateTest, OneWithoutAStateOfItsOwnGetsIt) {
  Form(2);
  holders_[1]->Train(5, 3);
  TrainingState fresh(holders_[0]->computer.parameters.table(), optim::Defaults(optim::Kind::kAdam),
                      {.kind = protocol::StrategyKind::kAllReduce, .full_run = 4},
                      &holders_[0]->computer.parameters);
  BroadcastState(*(*cluster_)[0].all, 1, fresh,
                 [this](Result<GroupMember::Snapshot> state) { ended_[0] = std::move(state); });
  Share(1, 1);
  ASSERT_TRUE(AllEnded());
  ASSERT_TRUE(ended_[0]->ok());
  ASSERT_TRUE(fresh.Adopt((*ended_[0])->header, (*ended_[0])->memory, kPartitions).ok());
  EXPECT_EQ(fresh.header(), holders_[1]->state.header());
}

TEST_F(BroadcastStateTest, WhatTheHolderSendsIsNoState) {
  Form(3);
  // A split of another partition than the one it stands with.
  protocol::PartitionLedger wrong;
  wrong.open.push_back({CutOf(9, 0, 40), protocol::RunSet(10)});
  holders_[1]->state.ledger() = Ledger({wrong, {}});
  for (uint32_t rank = 0; rank < 3; ++rank) Share(rank, 1);
  ASSERT_TRUE(AllEnded());
  ExpectDataLossEverywhere();
}

TEST_F(BroadcastStateTest, NobodyIsTheHolder) {
  Form(3);
  for (uint32_t rank = 0; rank < 3; ++rank) Share(rank, 9);
  ASSERT_TRUE(AllEnded());
  ExpectDataLossEverywhere();
}

// A size from a peer is checked before memory is allocated.
TEST_F(BroadcastStateTest, ALedgerThatIsTooLargeIsNone) {
  Form(3);
  for (const uint32_t rank : {0u, 2u}) Share(rank, 1);
  uint64_t bytes = ~uint64_t{0};
  (*cluster_)[1].all->Start(
      {.data = std::as_writable_bytes(std::span(&bytes, 1)), .reduce = collective::kMaxU64},
      [](const Status&) {});
  ASSERT_TRUE(AllEnded(1));
  for (const uint32_t rank : {0u, 2u}) {
    EXPECT_EQ(ended_[rank]->status().code(), Code::kDataLoss);
    EXPECT_THAT(ended_[rank]->status().message(), ::testing::HasSubstr("18446744073709551615"));
  }
}

TEST_F(BroadcastStateTest, AbortedInTheMiddleAllAreTold) {
  for (int turns = 0; turns < 30; ++turns) {
    SCOPED_TRACE(turns);
    Form(3);
    for (uint32_t rank = 0; rank < 3; ++rank) Share(rank, 2);
    int turn = 0;
    cluster_->Run([&] { return ++turn > turns || ended_[0].has_value(); });
    (*cluster_)[0].all->Abort({Code::kAborted, "a new group is being formed"});
    ASSERT_TRUE(AllEnded());
    for (const auto& ended : ended_) {
      EXPECT_TRUE(ended->ok() || ended->status() == Status(Code::kAborted, "a new group is being formed"));
      EXPECT_TRUE(turns > 0 || !ended->ok());
    }
  }
}

TEST_F(BroadcastStateTest, AGroupThatIsDestroyedInTheMiddleTellsNothingHere) {
  int in_the_middle = 0;
  for (int turns = 0; turns < 30; ++turns) {
    SCOPED_TRACE(turns);
    Form(3);
    for (uint32_t rank = 0; rank < 3; ++rank) Share(rank, 0);
    int turn = 0;
    cluster_->Run([&] { return ++turn > turns; });
    if (ended_[1].has_value()) continue;
    ++in_the_middle;
    (*cluster_)[1].all.reset();
    ASSERT_TRUE(AllEnded(1));
    EXPECT_FALSE(ended_[1].has_value());
    // Another group of the same members, from the beginning.
    ended_.assign(3, std::nullopt);
    cluster_->NextGroup();
    ASSERT_TRUE(cluster_->FormAll());
    for (uint32_t rank = 0; rank < 3; ++rank) Share(rank, 2);
    ASSERT_TRUE(AllEnded());
    for (const auto& ended : ended_) {
      ASSERT_TRUE(ended->ok());
      EXPECT_EQ((*ended)->header, holders_[2]->state.header());
    }
  }
  EXPECT_GT(in_the_middle, 0);
}

}  // namespace
}  // namespace leat::step
