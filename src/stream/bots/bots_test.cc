#include "stream/bots/bots.h"
#include "stream/bots/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "stream/decode/decoder.h"
#include "stream/schema.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kEvents = 240'000;

struct Scored {
  double score;
  double probability;
};

// The expected AUC of a score over all labels that could have been drawn. Exact, where counting drawn labels
// would add noise. Ties count half.
double ExpectedAuc(std::vector<Scored> events) {
  std::ranges::sort(events, {}, &Scored::score);
  double wins = 0, positives = 0, negatives = 0;
  for (size_t i = 0; i < events.size();) {
    double tied_positives = 0, tied_negatives = 0;
    const double score = events[i].score;
    for (; i < events.size() && events[i].score == score; ++i) {
      tied_positives += events[i].probability;
      tied_negatives += 1 - events[i].probability;
    }
    wins += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return wins / (positives * negatives);
}

// A run of the bots, shared by the tests of its statistics.
struct Sample {
  std::vector<double> probability;  // returned by Next
  std::vector<double> at_half;      // as of half time
  DecodedRows rows;
  size_t bytes = 0;
  Schema schema = Schema::FromConfig(Config::Parse(BotsSchemaYaml(), "bots"));

  Sample() {
    Bots bots({.seed = 3, .events = kEvents});
    const auto decoder = MakeDecoder(schema);
    std::vector<std::string> records;
    for (uint64_t i = 0; i < kEvents; ++i) {
      records.emplace_back();
      probability.push_back(bots.Next(&records.back()));
      at_half.push_back(bots.ProbabilityAt(0.5));
      bytes += records.back().size();
      if (records.size() == 1000 || i + 1 == kEvents) {
        decoder->Decode(BatchOf(records), &rows);
        records.clear();
      }
    }
  }
  static const Sample& Get() {
    static const Sample run;
    return run;
  }

  // Expected AUC over the events [begin, end), scored by `score`.
  double Auc(const std::vector<double>& score, size_t begin, size_t end) const {
    std::vector<Scored> events;
    for (size_t i = begin; i < end; ++i) events.push_back({score[i], probability[i]});
    return ExpectedAuc(std::move(events));
  }
  std::span<const float> Row(size_t i) const {
    return std::span(rows.features).subspan(i * schema.features(), schema.features());
  }
};

std::vector<std::string> Payments(const BotsConfig& config, size_t count) {
  Bots bots(config);
  std::vector<std::string> payments(count);
  for (auto& payment : payments) bots.Next(&payment);
  return payments;
}

// The text of a field of a payment, without quotes.
std::string FieldOf(const std::string& payment, const std::string& name) {
  const std::string key = "\"" + name + "\":";
  size_t begin = payment.find(key);
  EXPECT_NE(begin, std::string::npos) << payment;
  if (begin == std::string::npos) return "";
  begin += key.size();
  if (payment[begin] == '"') ++begin;
  return payment.substr(begin, payment.find_first_of(",}\"", begin) - begin);
}

std::string Failure(const std::string& yaml) {
  try {
    BotsConfig::FromConfig(Config::Parse(yaml, "job.yaml"));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ExpectedAuc, OfScoresThatAreRightWrongAndConstant) {
  EXPECT_DOUBLE_EQ(ExpectedAuc({{0.1, 0}, {0.9, 1}}), 1);
  EXPECT_DOUBLE_EQ(ExpectedAuc({{0.9, 0}, {0.1, 1}}), 0);
  EXPECT_DOUBLE_EQ(ExpectedAuc({{0.5, 0.3}, {0.5, 0.8}}), 0.5);
}

TEST(Bots, PossibleAucStaysWithinBounds) {
  const Sample& run = Sample::Get();
  for (size_t part = 0; part < 8; ++part) {
    const double auc = run.Auc(run.probability, part * kEvents / 8, (part + 1) * kEvents / 8);
    EXPECT_GT(auc, 0.90) << "eighth " << part;
    EXPECT_LT(auc, 0.96) << "eighth " << part;
  }
}

TEST(Bots, FewPaymentsAreFraud) {
  const Sample& run = Sample::Get();
  for (size_t part = 0; part < 4; ++part) {
    double frauds = 0;
    for (size_t i = part * kEvents / 4; i < (part + 1) * kEvents / 4; ++i) frauds += run.rows.labels[i];
    EXPECT_GT(frauds / (kEvents / 4), 0.02) << "quarter " << part;
    EXPECT_LT(frauds / (kEvents / 4), 0.05) << "quarter " << part;
  }
}

TEST(Bots, LabelsAreDrawnFromTheProbability) {
  const Sample& run = Sample::Get();
  std::vector<size_t> order(kEvents);
  for (size_t i = 0; i < kEvents; ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return run.probability[i]; });
  for (size_t bin = 0; bin < 10; ++bin) {
    double expected = 0, variance = 0, counted = 0;
    for (size_t at = bin * kEvents / 10; at < (bin + 1) * kEvents / 10; ++at) {
      const double p = run.probability[order[at]];
      expected += p;
      variance += p * (1 - p);
      counted += run.rows.labels[order[at]];
    }
    EXPECT_NEAR(counted, expected, 4 * std::sqrt(variance)) << "tenth " << bin;
  }
}

TEST(Bots, WhatWasBestAtHalfTimeLosesInTheLastQuarter) {
  const Sample& run = Sample::Get();
  const double now = run.Auc(run.probability, kEvents / 4 * 3, kEvents);
  const double frozen = run.Auc(run.at_half, kEvents / 4 * 3, kEvents);
  EXPECT_GE(now - frozen, 0.02) << "now " << now << ", frozen " << frozen;
  // Around half time the two are equal.
  EXPECT_NEAR(run.Auc(run.probability, kEvents / 100 * 49, kEvents / 100 * 51),
              run.Auc(run.at_half, kEvents / 100 * 49, kEvents / 100 * 51), 0.001);
}

// Logistic regression on the last quarter, with the true probabilities as labels, and evaluated on the same
// data: the upper limit of a linear model.
TEST(Bots, ALinearModelStaysWellBelow) {
  const Sample& run = Sample::Get();
  const size_t begin = kEvents / 4 * 3, width = run.schema.features();
  std::vector<double> weights(width + 1);
  const auto logit = [&](size_t i) {
    double sum = weights[width];
    for (size_t j = 0; j < width; ++j) sum += weights[j] * run.Row(i)[j];
    return sum;
  };
  for (double rate : {0.03, 0.02, 0.01, 0.003, 0.001}) {
    for (size_t i = begin; i < kEvents; ++i) {
      const double step = rate * (run.probability[i] - 1 / (1 + std::exp(-logit(i))));
      for (size_t j = 0; j < width; ++j) weights[j] += step * run.Row(i)[j];
      weights[width] += step;
    }
  }
  std::vector<double> scores(kEvents);
  for (size_t i = begin; i < kEvents; ++i) scores[i] = logit(i);
  const double linear = run.Auc(scores, begin, kEvents);
  EXPECT_GT(linear, 0.80) << "the regression has not learnt";
  EXPECT_LE(linear, run.Auc(run.probability, begin, kEvents) - 0.05) << linear;
}

TEST(Bots, EveryPaymentFitsTheSchema) {
  const Sample& run = Sample::Get();
  ASSERT_TRUE(run.rows.dead.empty()) << run.rows.dead[0].reason;
  ASSERT_EQ(run.rows.rows, kEvents);
  EXPECT_EQ(run.schema.features(), 30u);
  EXPECT_GT(run.bytes, kEvents * 200);
  EXPECT_LT(run.bytes, kEvents * 300);
  for (size_t i = 0; i < kEvents; ++i) {
    ASSERT_FLOAT_EQ(run.rows.truth[i], static_cast<float>(run.probability[i]));
    ASSERT_GT(run.probability[i], 0);
    ASSERT_LT(run.probability[i], 1);
  }
}

TEST(Bots, NumbersAreNormalised) {
  const Sample& run = Sample::Get();
  size_t at = 0;
  for (const Field& field : run.schema.fields) {
    if (field.type == Field::Type::kNumber && field.period == 0 && field.features() == 1) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < kEvents; ++i) {
        sum += run.Row(i)[at];
        squares += run.Row(i)[at] * run.Row(i)[at];
      }
      const double mean = sum / kEvents;
      EXPECT_NEAR(mean, 0, 0.05) << field.name;
      EXPECT_NEAR(std::sqrt(squares / kEvents - mean * mean), 1, 0.05) << field.name;
    }
    at += field.features();
  }
}

TEST(Bots, TheProbabilityIsAlsoPrinted) {
  Bots bots({.seed = 5, .customers = 50, .events = 4});
  for (int i = 0; i < 1000; ++i) {
    std::string payment;
    const double probability = bots.Next(&payment);
    EXPECT_EQ(FieldOf(payment, "p_fraud"), std::to_string(probability));
    EXPECT_EQ(probability, bots.ProbabilityAt(std::min(i / 4.0, 1.0)));
  }
}

TEST(Bots, CustomersHaveHabits) {
  std::map<std::string, std::string> last;
  std::map<std::string, std::vector<double>> amounts;
  for (const auto& payment : Payments({.seed = 2, .customers = 20}, 4000)) {
    const std::string customer = FieldOf(payment, "customer"), time = FieldOf(payment, "time");
    EXPECT_EQ(time.size(), 16u) << payment;
    EXPECT_LE(last[customer], time) << "calendars only move on";
    last[customer] = time;
    amounts[customer].push_back(std::log(std::atof(FieldOf(payment, "amount").c_str())));
  }
  ASSERT_EQ(amounts.size(), 20u);
  const auto moments = [](const std::vector<double>& xs) {
    double mean = 0, variance = 0;
    for (double x : xs) mean += x / static_cast<double>(xs.size());
    for (double x : xs) variance += (x - mean) * (x - mean) / static_cast<double>(xs.size());
    return std::array<double, 2>{mean, variance};
  };
  std::vector<double> means, variances;
  for (const auto& [customer, xs] : amounts) {
    means.push_back(moments(xs)[0]);
    variances.push_back(moments(xs)[1]);
  }
  // Without habits the customers' means would differ only by the noise of 200 draws each.
  EXPECT_GT(moments(means)[1], 10 * moments(variances)[0] / 200);
}

TEST(Bots, SameSeedSamePayments) {
  const auto payments = Payments({.seed = 9, .events = 5000}, 3000);
  EXPECT_EQ(payments, Payments({.seed = 9, .events = 5000}, 3000));
  const auto others = Payments({.seed = 10, .events = 5000}, 3000);
  size_t same = 0;
  for (size_t i = 0; i < payments.size(); ++i) {
    same += FieldOf(payments[i], "amount") == FieldOf(others[i], "amount");
  }
  EXPECT_LT(same, 30u);
}

TEST(Bots, CountsAndAppends) {
  Bots bots({.customers = 1, .events = 2});
  EXPECT_EQ(bots.ProbabilityAt(0), 0);
  std::string out = "kept";
  for (int i = 0; i < 5; ++i) bots.Next(&out);
  EXPECT_EQ(bots.produced(), 5u);
  EXPECT_EQ(out.substr(0, 5), "kept{");
  EXPECT_EQ(std::ranges::count(out, '}'), 5);
  EXPECT_EQ(out.find('\n'), std::string::npos);
}

TEST(BotsConfig, ReadsWhatIsThere) {
  const auto bots =
      BotsConfig::FromConfig(Config::Parse("{seed: 4, customers: 10, events: 300, rate: 1e4}", "job.yaml"));
  EXPECT_EQ(bots.seed, 4u);
  EXPECT_EQ(bots.customers, 10u);
  EXPECT_EQ(bots.events, 300u);
  EXPECT_EQ(bots.rate, 10'000);
  EXPECT_EQ(BotsConfig::FromConfig(Config::Parse("{events: 5}", "job.yaml")).customers, 20'000u);
}

TEST(BotsConfig, RefusesWithPlaceAndValue) {
  EXPECT_THAT(Failure("events: 5\nrat: 7"), HasSubstr("job.yaml:2: "));
  EXPECT_THAT(Failure("events: 5\nrat: 7"), HasSubstr("did you mean 'rate'?"));
  EXPECT_THAT(Failure("rate: -1"), HasSubstr("rate is -1"));
  EXPECT_THAT(Failure("customers: 0"), HasSubstr("customers is 0"));
  EXPECT_THAT(Failure("customers: 1000001"), HasSubstr("customers is 1000001"));
  EXPECT_THAT(Failure("events: 0"), HasSubstr("events is 0"));
  EXPECT_THAT(Failure("[1]"), HasSubstr("job.yaml:1: "));
}

TEST(BotsSchema, IsTheDemos) {
  const Config demo = Config::ParseFile(LEAT_DEMO_JOB);
  EXPECT_EQ(demo.At("schema").ToYaml(), Config::Parse(BotsSchemaYaml(), "bots").ToYaml());
  EXPECT_NO_THROW(BotsConfig::FromConfig(demo.At("stream").At("bots")));
}

}  // namespace
}  // namespace leat::stream
