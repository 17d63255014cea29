#include "show/prometheus/role_metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace leat::observe {
namespace {

using Json = nlohmann::ordered_json;

const report::JobStatus kStatus = report::StatusFromJson(R"({"job": "fraud", "members": [
    {"role": "ps", "index": 1, "host": "here", "metrics": "127.0.0.1:4001"},
    {"role": "worker", "index": 0, "host": "there", "metrics": "10.0.0.7:4002"},
    {"role": "worker", "index": 1, "host": "there", "metrics": "127.0.0.1:4003"},
    {"role": "worker", "index": 0, "host": "here", "state": "standby", "metrics": "[::1]:4004"},
    {"role": "coordinator", "index": 0, "host": "there", "metrics": "there:4005"},
    {"role": "worker", "index": 2, "host": "here"}],
  "bots": [{"host": "here", "metrics": "127.0.0.1:4006"}, {"host": "there", "metrics": "127.0.0.1:4007"}]})")
                                      .value();

TEST(TargetsTest, ListsTheMembersThatCanBeReached) {
  const Json targets = Json::parse(TargetsJson(kStatus, "10.0.0.5:9464", "here", false));
  EXPECT_EQ(targets, Json::parse(R"([
    {"targets": ["10.0.0.5:9464"],
     "labels": {"leat_job": "fraud", "leat_role": "coordinator", "leat_index": "0"}},
    {"targets": ["127.0.0.1:4001"], "labels": {"leat_job": "fraud", "leat_role": "ps", "leat_index": "1"}},
    {"targets": ["10.0.0.7:4002"], "labels": {"leat_job": "fraud", "leat_role": "worker", "leat_index": "0"}},
    {"targets": ["[::1]:4004"],
     "labels": {"leat_job": "fraud", "leat_role": "worker-standby", "leat_index": "0"}},
    {"targets": ["there:4005"],
     "labels": {"leat_job": "fraud", "leat_role": "coordinator-standby", "leat_index": "0"}},
    {"targets": ["127.0.0.1:4006"],
     "labels": {"leat_job": "fraud", "leat_role": "bots", "leat_index": "0"}}])"));
}

TEST(TargetsTest, SaysThatTlsIsUsed) {
  const Json targets = Json::parse(TargetsJson(kStatus, "10.0.0.5:9464", "here", true));
  for (const Json& target : targets) EXPECT_EQ(target["labels"]["__scheme__"], "https");
}

}  // namespace
}  // namespace leat::observe
