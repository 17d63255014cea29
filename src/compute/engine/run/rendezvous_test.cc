#include "compute/engine/run/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace leat::engine {
namespace {

class Mailbox final : public Rendezvous::Receiver {
 public:
  explicit Mailbox(size_t size) : bytes(size) {}
  void Arrived(const TransferKey&, const Status& status) override {
    last = status;
    ++arrivals;
  }

  std::vector<std::byte> bytes;
  Status last;
  std::atomic<int> arrivals{0};
};

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

TEST(LocalRendezvous, WhoeverComesFirst) {
  LocalRendezvous rendezvous(2);
  Mailbox before(2), after(2);
  rendezvous.Receive({1, 0}, before.bytes, before);
  EXPECT_EQ(before.arrivals, 0);
  EXPECT_TRUE(rendezvous.Send({1, 0}, Bytes({1, 2})).ok());
  EXPECT_TRUE(rendezvous.Send({1, 1}, Bytes({3, 4})).ok());
  rendezvous.Receive({1, 1}, after.bytes, after);
  for (const Mailbox* box : {&before, &after}) {
    EXPECT_EQ(box->arrivals, 1);
    EXPECT_TRUE(box->last.ok());
  }
  EXPECT_EQ(before.bytes, Bytes({1, 2}));
  EXPECT_EQ(after.bytes, Bytes({3, 4}));
}

TEST(LocalRendezvous, RunsDoNotMix) {
  LocalRendezvous rendezvous(1);
  Mailbox box(1);
  EXPECT_TRUE(rendezvous.Send({1, 0}, Bytes({1})).ok());
  rendezvous.Receive({2, 0}, box.bytes, box);
  EXPECT_EQ(box.arrivals, 0);  // the sent tensor belongs to another run
  EXPECT_EQ(rendezvous.Send({1, 0}, Bytes({1})).code(), Code::kStale);
  EXPECT_TRUE(rendezvous.Send({2, 0}, Bytes({2})).ok());
  EXPECT_EQ(rendezvous.Send({2, 0}, Bytes({3})).code(), Code::kFailedPrecondition);
  EXPECT_EQ(box.arrivals, 1);
  EXPECT_EQ(box.bytes, Bytes({2}));
  Mailbox late(1);
  rendezvous.Receive({1, 0}, late.bytes, late);
  EXPECT_EQ(late.last.code(), Code::kStale);
}

TEST(LocalRendezvous, SizesMustAgree) {
  LocalRendezvous rendezvous(2);
  Mailbox small(1), large(3);
  rendezvous.Receive({1, 0}, small.bytes, small);
  EXPECT_EQ(rendezvous.Send({1, 0}, Bytes({1, 2})).code(), Code::kDataLoss);
  EXPECT_EQ(small.last.code(), Code::kDataLoss);
  EXPECT_TRUE(rendezvous.Send({1, 1}, Bytes({1, 2})).ok());
  rendezvous.Receive({1, 1}, large.bytes, large);
  EXPECT_EQ(large.last.code(), Code::kDataLoss);
  EXPECT_EQ(small.bytes, Bytes({0}));
}

TEST(LocalRendezvous, AbortTellsAllWhoWaitAndThoseWhoCome) {
  LocalRendezvous rendezvous(2);
  Mailbox waiting(1), coming(1);
  rendezvous.Receive({1, 0}, waiting.bytes, waiting);
  rendezvous.Abort({Code::kUnavailable, "gone"});
  rendezvous.Abort({Code::kInternal, "second"});
  EXPECT_EQ(waiting.arrivals, 1);
  EXPECT_EQ(waiting.last.code(), Code::kUnavailable);
  EXPECT_EQ(rendezvous.Send({1, 1}, Bytes({1})).code(), Code::kUnavailable);
  rendezvous.Receive({1, 1}, coming.bytes, coming);
  EXPECT_EQ(coming.last.message(), "gone");
}

// Senders, receivers and an Abort at a random moment: each receiver is notified exactly once.
TEST(LocalRendezvous, EveryReceiverIsToldOnce) {
  constexpr uint32_t kEdges = 64;
  for (int round = 0; round < 50; ++round) {
    LocalRendezvous rendezvous(kEdges);
    std::vector<std::unique_ptr<Mailbox>> boxes;
    for (uint32_t e = 0; e < kEdges; ++e) boxes.push_back(std::make_unique<Mailbox>(8));
    std::thread sender([&] {
      const std::vector<std::byte> bytes(8, std::byte{7});
      for (uint32_t e = 0; e < kEdges; ++e) {
        if (!rendezvous.Send({1, e}, bytes).ok()) break;
      }
    });
    std::thread aborter([&] { rendezvous.Abort({Code::kAborted, "enough"}); });
    for (uint32_t e = 0; e < kEdges; ++e) rendezvous.Receive({1, e}, boxes[e]->bytes, *boxes[e]);
    sender.join();
    aborter.join();
    for (const auto& box : boxes) {
      ASSERT_EQ(box->arrivals, 1);
      ASSERT_EQ(box->bytes[0], box->last.ok() ? std::byte{7} : std::byte{0});
    }
  }
}

}  // namespace
}  // namespace leat::engine
