#include "serve/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <numeric>

#include "base/testing.h"
#include "serve/testing.h"

namespace leat::serve {
namespace {

using namespace std::chrono_literals;
using testing::kWidth;
using testing::RandomRows;

class PredictorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Predictor> Make(uint32_t max_batch, Duration max_wait = {}, size_t most = 1 << 20) {
    return std::make_unique<Predictor>(Predictor::Options{.model = job.model,
                                                          .plan = job.Plan(testing::Kernels()),
                                                          .max_batch = max_batch,
                                                          .max_wait = max_wait,
                                                          .max_waiting_rows = most},
                                       versions, registry);
  }
  void Publish(uint64_t seed) {
    protocol::Parameters* set = nullptr;
    ASSERT_TRUE(WaitFor([&] { return (set = versions.Begin()) != nullptr; }));
    testing::Fill(set, seed);
    versions.Complete(set, Time{0});
  }
  static Predictor::Request RequestOf(std::vector<float> features,
                                      const std::shared_ptr<std::promise<Predictor::Answer>>& promise,
                                      Time deadline = Time::max()) {
    Predictor::Request request;
    request.rows = static_cast<uint32_t>(features.size() / kWidth);
    request.features = std::move(features);
    request.deadline = deadline;
    request.done = [promise](Predictor::Answer answer) { promise->set_value(std::move(answer)); };
    return request;
  }
  static std::future<Predictor::Answer> Ask(Predictor& predictor, std::vector<float> features,
                                            Time deadline = Time::max()) {
    const auto promise = std::make_shared<std::promise<Predictor::Answer>>();
    std::vector<Predictor::Request> requests;
    requests.push_back(RequestOf(std::move(features), promise, deadline));
    auto future = promise->get_future();
    predictor.Submit(std::move(requests));
    return future;
  }
  // Scores of the trainer's engine, for batches of this size.
  std::vector<float> Expected(uint64_t seed, const std::vector<float>& features, uint32_t batch) {
    protocol::Parameters parameters(job.Slices());
    testing::Fill(&parameters, seed);
    step::Trainer trainer(*job.model, parameters, job.Plan(testing::Kernels()));
    std::vector<float> scores;
    const size_t rows = features.size() / kWidth;
    for (size_t at = 0; at < rows; at += batch) {
      std::vector<uint32_t> order;
      for (size_t i = at; i < std::min(rows, at + batch); ++i) order.push_back(static_cast<uint32_t>(i));
      trainer.Predict({.features = features, .labels = {}, .truth = {}}, order, batch);
      const auto some = trainer.predictions();
      scores.insert(scores.end(), some.begin(), some.end());
    }
    return scores;
  }
  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  const job::Job job = testing::Payments();
  Versions versions{job.Slices()};
  metrics::Registry registry;
};

TEST_F(PredictorTest, ScoresAreThoseOfTheTrainersEngine) {
  Publish(1);
  const auto predictor = Make(32);
  EXPECT_EQ(predictor->scores_per_row(), 1u);
  for (const size_t rows : {1, 2, 3, 7, 8, 20, 32}) {
    const auto features = RandomRows(rows, rows);
    const auto answer = Ask(*predictor, features).get();
    ASSERT_TRUE(answer.status.ok());
    EXPECT_EQ(answer.version.number, 1u);
    EXPECT_TRUE(SameBits(answer.scores, Expected(1, features, predictor->BatchOf(rows)))) << rows;
  }
}

// Scores before a step learns from the batch, for a model without dropout and batch norm.
TEST_F(PredictorTest, ScoresAreThoseOfTraining) {
  Publish(1);
  const auto predictor = Make(32);
  const auto features = RandomRows(32, 9);
  protocol::Parameters parameters(job.Slices());
  testing::Fill(&parameters, 1);
  step::Trainer trainer(*job.model, parameters, job.Plan(testing::Kernels()));
  std::vector<uint32_t> order(32);
  std::iota(order.begin(), order.end(), 0u);
  const std::vector<float> labels(32, 1);
  trainer.Step({.features = features, .labels = labels, .truth = {}}, order, 32);
  const auto trained = trainer.predictions();
  EXPECT_TRUE(SameBits(Ask(*predictor, features).get().scores, {trained.begin(), trained.end()}));
}

TEST_F(PredictorTest, SaysWhetherItComputes) {
  Publish(1);
  const auto predictor = Make(8);
  EXPECT_FALSE(predictor->computing());
  std::promise<bool> computing;
  std::vector<Predictor::Request> requests(1);
  requests[0].rows = 1;
  requests[0].features = RandomRows(1, 1);
  requests[0].deadline = Time::max();
  requests[0].done = [&](const Predictor::Answer&) { computing.set_value(predictor->computing()); };
  predictor->Submit(std::move(requests));
  EXPECT_TRUE(computing.get_future().get());
  EXPECT_TRUE(WaitFor([&] { return !predictor->computing(); }));
}

TEST_F(PredictorTest, ScoresHardlyDependOnTheBatch) {
  Publish(1);
  const auto predictor = Make(64);
  const auto features = RandomRows(64, 3);
  const auto together = Ask(*predictor, features).get().scores;
  for (size_t row = 0; row < 64; ++row) {
    const auto alone =
        Ask(*predictor, {features.begin() + row * kWidth, features.begin() + (row + 1) * kWidth})
            .get()
            .scores;
    EXPECT_NEAR(alone[0], together[row], 1e-6 * std::abs(together[row]));
  }
}

TEST_F(PredictorTest, SizesArePowersOfTwoAndTheLargest) {
  const auto predictor = Make(48);
  EXPECT_EQ(predictor->BatchOf(1), 1u);
  EXPECT_EQ(predictor->BatchOf(3), 4u);
  EXPECT_EQ(predictor->BatchOf(32), 32u);
  EXPECT_EQ(predictor->BatchOf(33), 48u);
  EXPECT_EQ(predictor->BatchOf(1000), 48u);
}

TEST_F(PredictorTest, RequestsThatWaitAreComputedTogether) {
  Publish(1);
  const auto predictor = Make(16);
  std::vector<Predictor::Request> requests;
  std::vector<std::future<Predictor::Answer>> answers;
  for (int i = 0; i < 16; ++i) {
    const auto promise = std::make_shared<std::promise<Predictor::Answer>>();
    answers.push_back(promise->get_future());
    requests.push_back(RequestOf(RandomRows(1, 100 + i), promise));
  }
  predictor->Submit(std::move(requests));
  for (int i = 0; i < 16; ++i) {
    std::vector<float> all;
    for (int k = 0; k < 16; ++k) {
      const auto row = RandomRows(1, 100 + k);
      all.insert(all.end(), row.begin(), row.end());
    }
    EXPECT_EQ(answers[i].get().scores[0], Expected(1, all, 16)[i]);
  }
  EXPECT_EQ(registry.counter("leat_serve_batches_total").value(), 1u);
  EXPECT_EQ(registry.counter("leat_serve_rows_total").value(), 16u);
}

TEST_F(PredictorTest, ALargeRequestGoesThroughSeveralBatches) {
  Publish(1);
  const auto predictor = Make(8);
  const auto features = RandomRows(21, 5);
  const auto answer = Ask(*predictor, features).get();
  EXPECT_TRUE(SameBits(answer.scores, Expected(1, features, 8)));
  EXPECT_EQ(registry.counter("leat_serve_batches_total").value(), 3u);
}

// While versions change all the time, each request is of one version, whole.
TEST_F(PredictorTest, EveryRequestIsOfOneVersion) {
  Publish(1);
  const auto predictor = Make(4);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t seed = 2; !stop; ++seed) Publish(seed);
  });
  uint64_t last = 0;
  for (int i = 0; i < 200; ++i) {
    const auto features = RandomRows(12, i);
    const auto answer = Ask(*predictor, features).get();
    ASSERT_TRUE(answer.status.ok());
    EXPECT_GE(answer.version.number, last);
    last = answer.version.number;
    // Version n has the values of seed n.
    if (i % 10 != 0) continue;
    EXPECT_TRUE(SameBits(answer.scores, Expected(answer.version.number, features, 4))) << last;
  }
  stop = true;
  writer.join();
  EXPECT_GT(last, 2u);
}

TEST_F(PredictorTest, WithoutAVersionThereIsNoPrediction) {
  const auto predictor = Make(4);
  EXPECT_EQ(Ask(*predictor, RandomRows(1, 1)).get().status.code(), Code::kUnavailable);
  Publish(1);
  EXPECT_TRUE(Ask(*predictor, RandomRows(1, 1)).get().status.ok());
}

TEST_F(PredictorTest, LateRequestsAreNotBegun) {
  Publish(1);
  const auto predictor = Make(4);
  EXPECT_EQ(Ask(*predictor, RandomRows(1, 1), Time{1}).get().status.code(), Code::kDeadlineExceeded);
}

TEST_F(PredictorTest, TooManyRowsAreRefused) {
  Publish(1);
  // Nothing is computed before the wait is over, or it ends.
  auto predictor = Make(64, 10min, 10);
  auto first = Ask(*predictor, RandomRows(40, 1));  // alone: taken
  auto second = Ask(*predictor, RandomRows(1, 1));
  EXPECT_EQ(second.get().status.code(), Code::kResourceExhausted);
  predictor.reset();
  EXPECT_EQ(first.get().status.code(), Code::kUnavailable);
}

TEST_F(PredictorTest, AFullBatchDoesNotWait) {
  Publish(1);
  const auto predictor = Make(8, 10min);
  auto first = Ask(*predictor, RandomRows(3, 1));
  EXPECT_EQ(first.wait_for(20ms), std::future_status::timeout);
  auto second = Ask(*predictor, RandomRows(5, 2));
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_TRUE(second.get().status.ok());
}

TEST_F(PredictorTest, AfterStopEverythingIsRefused) {
  Publish(1);
  const auto predictor = Make(8);
  predictor->Stop();
  EXPECT_EQ(Ask(*predictor, RandomRows(1, 1)).get().status.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace leat::serve
