#include "lab/study/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace leat::study {
namespace {

Profile Example() {
  Profile profile{
      .job = "mnist", .job_hash = 0x0123456789abcdef, .machine = "a processor", .cores = 4, .build = "1.0"};
  profile.batches = {{.size = 100, .compute_s = 0.012, .first_gradient = 0.4, .quantiles_s = {0.010, 0.014}},
                     {.size = 200, .compute_s = 0.022, .first_gradient = 0.4, .quantiles_s = {0.020, 0.024}}};
  profile.input = {785, 2e-6};
  profile.server = profile.member = {5e-6, 2e-10};
  profile.worker = {3e-6, 1e-10};
  profile.link = LinkProfile{"10.0.0.2:7000", 1.2e8, 1e-4};
  return profile;
}

TEST(Profile, IsTheSameAfterAFile) {
  const Profile profile = Example();
  const Result<Profile> read = ParseProfile(ToJson(profile), "p.json");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(ToJson(*read), ToJson(profile));
  EXPECT_EQ(read->job_hash, profile.job_hash);
  EXPECT_EQ(read->batches[1].compute(), profile.batches[1].compute());
  EXPECT_EQ(read->link->to, "10.0.0.2:7000");
}

TEST(Profile, WrongOnesAreRefusedInOneLine) {
  using Json = nlohmann::json;
  const Json good = Json::parse(ToJson(Example()));
  const auto refused = [](const Json& json, const std::string& what) {
    const Result<Profile> read = ParseProfile(json.dump(), "p.json");
    ASSERT_FALSE(read.ok()) << what;
    EXPECT_TRUE(read.status().message().starts_with("p.json: ")) << read.status().message();
    EXPECT_NE(read.status().message().find(what), std::string::npos) << read.status().message();
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
  };
  Json bad = good;
  bad.erase("leat_profile");
  refused(bad, "not a profile");
  bad = good;
  bad["leat_profile"] = 2;
  refused(bad, "another version");
  bad = good;
  bad["batches"] = Json::array();
  refused(bad, "batches");
  bad = good;
  bad["batches"][0]["quantiles_s"] = {0.02, 0.01};
  refused(bad, "quantiles_s");
  bad = good;
  bad["batches"][1]["size"] = 100;
  refused(bad, "twice");
  bad = good;
  bad["server"]["message_s"] = -1;
  refused(bad, "message_s");
  bad = good;
  bad["job_hash"] = "12";
  refused(bad, "job_hash");
  bad = good;
  bad["link"].erase("latency_s");
  refused(bad, "latency_s");
  EXPECT_FALSE(ParseProfile("", "p.json").ok());
  EXPECT_FALSE(ParseProfile("[1]", "p.json").ok());
}

TEST(Profile, SizesBetweenTwoAreInterpolated) {
  const Profile profile = Example();
  EXPECT_DOUBLE_EQ(BatchOf(profile, 100, "p")->compute_s, 0.012);
  const auto between = BatchOf(profile, 150, "p");
  ASSERT_TRUE(between.ok());
  EXPECT_NEAR(between->compute_s, 0.017, 1e-12);
  EXPECT_NEAR(between->quantiles_s.front(), 0.015, 1e-12);
  EXPECT_NEAR(between->quantiles_s.back(), 0.019, 1e-12);
  for (const uint32_t size : {50u, 400u})
    EXPECT_EQ(BatchOf(profile, size, "p").status().code(), Code::kInvalidArgument);
}

TEST(Cost, IsALineThroughTwoSizes) {
  const CostProfile cost = CostOf(1000, 11e-6, 2000, 12e-6);
  EXPECT_NEAR(cost.byte_s, 1e-9, 1e-15);
  EXPECT_NEAR(cost.message_s, 10e-6, 1e-9);
  // Noise makes nothing negative.
  EXPECT_EQ(CostOf(1000, 12e-6, 2000, 11e-6).byte_s, 0);
  EXPECT_EQ(CostOf(1000, 12e-6, 1000, 13e-6).byte_s, 0);
  EXPECT_EQ(CostOf(1'000'000, 1e-6, 2'000'000, 1).message_s, 0);
}

}  // namespace
}  // namespace leat::study
