#include "show/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "show/history/testing.h"

namespace leat::observe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Event::Kind;

class EventsTest : public ::testing::Test {
 protected:
  static Reading Read(const json& status) { return {5, StatusOf(status)}; }
  // "kind: text" of what has changed.
  std::vector<std::string> Changes() const {
    const Reading before = Read(before_);
    return Texts(EventsBetween(&before, Read(now_)));
  }
  static std::vector<std::string> Texts(const std::vector<Event>& events) {
    std::vector<std::string> texts;
    for (const Event& event : events) {
      EXPECT_EQ(event.time_s, 5);
      texts.push_back(std::string(fields::NameOf(event.kind)) + ": " + event.text);
    }
    return texts;
  }

  json before_ = StatusJson(), now_ = StatusJson();
};

TEST_F(EventsTest, NothingHasChanged) {
  now_["events"] = 700;
  now_["loss"] = 0.1;
  EXPECT_THAT(Changes(), IsEmpty());
}

TEST_F(EventsTest, TheFirstReadingHasAllMembers) {
  now_["checkpoint"] = "/jobs/fraud/checkpoint-000006";
  EXPECT_THAT(Texts(EventsBetween(nullptr, Read(now_))),
              ElementsAre("job: job fraud, strategy async", "joined: ps 0 joined (pid 101 on a)",
                          "joined: ps 1 joined (pid 102 on a)", "joined: worker 0 joined (pid 103 on a)",
                          "joined: worker 1 joined (pid 104 on a)", "job: running"));
}

TEST_F(EventsTest, MembersComeAndGo) {
  before_["departed"] = {{{"number", 3}, {"role", "worker"}, {"index", 7}, {"node", 77}, {"how", "lost"}}};
  now_["departed"] = before_["departed"];
  now_["departed"].push_back({{"number", 4}, {"role", "worker"}, {"index", 0}, {"node", 3}, {"how", "lost"}});
  now_["departed"].push_back({{"number", 5}, {"role", "ps"}, {"index", 0}, {"node", 1}, {"how", "evicted"}});
  now_["departed"].push_back({{"number", 6}, {"role", "worker"}, {"index", 1}, {"node", 4}, {"how", "left"}});
  // It was never seen.
  now_["departed"].push_back({{"number", 7}, {"role", "worker"}, {"index", 9}, {"node", 8}, {"how", "lost"}});
  now_["members"] = {ServerJson(2, 1), WorkerJson(9, 0)};
  EXPECT_THAT(
      Changes(),
      ElementsAre("died: worker 0 died", "died: ps 0 was evicted: it was silent, or held up others",
                  "left: worker 1 left", "died: worker 9 died", "joined: worker 0 joined (pid 109 on a)"));
  const Reading before = Read(before_);
  const auto events = EventsBetween(&before, Read(now_));
  EXPECT_EQ(events[0].member, "worker 0");
  EXPECT_EQ(events[0].node, 3u);
  EXPECT_EQ(events[4].node, 9u);
}

TEST_F(EventsTest, ANewCoordinatorCountsDeparturesAnew) {
  before_["departed"] = {{{"number", 3}, {"role", "worker"}, {"index", 7}, {"node", 77}, {"how", "lost"}}};
  now_["term"] = 2;
  now_["departed"] = {{{"number", 1}, {"role", "worker"}, {"index", 1}, {"node", 4}, {"how", "evicted"}}};
  now_["members"].erase(3);
  now_["members"].erase(2);
  EXPECT_THAT(Changes(), ElementsAre("warning: a coordinator of term 2 has taken over",
                                     "died: worker 1 was evicted: it was silent, or held up others",
                                     "left: worker 0 is gone"));
}

TEST_F(EventsTest, StatesOfMembers) {
  before_["members"][2]["state"] = "standby";
  now_["members"][3]["state"] = "draining";
  now_["members"][3]["unreachable"] = {"ps 0"};
  now_["members"][0]["stuck"] = true;
  now_["members"][2]["skewed"] = true;
  EXPECT_THAT(Changes(), ElementsAre("warning: ps 0 is alive and does nothing",
                                     "warning: worker 0 gets events that are unlike those of the others",
                                     "member: standby 0 takes part as worker 0",
                                     "member: worker 1 hands over what it has, and leaves",
                                     "warning: worker 1 cannot reach ps 0"));
  before_ = now_;
  EXPECT_THAT(Changes(), IsEmpty()) << "each is said once";
}

TEST_F(EventsTest, TheJob) {
  before_["moves"] = {{"planned", 3}};
  now_["phase"] = "stopping";
  now_["waiting_for"] = "the final checkpoint";
  now_["wanted"] = {{"workers", 5}, {"ps", 1}, {"reason", "the lag grows"}};
  now_["checkpoint"] = "/jobs/fraud/checkpoint-000006";
  now_["failed_checkpoints"] = 1;
  now_["checkpoint_failure"] = "no space";
  now_["drift"] = {{"alarms", 2}, {"last", {{"event", 123456}, {"mean", 0.25}}}};
  now_["rejected_batches"] = 1;
  now_["conflicts"] = 2;
  now_["warnings"] = {"ps 0 has most"};
  EXPECT_THAT(
      Changes(),
      ElementsAre("job: stopping", "warning: waits for the final checkpoint",
                  "job: 5 workers are wanted: the lag grows", "job: 1 server is wanted: the lag grows",
                  "job: all slices are where they should be", "checkpoint: checkpoint-000006 is complete",
                  "checkpoint_failed: a checkpoint failed: no space", "drift: drift: alarm 2 at event 123456",
                  "warning: 1 batch with a gradient that is not finite",
                  "warning: ledgers refused batches that contradict them", "warning: ps 0 has most"));
}

TEST_F(EventsTest, ACountOfTheFormerCoordinatorIsNoLimit) {
  before_["failed_checkpoints"] = 7;
  now_["failed_checkpoints"] = 1;
  now_["term"] = 2;
  now_["checkpoint_failure"] = "no space";
  EXPECT_THAT(Changes(), ElementsAre("warning: a coordinator of term 2 has taken over",
                                     "checkpoint_failed: a checkpoint failed: no space"));
}

TEST_F(EventsTest, DeadLettersComeWithWhoFoundThemAndAreCut) {
  now_["members"][2]["last_dead_letter"] = "partition 0 offset 5: <b>'x'</b> is not a number";
  now_["members"][3]["last_dead_letter"] = std::string(5000, 'x');
  const Reading before = Read(before_);
  const auto events = EventsBetween(&before, Read(now_));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::kDeadLetter);
  EXPECT_EQ(events[0].member, "worker 0");
  EXPECT_EQ(events[0].text, "partition 0 offset 5: <b>'x'</b> is not a number");
  EXPECT_EQ(events[1].text.size(), Event::kMaxText);
  before_ = now_;
  EXPECT_THAT(Changes(), IsEmpty());
}

}  // namespace
}  // namespace leat::observe
