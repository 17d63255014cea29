#include "protocol/leases/partition_cursors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/rng.h"
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cut CutOf(uint32_t partition, uint64_t begin, uint64_t end) {
  return MakeCut({}, partition, {0, begin}, {0, begin}, end);
}

TEST(LabelMarks, ACutHasTheLabelsFromTheMarkOfItsFirstEventToThatOfItsLast) {
  LabelMarks marks(2);
  EXPECT_EQ(marks.Limit(1), 0u);
  EXPECT_EQ(marks.Last(1), std::nullopt);
  const std::vector<LabelMark> some = {{10, 0, 5}, {20, 3, 5}, {30, 4, 9}};
  EXPECT_EQ(*marks.Add(1, 0, some), some);
  EXPECT_EQ(marks.Limit(1), 30u);
  EXPECT_EQ(marks.Limit(0), 0u);
  EXPECT_EQ(marks.Last(1), some[2]);
  EXPECT_EQ(marks.RangeOf(CutOf(1, 0, 10)), (LabelRange{0, 5}));
  EXPECT_EQ(marks.RangeOf(CutOf(1, 9, 10)), (LabelRange{0, 5}));
  EXPECT_EQ(marks.RangeOf(CutOf(1, 9, 21)), (LabelRange{0, 9}));
  EXPECT_EQ(marks.RangeOf(CutOf(1, 10, 20)), (LabelRange{3, 5}));
  EXPECT_EQ(marks.RangeOf(CutOf(1, 29, 30)), (LabelRange{4, 9}));

  EXPECT_EQ(LabelMarks(0).RangeOf(CutOf(1, 0, 10)), std::nullopt) << "no late labels";
}

TEST(LabelMarks, WhatAReportRepeatsIsIgnored) {
  LabelMarks marks(1);
  ASSERT_TRUE(marks.Add(0, 0, {{10, 0, 5}, {20, 3, 5}}).ok());
  EXPECT_THAT(*marks.Add(0, 0, {{10, 0, 5}, {20, 3, 5}}), IsEmpty());
  EXPECT_THAT(*marks.Add(0, 0, {{20, 3, 5}, {30, 4, 9}}), ElementsAre(LabelMark{30, 4, 9}));
  marks.Forget({{0, 20}});
  EXPECT_EQ(marks.size(0), 1u);
  EXPECT_THAT(*marks.Add(0, 20, {{10, 0, 5}, {15, 0, 5}}), IsEmpty()) << "too old to be compared";
}

TEST(LabelMarks, MarksThatContradictTheKnownOnesAreDataLossAndNoneIsTaken) {
  LabelMarks marks(1);
  const auto add = [&marks](std::vector<LabelMark> some) { return marks.Add(0, 0, some).status(); };
  EXPECT_EQ(add({{0, 0, 0}}).code(), Code::kDataLoss) << "no events";
  EXPECT_EQ(add({{5, 7, 6}}).code(), Code::kDataLoss);
  ASSERT_TRUE(add({{10, 0, 5}, {20, 3, 7}}).ok());
  EXPECT_EQ(add({{30, 3, 8}, {40, 2, 9}}).code(), Code::kDataLoss) << "labels_begin descends";
  EXPECT_EQ(add({{30, 3, 6}}).code(), Code::kDataLoss) << "labels_end descends";
  EXPECT_EQ(add({{30, 9, 8}}).code(), Code::kDataLoss);
  EXPECT_EQ(add({{30, 3, 8}, {30, 3, 8}}).code(), Code::kDataLoss) << "twice in one report";
  EXPECT_EQ(add({{20, 3, 8}}).code(), Code::kDataLoss) << "other labels";
  EXPECT_EQ(add({{15, 0, 5}}).code(), Code::kDataLoss) << "another division of the events";
  EXPECT_EQ(marks.Last(0), (LabelMark{20, 3, 7}));
  EXPECT_EQ(marks.size(0), 2u);
  EXPECT_THAT(add({{20, 3, 8}}).message(),
              HasSubstr("partition 0: events up to 20, labels 3 to 8, which "
                        "contradicts the mark of events up to 20, labels 3 to 7"));
}

TEST(LabelMarks, HaveRoomForSoManyAheadOfTheCuts) {
  LabelMarks marks(1);
  std::vector<LabelMark> many;
  for (uint64_t i = 1; i <= LabelMarks::kMaxAhead; ++i) many.push_back({2 * i, i, i});
  EXPECT_EQ(marks.Room(0, 0), LabelMarks::kMaxAhead);
  ASSERT_TRUE(marks.Add(0, 0, many).ok());
  EXPECT_EQ(marks.Room(0, 0), 0u);
  EXPECT_EQ(marks.Room(0, 1), 0u);
  EXPECT_EQ(marks.Room(0, 2), 1u) << "all events of the first mark are cut";
  EXPECT_EQ(marks.Room(0, 21), 10u);
  const uint64_t next = many.back().events + 1;
  EXPECT_THAT(*marks.Add(0, 0, many), IsEmpty()) << "repeated ones need no room";
  EXPECT_EQ(marks.Add(0, 0, {{next, many.size(), many.size()}}).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(marks.Add(0, 2, {{next, many.size(), many.size()}}).ok());
}

TEST(LabelMarks, AJournalIsTakenAsItIs) {
  LabelMarks marks(2);
  EXPECT_TRUE(marks.Restore({0, {{10, 0, 5}}}).ok());
  EXPECT_TRUE(marks.Restore({0, {{20, 3, 7}, {30, 3, 7}}}).ok());
  EXPECT_EQ(marks.RangeOf(CutOf(0, 5, 15)), (LabelRange{0, 7}));
  EXPECT_EQ(marks.Restore({0, {{30, 3, 7}}}).code(), Code::kDataLoss);
  EXPECT_EQ(marks.Restore({2, {{30, 3, 7}}}).code(), Code::kDataLoss);
}

// The oracle looks at every mark that there ever was.
TEST(LabelMarks, AreTheSameForEveryCutWhateverIsForgottenAndRestored) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    std::vector<LabelMark> all;
    std::vector<JournalRecord> journal;
    std::map<std::pair<uint64_t, uint64_t>, LabelRange> ranges;  // label ranges of cuts, when they were made
    std::vector<Cut> cuts;
    auto marks = std::make_unique<LabelMarks>(1);
    uint64_t at = 0, needed = 0;
    for (int step = 0; step < 60; ++step) {
      std::vector<LabelMark> report(all.end() - static_cast<std::ptrdiff_t>(rng.Below(all.size() + 1)),
                                    all.end());
      for (uint64_t n = rng.Below(4); n > 0; --n) {
        LabelMark mark = all.empty() ? LabelMark{} : all.back();
        mark.events += 1 + rng.Below(30);
        mark.labels_begin += rng.Below(mark.labels_end - mark.labels_begin + 1);
        mark.labels_end += rng.Below(20);
        all.push_back(mark);
        report.push_back(mark);
      }
      auto fresh = marks->Add(0, at, report);
      ASSERT_TRUE(fresh.ok()) << fresh.status().ToString();
      if (!fresh->empty()) journal.push_back(LabelsMarked{0, *fresh});
      while (at < marks->Limit(0) && rng.Chance(0.7)) {
        const uint64_t end = at + 1 + rng.Below(std::min<uint64_t>(marks->Limit(0) - at, 40));
        cuts.push_back(CutOf(0, at, end));
        LabelRange range{~uint64_t{0}, 0};
        uint64_t begin = 0;
        for (const LabelMark& mark : all) {
          if (begin < end && mark.events > at) {
            range.begin = std::min(range.begin, mark.labels_begin);
            range.end = std::max(range.end, mark.labels_end);
          }
          begin = mark.events;
        }
        ranges[{at, end}] = range;
        at = end;
      }
      // A checkpoint, whose watermark is where some cut begins; and sometimes a restart.
      if (!cuts.empty() && rng.Chance(0.3)) {
        needed = std::max(needed, cuts[rng.Below(cuts.size())].begin.offset);
        marks->Forget({{0, needed}});
        DropMarksBefore({{0, needed}}, &journal);
      }
      if (rng.Chance(0.2)) {
        marks = std::make_unique<LabelMarks>(1);
        for (const JournalRecord& record : journal)
          ASSERT_TRUE(marks->Restore(std::get<LabelsMarked>(record)).ok());
        ASSERT_EQ(marks->Last(0), all.empty() ? std::nullopt : std::optional(all.back()));
      }
      for (const Cut& cut : cuts) {
        if (cut.begin.offset < needed) continue;
        ASSERT_EQ(marks->RangeOf(cut), (ranges.at({cut.begin.offset, cut.end})))
            << "seed " << seed << ": [" << cut.begin.offset << ", " << cut.end << ")";
      }
    }
  }
}

// ---- in the coordinator. Partitions 0 and 1 begin at 0 and 1000; splits have 20 events in 2 runs.

class LateLabelsTest : public CoordinatorTest {
 protected:
  LateLabelsTest() {
    config_.late_labels = true;
    Start({});
  }
  // The contents of partition 0; nothing comes to partition 1.
  void Marks(uint64_t end, std::vector<LabelMark> marks, bool sealed = false) {
    Take(coordinator_->OnStream(now_, {{0, 0, end, sealed, std::move(marks)}, {1, 1000, 1000, sealed}}));
  }
  std::vector<LabelsMarked> Journaled() const {
    std::vector<LabelsMarked> marks;
    for (const JournalRecord& record : journal_) {
      if (const auto* marked = std::get_if<LabelsMarked>(&record)) marks.push_back(*marked);
    }
    return marks;
  }
  static std::vector<uint64_t> Ids(const std::vector<Lease>& leases) {
    std::vector<uint64_t> ids;
    for (const Lease& lease : leases) ids.push_back(lease.id);
    return ids;
  }
  // By begin and end of the cut.
  using Labels = std::map<std::pair<uint64_t, uint64_t>, std::optional<LabelRange>>;
  static Labels LabelsOf(const std::vector<Lease>& leases) {
    Labels labels;
    for (const Lease& lease : leases) labels[{lease.cut.begin.offset, lease.cut.end}] = lease.labels;
    return labels;
  }
  void TrainAll(const std::vector<Lease>& leases) {
    for (const Lease& lease : leases) Train(lease);
    SendHeartbeat(worker_, 0, {}, Ids(leases));
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
  }
};

TEST_F(LateLabelsTest, CutsReachUpToTheLastMarkAndLeasesCarryTheirLabels) {
  Run(100, 1000);
  EXPECT_THAT(SendHeartbeat(worker_, 5).leases, IsEmpty());
  EXPECT_EQ(coordinator_->status().lag, 100u);
  EXPECT_EQ(coordinator_->status().unlabelled, 100u);
  Marks(100, {{25, 0, 7}, {50, 3, 12}});
  EXPECT_THAT(Journaled(), ElementsAre(LabelsMarked{0, {{25, 0, 7}, {50, 3, 12}}}));
  EXPECT_EQ(coordinator_->status().unlabelled, 50u);
  EXPECT_EQ(coordinator_->status().lag, 100u);
  const auto leases = SendHeartbeat(worker_, 5).leases;
  EXPECT_EQ(LabelsOf(leases), (Labels{{{0, 20}, LabelRange{0, 7}}, {{20, 40}, LabelRange{0, 12}}}));
  now_ += seconds(1);
  const auto tail = SendHeartbeat(worker_, 5, Ids(leases)).leases;
  EXPECT_EQ(LabelsOf(tail), (Labels{{{40, 50}, LabelRange{3, 12}}})) << "a tail that has waited";
}

TEST_F(LateLabelsTest, ATailIsCutAtOnceIfNoMoreMarksFit) {
  config_.cuts.split_batches = static_cast<uint32_t>(LabelMarks::kMaxAhead);
  Start({});
  constexpr uint64_t kEnd = 1'000'000;
  Run(kEnd, 1000);
  std::vector<LabelMark> marks;
  for (uint64_t i = 1; i <= LabelMarks::kMaxAhead; ++i) marks.push_back({i, i, i});
  const LabelMark last = marks.back();
  marks.pop_back();
  Marks(kEnd, marks);
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  Marks(kEnd, {last});
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].cut.end, LabelMarks::kMaxAhead / 10 * 10) << "whole batches";
  EXPECT_EQ(coordinator_->label_marks().at(0).room, leases[0].cut.end);
}

TEST_F(LateLabelsTest, ASealedPartitionEndsWhenMarksReachItsEnd) {
  Run(50, 1000, true);
  Marks(50, {{40, 0, 5}}, true);
  const auto first = SendHeartbeat(worker_, 5).leases;
  EXPECT_EQ(LabelsOf(first), (Labels{{{0, 20}, LabelRange{0, 5}}, {{20, 40}, LabelRange{0, 5}}}));
  TrainAll(first);
  EXPECT_EQ(coordinator_->status().watermark[0], (Position{0, 40}));
  EXPECT_FALSE(coordinator_->status().finished);
  Marks(50, {{50, 2, 9}}, true);
  const auto rest = SendHeartbeat(worker_, 5).leases;
  EXPECT_EQ(LabelsOf(rest), (Labels{{{40, 50}, LabelRange{2, 9}}})) << "at once";
  TrainAll(rest);
  EXPECT_TRUE(coordinator_->status().finished);
  EXPECT_EQ(coordinator_->status().unlabelled, 0u);
}

TEST_F(LateLabelsTest, AResumedJobLeasesTheSameCutsWithTheSameLabels) {
  EXPECT_EQ(coordinator_->label_marks().at(0).last, std::nullopt);
  EXPECT_EQ(coordinator_->label_marks().at(0).room, LabelMarks::kMaxAhead);
  Run(100, 1000);
  Marks(100, {{25, 0, 7}, {50, 3, 12}});
  const auto before = LabelsOf(SendHeartbeat(worker_, 5).leases);
  EXPECT_EQ(before.size(), 2u);

  Start({std::nullopt, journal_});
  const auto wanted = coordinator_->label_marks();
  EXPECT_EQ(wanted.at(0).last, (LabelMark{50, 3, 12}));
  EXPECT_EQ(wanted.at(0).room, LabelMarks::kMaxAhead - 1) << "the cuts end at 40";
  EXPECT_EQ(wanted.at(1).last, std::nullopt);
  Run(100, 1000);
  Marks(100, {{90, 11, 40}});
  const auto after = LabelsOf(SendHeartbeat(worker_, 5).leases);
  for (const auto& [cut, labels] : before) EXPECT_EQ(after.at(cut), labels) << cut.first;
  EXPECT_EQ(after.at({40, 60}), (LabelRange{3, 40}));
}

TEST_F(LateLabelsTest, WhatACheckpointMakesUnnecessaryIsForgotten) {
  Run(100, 1000);
  Marks(100, {{25, 0, 7}, {50, 3, 12}, {90, 4, 30}});
  const auto leases = SendHeartbeat(worker_, 4).leases;
  ASSERT_EQ(leases.size(), 4u);
  const Labels before = LabelsOf(leases);
  EXPECT_EQ(before.at({40, 60}), (LabelRange{3, 30}));
  TrainAll({leases[0], leases[1]});
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  Commit(manifest);
  const auto drop = All<DropCheckpoints>(actions_).at(0);
  EXPECT_EQ(drop.watermark[0], (Position{0, 40}));
  Marks(100, {{25, 0, 8}});
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning) << "it is too old to be compared";

  DropMarksBefore(drop.watermark, &journal_);
  EXPECT_THAT(Journaled(), ElementsAre(LabelsMarked{0, {{50, 3, 12}, {90, 4, 30}}}));
  Start({manifest, journal_});
  Run(100, 1000);
  const Labels after = LabelsOf(SendHeartbeat(worker_, 4).leases);
  EXPECT_EQ(after.at({40, 60}), before.at({40, 60}));
  EXPECT_EQ(after.at({60, 80}), before.at({60, 80}));
}

TEST_F(LateLabelsTest, LanesOfRoundsCarryTheirLabels) {
  config_.strategy.kind = StrategyKind::kSync;
  config_.strategy.lanes = 2;
  config_.cuts.split_batches = 1;
  Start({});
  Run(200, 1000);
  EXPECT_THAT(SendHeartbeat(worker_, 1).leases, IsEmpty());
  Marks(200, {{35, 0, 5}, {60, 2, 9}});
  const Labels labels = LabelsOf(SendHeartbeat(worker_, 1).leases);
  EXPECT_EQ(labels, (Labels{{{0, 10}, LabelRange{0, 5}},
                            {{10, 20}, LabelRange{0, 5}},
                            {{20, 30}, LabelRange{0, 5}},
                            {{30, 40}, LabelRange{0, 9}}}));
}

TEST_F(LateLabelsTest, SplitsToBeScoredAgainHaveTheirLabelsUntilTheyArePublished) {
  config_.max_unpublished = 40;
  config_.feeds = {":7"};
  Start({});
  Run(100, 1000);
  Marks(100, {{15, 0, 7}, {50, 3, 12}, {90, 4, 30}});
  const auto publish = [this](uint64_t published) {
    PublisherReport report{.partition = 0, .published = published, .held = {}, .status = {}};
    report.assignment = coordinator_->publisher_orders().at(0).assignment;
    Take(coordinator_->OnPublishers(now_, {report}));
  };
  publish(0);
  const auto leases = SendHeartbeat(worker_, 2).leases;
  ASSERT_EQ(leases.size(), 2u);
  TrainAll(leases);
  Admin(AdminRequest::Kind::kCheckpoint);
  Commit(SaveAll());
  const auto drop = All<DropCheckpoints>(actions_).at(0);
  EXPECT_EQ(drop.watermark[0], (Position{0, 0})) << "nothing is published";
  WorkerHeartbeat heartbeat;
  heartbeat.node = worker_;
  heartbeat.can_rescore = true;
  Call(heartbeat);
  now_ += seconds(3);
  const auto again = std::get<WorkerHeartbeatReply>(Call(heartbeat)).rescores;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(LabelsOf(again), (Labels{{{0, 20}, LabelRange{0, 12}}}));
  EXPECT_EQ(LabelsOf(leases).at({0, 20}), (LabelRange{0, 12}));
}

TEST_F(LateLabelsTest, MarksThatContradictTheJournalEndTheJob) {
  Run(100, 1000);
  Marks(100, {{25, 0, 7}, {50, 3, 12}});
  Marks(100, {{25, 0, 7}, {50, 3, 12}, {60, 3, 12}});
  EXPECT_THAT(Journaled(),
              ElementsAre(LabelsMarked{0, {{25, 0, 7}, {50, 3, 12}}}, LabelsMarked{0, {{60, 3, 12}}}));
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  Marks(100, {{70, 3, 11}});
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  EXPECT_EQ(Journaled().size(), 2u);
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  EXPECT_TRUE(SendHeartbeat(worker_, 5).stop);
  ASSERT_EQ(All<JobEnded>(actions_).size(), 1u);
  EXPECT_EQ(All<JobEnded>(actions_)[0].status.code(), Code::kDataLoss);
}

TEST_F(LateLabelsTest, AJournalThatContradictsItselfIsRejected) {
  const auto why = [this](std::vector<JournalRecord> journal) -> std::string {
    journal.insert(journal.begin(), StreamStart{{{0, 0}, {0, 1000}}});
    try {
      Start({std::nullopt, std::move(journal)});
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const LabelsMarked marked{0, {{25, 0, 7}}};
  const CutsMade made{{MakeCut(config_.cuts, 0, {}, {}, 20)}};
  EXPECT_EQ(why({marked, made}), "");
  EXPECT_THAT(why({made}), HasSubstr("cuts of partition 0 up to epoch 0 offset 20, and label marks up to"));
  const CutsMade old{{MakeCut(config_.cuts, 1, {0, 980}, {0, 980}, 1000)}};
  EXPECT_THAT(why({marked, made, old}), HasSubstr("cuts of partition 1 up to epoch 0 offset 1000"));
  EXPECT_THAT(why({marked, marked}), HasSubstr("wrong label mark of partition 0: events up to 25"));
  EXPECT_THAT(why({LabelsMarked{2, {{25, 0, 7}}}}), HasSubstr("partition 2, which the stream does not have"));
  config_.cuts.epochs = 2;
  EXPECT_THAT(why({}), HasSubstr("one pass over the stream, not 2"));
}

TEST_F(LateLabelsTest, WithoutLateLabelsMarksAreNothing) {
  config_.late_labels = false;
  Start({});
  Run(100, 1000);
  Marks(100, {{25, 0, 7}});
  EXPECT_THAT(Journaled(), IsEmpty());
  EXPECT_EQ(coordinator_->status().unlabelled, std::nullopt);
  EXPECT_THAT(coordinator_->label_marks(), IsEmpty());
  const auto leases = SendHeartbeat(worker_, 5).leases;
  ASSERT_EQ(leases.size(), 5u);
  for (const Lease& lease : leases) EXPECT_EQ(lease.labels, std::nullopt);
}

}  // namespace
}  // namespace leat::protocol
