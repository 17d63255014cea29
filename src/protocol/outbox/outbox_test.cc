#include "protocol/outbox/outbox.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace leat::protocol {
namespace {

const IdsReserved* IdsIn(const CoordinatorAction& action) {
  const auto* journal = std::get_if<AppendJournal>(&action);
  return journal == nullptr ? nullptr : std::get_if<IdsReserved>(&journal->record);
}

TEST(Outbox, ABlockOfIdsIsJournaledBeforeItsFirstIdIsUsed) {
  Outbox outbox([](View*) {});
  outbox.Restore({.node = 7, .lease = 100});
  EXPECT_EQ(outbox.NextId(), 100u);
  EXPECT_EQ(outbox.NextId(), 101u);
  EXPECT_EQ(outbox.NextNode(), NodeId(7));
  const CoordinatorActions actions = outbox.DrainActions(false);
  ASSERT_EQ(actions.size(), 2u) << "one record per block";
  EXPECT_GT(IdsIn(actions[0])->lease, 101u);
  EXPECT_EQ(IdsIn(actions[0])->node, 7u) << "no node is reserved yet";
  EXPECT_GT(IdsIn(actions[1])->node, 7u);
  EXPECT_EQ(IdsIn(actions[1])->lease, outbox.reserved_ids());
}

TEST(Outbox, RecordsComeBeforeRepliesAndThoseBeforeOtherActions) {
  Outbox outbox([](View*) {});
  outbox.Request(RemoveCheckpoint{3});
  outbox.Answer(1, AdminReply{});
  outbox.Journal(CheckpointBegun{4});
  outbox.Answer(2, AdminReply{});
  const CoordinatorActions actions = outbox.DrainActions(false);
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<AppendJournal>(actions[0]));
  EXPECT_EQ(std::get<Reply>(actions[1]).call, 1u);
  EXPECT_EQ(std::get<Reply>(actions[2]).call, 2u);
  EXPECT_EQ(std::get<RemoveCheckpoint>(actions[3]).id, 3u);
  EXPECT_TRUE(outbox.DrainActions(false).empty());
}

TEST(Outbox, AReplyThatEndsARoleNeedsTheTerm) {
  Outbox outbox([](View*) {});
  outbox.Answer(1, KeepAliveReply{});
  EXPECT_EQ(outbox.DrainActions(false).size(), 1u);
  outbox.Answer(2, KeepAliveReply{});
  const CoordinatorActions stopping = outbox.DrainActions(true);
  ASSERT_EQ(stopping.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<ConfirmTerm>(stopping[0]));
  outbox.Answer(3, AdminReply{});
  EXPECT_TRUE(std::holds_alternative<ConfirmTerm>(outbox.DrainActions(false)[0])) << "a command was obeyed";
  outbox.Journal(CheckpointBegun{1});
  outbox.Answer(4, AdminReply{});
  EXPECT_TRUE(std::holds_alternative<AppendJournal>(outbox.DrainActions(false)[0])) << "the record shows it";
}

TEST(Outbox, AViewIsMadeOncePerChange) {
  int made = 0;
  Outbox outbox([&made](View* view) {
    ++made;
    view->members.emplace_back();
  });
  const Generation first = outbox.RefreshView()->generation;
  EXPECT_EQ(outbox.RefreshView()->generation, first);
  EXPECT_EQ(made, 1);
  outbox.ChangeView();
  outbox.ChangeView();
  EXPECT_EQ(outbox.view()->generation, first) << "nobody has asked";
  EXPECT_GT(outbox.RefreshView()->generation, first);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(outbox.view()->members.size(), 1u);
}

}  // namespace
}  // namespace leat::protocol
