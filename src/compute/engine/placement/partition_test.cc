#include "compute/engine/placement/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "compute/engine/testing.h"

namespace leat::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PlanOptions OnDevices(size_t count, int threads = 1) {
  PlanOptions options = Queued(threads);
  options.machine = Devices(count, threads);
  options.rates = EagerRates();
  return options;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Results are bitwise equal for any partition, over many runs, with and without memory sharing.
TEST(Partition, RandomGraphsKeepTheirBits) {
  size_t several = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const size_t devices = 2 + seed % 3;
    std::vector<std::string> names;
    for (size_t d = 0; d < devices; ++d) names.push_back("cpu:" + std::to_string(d));
    const RandomGraph constrained(seed, names), plain(seed);
    for (const RandomGraph* random : {&constrained, &plain}) {
      const std::vector<Tensor> in = random->Inputs(seed);
      std::vector<std::vector<float>> expected;
      PlanOptions single = Options();
      single.machine = Devices(1);
      for (int way = 0; way < 4; ++way) {
        PlanOptions options = OnDevices(devices, way == 3 ? 2 : 1);
        options.share_memory = way != 2;
        if (way == 3) options.passes = ops::StandardPasses();
        const auto plan = way == 0 ? Plan::Compile(plain.graph, plain.fetches, single)
                                   : Plan::Compile(random->graph, random->fetches, options);
        if (way == 0 && random == &constrained) continue;  // some of its devices do not exist
        several += plan->devices().size() > 1;
        for (size_t f = 0; f < in.size(); ++f) plan->Bind(random->feeds[f], in[f].raw());
        for (int run = 0; run < 5; ++run) plan->Run();
        if (way == 2) plan->Profile(2);
        std::vector<std::vector<float>> results;
        for (Value v : random->fetches) results.push_back(Elements(plan->At(v)));
        if (expected.empty()) expected = results;
        ASSERT_EQ(results, expected) << "seed " << seed << "\n"
                                     << random->graph.ToString() << plan->ToString();
      }
    }
  }
  EXPECT_GT(several, 300u);
}

TEST(Partition, ATensorTravelsOncePerDestination) {
  Graph graph;
  const Value x = Feed(graph, "x", {4});
  Value h;
  {
    const Graph::Scope scope(graph, "", "", "cpu:0");
    h = graph.MakeNamed<ops::Tanh>("h", {x});
  }
  std::vector<Value> fetches;
  for (const char* device : {"cpu:1", "cpu:2"}) {
    const Graph::Scope scope(graph, "", "", device);
    // Read three times on that device, once through a view.
    const Value view = graph.Make<ops::Reshape>({h}, Shape{2, 2});
    fetches.push_back(graph.Make<ops::Mul>({h, graph.Make<ops::Neg>({h})}));
    fetches.push_back(graph.Make<ops::Exp>({view}));
  }
  const auto plan = Plan::Compile(graph, fetches, OnDevices(3));
  EXPECT_EQ(plan->devices().size(), 3u);
  const std::string text = plan->ToString();
  EXPECT_EQ(Count(text, "engine send"), 2u) << text;
  EXPECT_EQ(Count(text, "engine recv"), 2u) << text;
  EXPECT_THAT(text, HasSubstr("h/send = engine send edge=0 to=cpu:1\n"));
  EXPECT_THAT(text, HasSubstr("h/recv = engine recv edge=0 from=cpu:0 : f32[4]\n"));
  const Tensor in = Floats({4}, {0, 0, 0, 0});
  plan->Bind(x, in.raw());
  plan->Run();
  EXPECT_EQ(Elements(plan->At(fetches[1])), (std::vector<float>{1, 1, 1, 1}));
}

TEST(Partition, FeedsTravelFromTheirDevice) {
  Graph graph;
  Value x, y, z;
  {
    const Graph::Scope scope(graph, "", "", "cpu:1");
    x = graph.MakeNamed<graph::Variable>("x", {}, TensorType{DType::kF32, {2}});
    y = graph.Make<ops::Neg>({x});
  }
  const Value unneeded = Feed(graph, "unneeded", {2});
  {
    const Graph::Scope scope(graph, "", "", "cpu:0");
    z = graph.Make<ops::Square>({x});
  }
  const auto plan = Plan::Compile(graph, std::vector{x, y, z}, OnDevices(2));
  EXPECT_EQ(plan->feeds().size(), 1u);
  EXPECT_THAT([&] { plan->Run(); }, ThrowsMessage<std::invalid_argument>(HasSubstr("\"x\"")));
  const Tensor in = Floats({2}, {2, 3}), out(DType::kF32, {2});
  plan->Bind(x, in.raw());
  plan->Bind(unneeded, out.raw());
  plan->Bind(z, out.raw());
  plan->Run();
  EXPECT_EQ(Elements(plan->At(x)), (std::vector<float>{2, 3}));
  EXPECT_EQ(Elements(plan->At(y)), (std::vector<float>{-2, -3}));
  EXPECT_EQ(Elements(out), (std::vector<float>{4, 9}));
  EXPECT_THROW(plan->Bind({99, 0}, nullptr), std::invalid_argument);
}

TEST(Partition, ControlDependenciesCross) {
  Graph graph;
  const Value x = Feed(graph, "x", {1});
  std::vector<Value> fetches;
  std::vector<NodeIndex> before;
  for (int i = 1; i <= 20; ++i) {
    const Graph::Scope scope(graph, "", "", i % 2 ? "cpu:0" : "cpu:1");
    Value v = graph.Add(std::make_shared<ops::Scale>(static_cast<float>(i)), {x}, "", before);
    fetches.push_back(v);
    // Every third dependency goes through a view.
    if (i % 3 == 0) v = graph.Add(std::make_shared<ops::Reshape>(Shape{}), {x}, "", {v.node});
    before = {v.node};
  }
  std::mutex mutex;
  std::vector<std::string> order;
  const KernelTable table = Probe().Table([&](const std::string& name) {
    std::lock_guard lock(mutex);
    order.push_back(name);
  });
  PlanOptions options = OnDevices(2, 2);
  options.tables = {&table};
  const auto plan = Plan::Compile(graph, fetches, options);
  const Tensor in = Floats({1}, {1});
  plan->Bind(x, in.raw());
  for (int run = 0; run < 20; ++run) {
    order.clear();
    plan->Run();
    ASSERT_EQ(order.size(), 20u);
    for (size_t i = 0; i < 20; ++i) ASSERT_EQ(order[i], "factor=" + std::to_string(i + 1));
  }
}

TEST(Partition, ARunAllocatesNothing) {
  const RandomGraph random(5, {"cpu:0", "cpu:1", "cpu:2"});
  const auto plan = Plan::Compile(random.graph, random.fetches, OnDevices(3, 2));
  ASSERT_EQ(plan->devices().size(), 3u);
  const std::vector<Tensor> in = random.Inputs(1);
  for (size_t f = 0; f < in.size(); ++f) plan->Bind(random.feeds[f], in[f].raw());
  plan->Run();
  const size_t before = AllocationCount();
  for (int i = 0; i < 200; ++i) plan->Run();
  EXPECT_EQ(AllocationCount() - before, 0u);
}

// A chain across devices, with a test function as the kernel of "factor=3".
struct Chain {
  explicit Chain(std::function<void()> f) {
    Value v = x = Feed(graph, "x", {1});
    for (int i = 1; i <= 5; ++i) {
      const Graph::Scope scope(graph, "", "", i % 2 ? "cpu:0" : "cpu:1");
      v = graph.Make<ops::Scale>({v}, static_cast<float>(i));
    }
    last = v;
    table = Probe().Table([f](const std::string& name) {
      if (name == "factor=3") f();
    });
    options = OnDevices(2);
    options.tables = {&table};
  }
  std::unique_ptr<Plan> Compile() {
    auto plan = Plan::Compile(graph, std::vector{last}, options);
    plan->Bind(x, in.raw());
    return plan;
  }

  Graph graph;
  Value x, last;
  KernelTable table;
  PlanOptions options;
  Tensor in = Floats({1}, {1});
};

TEST(Partition, AFailingPartEndsTheRunOfAll) {
  int runs = 0;
  Chain chain([&] {
    if (++runs % 2 == 1) throw std::runtime_error("three");
  });
  const auto plan = chain.Compile();
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT([&] { plan->Run(); }, ThrowsMessage<std::runtime_error>("three"));
    EXPECT_NO_THROW(plan->Run());
  }
}

// Drops tensors sent on one edge, while enabled.
class LossyRendezvous final : public Rendezvous {
 public:
  LossyRendezvous(size_t edges, const std::atomic<bool>& lose) : inner_(edges), lose_(lose) {}
  Status Send(const TransferKey& key, std::span<const std::byte> elements) override {
    return lose_ && key.edge == 1 ? Status() : inner_.Send(key, elements);
  }
  void Receive(const TransferKey& key, std::span<std::byte> into, Receiver& receiver) override {
    inner_.Receive(key, into, receiver);
  }
  void Abort(const Status& why) override { inner_.Abort(why); }

 private:
  LocalRendezvous inner_;
  const std::atomic<bool>& lose_;
};

TEST(Partition, NothingWaitsForEver) {
  std::atomic<bool> lose{true};
  Chain chain([] {});
  chain.options.run_limit = std::chrono::milliseconds(50);
  chain.options.make_rendezvous = [&](size_t edges) {
    return std::make_unique<LossyRendezvous>(edges, lose);
  };
  const auto plan = chain.Compile();
  for (int i = 0; i < 3; ++i) {
    try {
      plan->Run();
      ADD_FAILURE() << "the run ended although a tensor was lost";
    } catch (const RunFailed& e) {
      EXPECT_EQ(e.status.code(), Code::kDeadlineExceeded) << e.what();
    }
  }
  lose = false;
  chain.options.run_limit = std::chrono::minutes(1);
  EXPECT_NO_THROW(chain.Compile()->Run());
}

}  // namespace
}  // namespace leat::engine
