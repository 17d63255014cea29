#include "show/prometheus/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leat::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

report::JobStatus Read(const std::string& text) {
  return report::StatusFromJson(text).value();
}

std::string TextOf(const report::JobStatus& status) {
  StatusFamilies job;
  Families families;
  job.Add(status, &families);
  return families.Text();
}

TEST(StatusFamiliesTest, ExportsTheJob) {
  const std::string text = TextOf(Read(R"({
    "job": "fraud", "phase": "running", "strategy": "async", "events": 1000, "lag": 5, "lag_s": 0.5,
    "loss": 0.25, "accuracy": 0.9, "auc": null, "staleness_mean": 0.5, "staleness": [6, 4, 0, 1],
    "moves": {"planned": 1, "slices": 2, "bytes": 3, "failed": 4}, "evictions": 2, "failed_checkpoints": 1,
    "last_dead_letter": "a secret record", "directory": "/secret/path",
    "partitions": [{"partition": 3, "end": 9, "lag": 4, "lag_s": 1.5}],
    "waiting_for": "", "aggregated_compute_s": 12.5})"));
  for (const char* line :
       {"leat_job_info{name=\"fraud\",strategy=\"async\"} 1\n", "leat_job_phase{phase=\"running\"} 1\n",
        "leat_job_phase{phase=\"paused\"} 0\n", "leat_job_trained_events 1000\n", "leat_job_events_total 0\n",
        "leat_job_lag_events 5\n", "leat_job_lag_seconds 0.5\n", "leat_job_loss 0.25\n",
        "leat_job_accuracy_ratio 0.9\n", "leat_job_staleness_count 11\n", "leat_job_staleness_sum 6\n",
        "leat_job_staleness_bucket{le=\"1\"} 10\n", "leat_job_moved_slices_total 2\n",
        "leat_job_evictions_total 2\n", "leat_job_failed_checkpoints_total 1\n", "leat_job_blocked 0\n",
        "leat_job_partition_lag_events{partition=\"3\"} 4\n",
        "leat_job_partition_lag_seconds{partition=\"3\"} 1.5\n", "leat_job_compute_seconds_total 12.5\n"})
    EXPECT_THAT(text, HasSubstr(line));
  for (const char* none : {"leat_job_auc", "leat_job_unlabelled", "secret"})
    EXPECT_THAT(text, Not(HasSubstr(none)));
}

TEST(StatusFamiliesTest, ExportsTheMembers) {
  const std::string text = TextOf(Read(R"({
    "phase": "running", "waiting_for": "the journal",
    "members": [
      {"role": "worker", "index": 0, "host": "secret", "cpu_s": 2.5, "step_ms": 8, "slow": true, "skewed": false},
      {"role": "worker", "index": 1, "step_ms": null, "slow": false, "stuck": true, "unreachable": ["ps 0"]},
      {"role": "worker", "index": 0, "state": "standby", "slow": false},
      {"role": "ps", "index": 0, "share": 0.75}],
    "stuck_evicted": [{"role": "ps", "index": 3}]})"));
  for (const char* line : {"leat_job_members{role=\"worker\",state=\"active\"} 2\n",
                           "leat_job_members{role=\"worker\",state=\"standby\"} 1\n",
                           "leat_job_members{role=\"ps\",state=\"active\"} 1\n", "leat_job_stuck_members 2\n",
                           "leat_job_unreachable_pairs 1\n", "leat_job_blocked 1\n",
                           "leat_member_compute_seconds_total{role=\"worker\",index=\"0\"} 2.5\n",
                           "leat_member_step_seconds{role=\"worker\",index=\"0\"} 0.008\n",
                           "leat_member_slow{role=\"worker\",index=\"0\"} 1\n",
                           "leat_member_slow{role=\"worker\",index=\"1\"} 0\n",
                           "leat_member_slow{role=\"standby\",index=\"0\"} 0\n",
                           "leat_member_stuck{role=\"worker\",index=\"1\"} 1\n",
                           "leat_member_share_ratio{role=\"ps\",index=\"0\"} 0.75\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, Not(HasSubstr("leat_member_step_seconds{role=\"worker\",index=\"1\"}")));
}

TEST(StatusFamiliesTest, MembersAreLimited) {
  report::JobStatus status;
  for (uint32_t i = 0; i < StatusFamilies::kMostMembers + 5; ++i)
    status.members.push_back({.name = {.role = "worker", .index = i}});
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr("leat_job_members{role=\"worker\",state=\"active\"} 1005\n"));
  EXPECT_THAT(text, HasSubstr("leat_member_stuck{role=\"worker\",index=\"999\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("index=\"1000\"")));
}

TEST(StatusFamiliesTest, EventsOfALostServerAreCountedOnce) {
  StatusFamilies job;
  const auto text = [&job](uint64_t events) {
    Families families;
    report::JobStatus status;
    status.events = events;
    job.Add(status, &families);
    return families.Text();
  };
  EXPECT_THAT(text(1000), HasSubstr("leat_job_events_total 0\n"));
  EXPECT_THAT(text(1500), HasSubstr("leat_job_events_total 500\n"));
  const std::string fallen = text(1200);
  EXPECT_THAT(fallen, HasSubstr("leat_job_events_total 500\n"));
  EXPECT_THAT(fallen, HasSubstr("leat_job_trained_events 1200\n"));
  EXPECT_THAT(text(1600), HasSubstr("leat_job_events_total 600\n"));
}

TEST(StatusFamiliesTest, WhatIsNotKnownIsLeftOut) {
  const std::string text = TextOf({});
  for (const char* none : {"leat_job_loss", "leat_job_staleness", "leat_job_slices_to_move", "leat_member"})
    EXPECT_THAT(text, Not(HasSubstr(none)));
}

}  // namespace
}  // namespace leat::observe
