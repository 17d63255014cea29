// A training step of each family must not allocate, nor need much more memory than its largest live set.
#include <gtest/gtest.h>

#include <ostream>

#include "frame/families.h"
#include "frame/heap.h"

namespace leat::bench {

void PrintTo(const TrainingCase& c, std::ostream* out) {
  *out << c.name;
}

namespace {

class SteadyState : public ::testing::TestWithParam<TrainingCase> {};

TEST(HeapWatch, CountsWhatIsAllocated) {
  const HeapWatch watch;
  auto* p = new std::vector<int>(10);
  EXPECT_EQ(watch.counts().own, 2u);
  EXPECT_EQ(watch.counts().dnnl, 0u);
  delete p;
}

TEST_P(SteadyState, AllocatesNothing) {
  Training training(GetParam(), {.kind = optim::Kind::kAdam, .learning_rate = 0.001f});
  for (int i = 0; i < 2; ++i) training.Step();
  const HeapWatch watch;
  for (int i = 0; i < 3; ++i) training.Step();
  EXPECT_EQ(watch.counts().own, 0u);
  RecordProperty("allocations_of_onednn", static_cast<int>(watch.counts().dnnl));
}

TEST_P(SteadyState, NeedsLittleMoreThanWhatIsAliveAtOnce) {
  Training training(GetParam(), {});
  EXPECT_LE(static_cast<double>(training.plan().arena_bytes()),
            1.2 * static_cast<double>(training.plan().largest_live_bytes()));
}

std::string TestName(const ::testing::TestParamInfo<TrainingCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Families, SteadyState, ::testing::ValuesIn(Families()), TestName);

}  // namespace
}  // namespace leat::bench
