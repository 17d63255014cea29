#include "compute/engine/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "compute/engine/testing.h"

namespace leat::engine {
namespace {

using ::testing::ElementsAre;

TEST(Plan, ComputesIntoBoundMemory) {
  Graph graph;
  const Value x = Feed(graph, "x", {2}), y = graph.Make<ops::Neg>({graph.Make<ops::Square>({x})});
  const auto plan = Plan::Compile(graph, std::vector{y}, Options());
  EXPECT_THAT(plan->feeds(), ElementsAre(x));
  const Tensor in = Floats({2}, {1, 2}), other_in = Floats({2}, {3, 4}), out(DType::kF32, {2});
  plan->Bind(x, in.raw());
  plan->Run();
  EXPECT_THAT(Elements(plan->At(y)), ElementsAre(-1, -4));
  plan->Bind(y, out.raw());
  plan->Bind(x, other_in.raw());
  plan->Run();
  EXPECT_EQ(plan->At(y).raw(), out.raw());
  EXPECT_EQ(plan->At(x).raw(), other_in.raw());
  EXPECT_THAT(Elements(out), ElementsAre(-9, -16));
  // The square was computed in the memory of the result, so the arena is empty.
  EXPECT_EQ(plan->arena_bytes(), 0u);
}

TEST(Plan, CountsFinishedKernelsForAnotherThread) {
  for (const int threads : {1, 2}) {
    Graph graph;
    const Value x = Feed(graph, "x", {2});
    const Value y = graph.Make<ops::Neg>({graph.Make<ops::Square>({x})});
    PlanOptions options = Options();
    options.progress = std::make_shared<Progress>();
    options.inter_op_threads = threads;
    options.inline_below_us = 0;
    const auto plan = Plan::Compile(graph, std::vector{y}, options);
    const Tensor in = Floats({2}, {1, 2});
    plan->Bind(x, in.raw());
    EXPECT_EQ(options.progress->kernels(), 0u);
    plan->Run();
    const uint64_t once = options.progress->kernels();
    EXPECT_EQ(once, plan->steps()) << threads;
    plan->OnFetch(y, [] {});
    plan->Run();
    EXPECT_EQ(options.progress->kernels(), 2 * once) << threads;
  }
}

TEST(Plan, PrintsALineAKernel) {
  Graph graph;
  const Value x = Feed(graph, "x", {2, 2});
  const Value y = graph.MakeNamed<ops::MatMul>("y", {x, x}, true, false);
  const Value z = graph.MakeNamed<ops::Reshape>("z", {y}, Shape{4});
  const auto plan = Plan::Compile(graph, std::vector{y, z}, Options());
  EXPECT_EQ(plan->ToString(),
            "y = reference matmul transpose_a=true : f32[2, 2]\n"
            "z = engine copy : f32[4]\n");
  EXPECT_EQ(plan->steps(), 2u);
}

TEST(Plan, NamesAllNodesWithoutAKernel) {
  Graph graph;
  const Value x = Feed(graph, "x", {2});
  Graph::Scope scope(graph, "layer", "job.yaml:7");
  const Value a = graph.MakeNamed<ops::Neg>("a", {x}), b = graph.MakeNamed<ops::Exp>("b", {x});
  const KernelTable empty{"empty", {}};
  EXPECT_THAT(
      [&] {
        Plan::Compile(graph, std::vector{a, b}, {.tables = {&empty}, .passes = {}});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(
          "[neg] no kernel for f32[2], node \"layer/a\", job.yaml:7; "
          "[exp] no kernel for f32[2], node \"layer/b\", job.yaml:7"));
}

TEST(Plan, AsksTablesInOrderAndSkipsThoseThatDecline) {
  Graph graph;
  const Value x = Feed(graph, "x", {2}), y = graph.MakeNamed<ops::Neg>("y", {x});
  const KernelTable declines{"declines", {{"neg", [](const KernelRequest&) { return nullptr; }}}};
  PlanOptions options = Options();
  options.tables.insert(options.tables.begin(), &declines);
  EXPECT_EQ(Plan::Compile(graph, std::vector{y}, options)->ToString(), "y = reference neg : f32[2]\n");
}

TEST(Plan, RefusesToRunUnboundAndToBindOthers) {
  Graph graph;
  const Value x = Feed(graph, "x", {2}), unneeded = Feed(graph, "unneeded", {2});
  const Value y = graph.Make<ops::Neg>({x}), z = graph.Make<ops::Neg>({y});
  const auto plan = Plan::Compile(graph, std::vector{z}, Options());
  EXPECT_THAT([&] { plan->Run(); },
              ::testing::ThrowsMessage<std::invalid_argument>("feeds are not bound: \"x\""));
  EXPECT_THAT([&] { plan->Bind(y, nullptr); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  "output 0 of node 2 is neither a feed nor a fetch of this plan"));
  Tensor t(DType::kF32, {2});
  plan->Bind(unneeded, t.raw());
  EXPECT_EQ(plan->At(unneeded).raw(), t.raw());
  plan->Bind(x, t.raw());
  EXPECT_NO_THROW(plan->Run());
}

// Fetches that cannot be computed in their own memory are copied: views of feeds, constants, duplicates.
TEST(Plan, FetchesWhateverIsAskedFor) {
  Graph graph;
  const Value x = Feed(graph, "x", {2, 1});
  const Value view = graph.Make<ops::Reshape>({x}, Shape{2});
  const Value constant = graph.Make<graph::Constant>({}, Shape{2}, 7.0f);
  const Value folded = graph.Make<ops::Neg>({constant});
  const Value a = graph.Make<ops::Square>({x}), b = graph.Make<ops::Square>({x});
  const Value a_view = graph.Make<ops::Reshape>({a}, Shape{2});
  const std::vector<Value> fetches{x, view, constant, folded, a, b, a_view, a};
  for (PlanOptions options : {Options(), Queued()}) {
    options.passes = ops::StandardPasses();
    const auto plan = Plan::Compile(graph, fetches, options);
    const Tensor in = Floats({2, 1}, {2, 3});
    plan->Bind(x, in.raw());
    std::vector<Tensor> outs;
    for (Value v : {view, constant, folded, a, b, a_view}) {
      outs.emplace_back(graph.type(v));
      plan->Bind(v, outs.back().raw());
    }
    plan->Run();
    EXPECT_EQ(plan->At(x).raw(), in.raw());
    EXPECT_THAT(Elements(outs[0]), ElementsAre(2, 3));
    EXPECT_THAT(Elements(outs[1]), ElementsAre(7, 7));
    EXPECT_THAT(Elements(outs[2]), ElementsAre(-7, -7));
    for (int i : {3, 4, 5}) EXPECT_THAT(Elements(outs[static_cast<size_t>(i)]), ElementsAre(4, 9)) << i;
    EXPECT_THAT(Elements(in), ElementsAre(2, 3));
    // Both duplicates share one square.
    EXPECT_EQ(plan->steps(), 1u + 5u);
  }
}

// A callback of OnFetch may overwrite the fetch: the rest of the run does not depend on it.
TEST(Plan, TellsOfEachFetchOnceNothingTouchesItAnyMore) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomGraph random(seed);
    const std::vector<Tensor> in = random.Inputs(seed);
    const auto bound = [&](const PlanOptions& options) {
      auto plan = Plan::Compile(random.graph, random.fetches, options);
      for (size_t f = 0; f < in.size(); ++f) plan->Bind(random.feeds[f], in[f].raw());
      return plan;
    };
    const auto plain = bound(Options());
    plain->Run();
    PlanOptions devices = Queued(1);
    devices.machine = Devices(2);
    devices.rates = EagerRates();
    for (const PlanOptions& options : {Options(), Queued(), devices}) {
      const auto plan = bound(options);
      std::map<Value, std::vector<float>> told;
      size_t calls = 0;
      bool running = false;
      for (Value v : random.fetches) {
        if (std::ranges::count(random.feeds, v) > 0) continue;
        plan->OnFetch(v, [&, v, caller = std::this_thread::get_id()] {
          EXPECT_TRUE(running);
          EXPECT_EQ(std::this_thread::get_id(), caller);
          const Tensor t = plan->At(v);
          told[v] = Elements(t);
          std::ranges::fill(t.as<float>(), std::nanf(""));
          ++calls;
        });
      }
      for (int run = 0; run < 2; ++run) {
        told.clear();
        calls = 0;
        running = true;
        plan->Run();
        running = false;
        EXPECT_EQ(calls, told.size());
        for (Value v : random.fetches) {
          if (std::ranges::count(random.feeds, v) > 0) continue;
          ASSERT_EQ(told[v], Elements(plain->At(v))) << "seed " << seed << "\n" << plan->ToString();
        }
      }
    }
  }
}

TEST(Plan, TellsWhileTheRestIsStillToRun) {
  Graph graph;
  const Value x = Feed(graph, "x", {1});
  const Value a = graph.Make<ops::Square>({x}), b = graph.Make<ops::Neg>({a}), c = graph.Make<ops::Neg>({b});
  const auto plan = Plan::Compile(graph, std::vector{a, b, c}, Options());
  const Tensor in = Floats({1}, {3});
  plan->Bind(x, in.raw());
  std::string told;
  // The kernel of `b` reads `a`, and so on.
  plan->OnFetch(c, [&] { told += "c"; });
  plan->OnFetch(a, [&] {
    told += "a";
    EXPECT_EQ(Elements(plan->At(b))[0], -9);
    EXPECT_EQ(Elements(plan->At(c))[0], told.size() == 1 ? 0 : 9);
  });
  plan->OnFetch(b, [&] { told += "never"; });
  plan->OnFetch(b, nullptr);
  plan->Run();
  EXPECT_EQ(told, "ac");
  plan->OnFetch(a, [&] { told += "a"; });
  told.reserve(100);
  const size_t before = AllocationCount();
  for (int i = 0; i < 20; ++i) plan->Run();
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_THROW(plan->OnFetch(x, [] {}), std::invalid_argument);
}

TEST(Plan, FoldsWhatDependsOnConstantsAlone) {
  Graph graph;
  const Value c = graph.Make<graph::Constant>({}, Shape{1, 3}, 2.0f);
  const Value spread = graph.Make<ops::BroadcastTo>({graph.Make<ops::Reshape>({c}, Shape{3})}, Shape{2, 3});
  const Value x = Feed(graph, "x", {2, 3}), y = graph.Make<ops::Mul>({x, graph.Make<ops::Exp>({spread})});
  const Tensor in = Floats({2, 3}, {1, 1, 1, 1, 1, 2});
  PlanOptions options = Options();
  const auto folded = Plan::Compile(graph, std::vector{y}, options);
  options.fold_constants = false;
  const auto plain = Plan::Compile(graph, std::vector{y}, options);
  EXPECT_EQ(folded->steps(), 1u);
  EXPECT_EQ(plain->steps(), 3u);
  for (const auto& plan : {folded.get(), plain.get()}) {
    plan->Bind(x, in.raw());
    plan->Run();
  }
  EXPECT_EQ(Elements(folded->At(y)), Elements(plain->At(y)));
}

TEST(Plan, OutlivesItsGraph) {
  std::unique_ptr<Plan> plan;
  Value x, y;
  {
    Graph graph;
    x = Feed(graph, "x", {3});
    y = graph.Make<ops::Add>({x, graph.Make<graph::Constant>({}, Shape{3}, 1.0f)});
    plan = Plan::Compile(graph, std::vector{y}, Options());
  }
  const Tensor in = Floats({3}, {1, 2, 3});
  plan->Bind(x, in.raw());
  plan->Run();
  EXPECT_THAT(Elements(plan->At(y)), ElementsAre(2, 3, 4));
}

// Results are bitwise equal with any options for memory and threads.
TEST(Plan, SharingFoldingQueueAndPassesChangeNoBit) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomGraph random(seed);
    PlanOptions plain = Options();
    plain.share_memory = plain.fold_constants = false;
    PlanOptions queue_plain = Queued();
    queue_plain.share_memory = false;
    PlanOptions all = Queued();
    all.passes = ops::StandardPasses();
    std::vector<std::vector<float>> expected;
    for (const PlanOptions& options : {plain, Options(), Queued(), queue_plain, all}) {
      const auto plan = Plan::Compile(random.graph, random.fetches, options);
      const std::vector<Tensor> in = random.Inputs(seed);
      for (size_t f = 0; f < in.size(); ++f) plan->Bind(random.feeds[f], in[f].raw());
      for (int run = 0; run < 3; ++run) plan->Run();
      std::vector<std::vector<float>> results;
      for (Value v : random.fetches) results.push_back(Elements(plan->At(v)));
      if (expected.empty()) expected = results;
      ASSERT_EQ(results, expected) << "seed " << seed << "\n" << random.graph.ToString() << plan->ToString();
      if (options.share_memory && options.inter_op_threads == 1) {
        ASSERT_GE(plan->arena_bytes(), plan->largest_live_bytes());
      }
    }
  }
}

// A kernel that may overwrite its first input, and records whether it did.
class InPlaceKernel final : public Kernel {
 public:
  explicit InPlaceKernel(bool& in_place) : in_place_(in_place) {}
  void Run(const KernelArgs& args) override { in_place_ = args.inputs[0] == args.outputs[0]; }
  int OutputInPlaceOf(int input) const override { return input == 0 ? 0 : -1; }

 private:
  bool& in_place_;
};

TEST(Plan, ComputesInPlaceOnlyOfWhatNobodyElseNeeds) {
  bool in_place = false;
  KernelTable table = reference::Kernels();
  table.factories["sub"] = [&](const KernelRequest&) { return std::make_unique<InPlaceKernel>(in_place); };
  const auto run = [&](auto make, bool fetch_input) {
    Graph graph;
    const Value x = Feed(graph, "x", {2});
    const Value a = graph.Make<ops::Exp>({x}), b = graph.Make<ops::Log>({x});
    std::vector<Value> fetches{make(graph, x, a, b)};
    if (fetch_input) fetches.push_back(a);
    PlanOptions options = Options();
    options.tables = {&table};
    const auto plan = Plan::Compile(graph, fetches, options);
    const Tensor in = Floats({2}, {1, 2});
    plan->Bind(x, in.raw());
    plan->Run();
    return in_place;
  };
  const auto sub = [](Graph& graph, Value a, Value b) { return graph.Make<ops::Sub>({a, b}); };
  EXPECT_TRUE(run([&](Graph& graph, Value, Value a, Value b) { return sub(graph, a, b); }, false));
  EXPECT_FALSE(run([&](Graph& graph, Value, Value a, Value b) { return sub(graph, a, b); }, true));
  EXPECT_FALSE(run([&](Graph& graph, Value x, Value a, Value) { return sub(graph, x, a); }, false));
  // Both inputs have the same memory, and the kernel may overwrite only the first.
  EXPECT_FALSE(run([&](Graph& graph, Value, Value a, Value) { return sub(graph, a, a); }, false));
  const auto read_later = [&](Graph& graph, Value, Value a, Value b) {
    return graph.Make<ops::Mul>({sub(graph, a, b), a});
  };
  EXPECT_FALSE(run(read_later, false));
  const auto through_view = [&](Graph& graph, Value, Value a, Value b) {
    const Value view = graph.Make<ops::Reshape>({a}, Shape{1, 2});
    return graph.Make<ops::Mul>({sub(graph, a, b), view});
  };
  EXPECT_FALSE(run(through_view, false));
}

TEST(Plan, HonoursControlDependencies) {
  Graph graph;
  const Value x = Feed(graph, "x", {1});
  // Nodes 1 … 20 with only control dependencies between them. Every third dependency goes through a view.
  std::vector<Value> fetches;
  NodeIndex before = x.node;
  for (int i = 1; i <= 20; ++i) {
    const Value v = graph.Add(std::make_shared<ops::Scale>(static_cast<float>(i)), {x}, "", {before});
    fetches.push_back(v);
    before = i % 3 == 0 ? graph.Add(std::make_shared<ops::Reshape>(Shape{}), {x}, "", {v.node}).node : v.node;
  }
  // Also enough nodes that can run at any time.
  for (int i = 21; i <= 40; ++i) fetches.push_back(graph.Make<ops::Scale>({x}, static_cast<float>(i)));
  std::mutex mutex;
  std::vector<std::string> order;
  const KernelTable table = Probe().Table([&](const std::string& name) {
    std::lock_guard lock(mutex);
    order.push_back(name);
  });
  for (PlanOptions options : {Options(), Queued()}) {
    options.tables = {&table};
    options.passes = ops::StandardPasses();
    const auto plan = Plan::Compile(graph, fetches, options);
    const Tensor in = Floats({1}, {1});
    plan->Bind(x, in.raw());
    for (int run = 0; run < 20; ++run) {
      order.clear();
      plan->Run();
      ASSERT_EQ(order.size(), 40u);
      std::erase_if(order, [](const std::string& name) { return std::stoi(name.substr(7)) > 20; });
      for (int i = 1; i <= 20; ++i)
        ASSERT_EQ(order[static_cast<size_t>(i - 1)], "factor=" + std::to_string(i));
    }
  }
}

TEST(Plan, RunsIndependentBranchesAtTheSameTime) {
  Graph graph;
  const Value x = Feed(graph, "x", {1});
  const Value a = graph.Make<ops::Scale>({x}, 1.0f), b = graph.Make<ops::Scale>({x}, 2.0f);
  // Each kernel waits until the other has begun, which would deadlock if they ran inline.
  std::atomic<int> begun{0};
  std::atomic<bool> met{true};
  const KernelTable table = Probe().Table([&](const std::string&) {
    ++begun;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < 2) {
      if (std::chrono::steady_clock::now() > deadline) {
        met = false;
        return;
      }
      std::this_thread::yield();
    }
  });
  PlanOptions options = Queued(2);
  options.tables = {&table};
  const auto plan = Plan::Compile(graph, std::vector{a, b}, options);
  const Tensor in = Floats({1}, {1});
  plan->Bind(x, in.raw());
  for (int run = 0; run < 50 && met; ++run) {
    begun = 0;
    plan->Run();
  }
  EXPECT_TRUE(met);
}

TEST(Plan, ARunAllocatesNothing) {
  Perceptron model(4, {6, 8, 8, 3});
  for (const PlanOptions& options : {Options(), Queued()}) {
    const auto plan = model.Compile(options);
    plan->Run();
    const size_t before = AllocationCount();
    for (int i = 0; i < 100; ++i) plan->Run();
    plan->Bind(model.feeds[0], model.data[0].raw());
    EXPECT_EQ(AllocationCount() - before, 0u);
  }
}

TEST(Plan, ATrainingStepNeedsLittleMoreThanWhatLives) {
  Perceptron model(128, {784, 512, 512, 10});
  const auto plan = model.Compile(Options());
  EXPECT_LE(static_cast<double>(plan->arena_bytes()), 1.05 * static_cast<double>(plan->largest_live_bytes()));
  PlanOptions alone = Options();
  alone.share_memory = false;
  EXPECT_LT(2 * plan->arena_bytes(), 3 * model.Compile(alone)->arena_bytes());
}

TEST(Plan, NoThreadsMeansAllCores) {
  RandomGraph random(3);
  PlanOptions options = Queued(0);
  options.intra_op_threads = 0;
  const auto plan = Plan::Compile(random.graph, random.fetches, options);
  EXPECT_EQ(plan->threads(), std::min<int>(UsableCores(), static_cast<int>(plan->steps())));
}

TEST(Plan, ProfilesItsSteps) {
  Perceptron model(16, {64, 64, 3});
  for (const PlanOptions& options : {Options(), Queued()}) {
    const auto plan = model.Compile(options);
    plan->Run();
    const std::vector<float> before = Elements(plan->At(model.fetches[1]));
    const std::vector<StepTime> times = plan->Profile(3);
    ASSERT_EQ(times.size(), plan->steps());
    for (const StepTime& time : times) {
      EXPECT_GT(time.us, 0) << time.name;
      EXPECT_EQ(time.backend, "reference");
      EXPECT_EQ(time.device, "cpu:0");
    }
    EXPECT_EQ(times[0].kind, "dense");
    EXPECT_GT(times[0].bytes, 4 * 64 * 64);
    EXPECT_EQ(Elements(plan->At(model.fetches[1])), before);
  }
}

TEST(Plan, WhatAKernelThrowsComesOutOfTheRunAndTheNextOneIsFine) {
  Graph graph;
  const Value x = Feed(graph, "x", {1});
  std::vector<Value> fetches;
  for (int i = 1; i <= 8; ++i) fetches.push_back(graph.Make<ops::Scale>({x}, static_cast<float>(i)));
  std::atomic<bool> fail{true};
  const KernelTable table = Probe().Table([&](const std::string& name) {
    if (fail && name == "factor=5") throw std::runtime_error("five");
  });
  PlanOptions options = Queued();
  options.tables = {&table};
  const auto plan = Plan::Compile(graph, fetches, options);
  const Tensor in = Floats({1}, {1});
  plan->Bind(x, in.raw());
  for (int run = 0; run < 50; ++run) {
    fail = run % 2 == 0;
    if (fail) {
      EXPECT_THAT([&] { plan->Run(); }, ::testing::ThrowsMessage<std::runtime_error>("five"));
    } else {
      EXPECT_NO_THROW(plan->Run());
    }
  }
}

// Two plans that run at the same time share the process's threads and still compute the right results.
TEST(Plan, PlansOfSeveralThreadsShareOnePool) {
  const auto pool = ThreadPool::OfProcess();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      RandomGraph random(t);
      const auto inline_plan = Plan::Compile(random.graph, random.fetches, Options());
      const auto queued = Plan::Compile(random.graph, random.fetches, Queued());
      const std::vector<Tensor> in = random.Inputs(t);
      for (const auto& plan : {inline_plan.get(), queued.get()}) {
        for (size_t f = 0; f < in.size(); ++f) plan->Bind(random.feeds[f], in[f].raw());
      }
      inline_plan->Run();
      for (int run = 0; run < 100; ++run) {
        queued->Run();
        for (Value v : random.fetches) ASSERT_EQ(Elements(queued->At(v)), Elements(inline_plan->At(v)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->threads(), 2);
}

TEST(Plan, StaysInlineWhenThreadsDoNotPay) {
  // A chain of any length, and a very short graph with branches.
  std::thread::id ran;
  const KernelTable table = Probe().Table([&](const std::string&) { ran = std::this_thread::get_id(); });
  Graph chain;
  const Value x = Feed(chain, "x", {1 << 20});
  Value y = x;
  for (int i = 0; i < 20; ++i) y = chain.Make<ops::Scale>({y}, 2.0f);
  PlanOptions options = Queued();
  options.inline_below_us = 50;
  options.tables = {&table};
  const auto plan = Plan::Compile(chain, std::vector{y}, options);
  plan->Bind(x, nullptr);
  plan->Run();
  EXPECT_EQ(ran, std::this_thread::get_id());
}

}  // namespace
}  // namespace leat::engine
