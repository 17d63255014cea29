// A process of the tests under mpirun: `mpi_member MODULE MODE [RANK]`.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "train/collective/mpi.h"

namespace {

using namespace leat;

constexpr size_t kLanes = 8;

float Value(size_t lane, size_t i) {
  return 1e-3f * static_cast<float>((lane * 7919 + i * 104729) % 1000) + 1.0f / static_cast<float>(lane + 3);
}

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(9);
}

struct Member {
  net::Loop loop;
  std::unique_ptr<collective::AllReduce> all;

  Status Wait(const std::optional<Status>& ended) {
    while (!ended.has_value()) loop.RunOnce(std::chrono::seconds(1));
    return *ended;
  }
  Status Reduce(collective::Bucket bucket) {
    std::optional<Status> ended;
    all->Start(std::move(bucket), [&](const Status& status) { ended = status; });
    return Wait(ended);
  }
  Status Sum(std::vector<float>& values) {
    return Reduce({.data = std::as_writable_bytes(std::span(values))});
  }
};

void Sums(Member& member) {
  const uint32_t rank = member.all->rank(), members = member.all->members();
  for (const size_t n : {0, 1, 7, 1000, 1'000'003}) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(rank + i % 100);
    Expect(member.Sum(values).ok(), "sum");
    for (size_t i = 0; i < n; ++i) {
      const auto right = static_cast<float>(members * (members - 1) / 2 + members * (i % 100));
      Expect(values[i] == right, "value of a sum");
    }
  }
  std::vector<uint64_t> words(100, rank);
  Expect(
      member.Reduce({.data = std::as_writable_bytes(std::span(words)), .reduce = collective::kMaxU64}).ok(),
      "max");
  for (const uint64_t word : words) Expect(word == members - 1, "value of a maximum");
}

void Lanes(Member& member) {
  const uint32_t rank = member.all->rank(), members = member.all->members();
  for (const size_t n : {1, 1000, 500'009}) {
    std::vector<std::vector<float>> mine;
    std::vector<float> right(n), result(n);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      for (size_t i = 0; i < n; ++i) right[i] = lane == 0 ? Value(0, i) : right[i] + Value(lane, i);
      if (lane * members / kLanes != rank) continue;
      mine.emplace_back(n);
      for (size_t i = 0; i < n; ++i) mine.back()[i] = Value(lane, i);
    }
    collective::Bucket bucket{.data = std::as_writable_bytes(std::span(result)),
                              .order = collective::Order::kLanes};
    for (auto& lane : mine) bucket.lanes.push_back(std::as_bytes(std::span(lane)));
    Expect(member.Reduce(std::move(bucket)).ok(), "lanes");
    Expect(std::memcmp(result.data(), right.data(), n * sizeof(float)) == 0, "bits of lanes");
  }
}

void ManyAtATime(Member& member) {
  // Small ones, and some that are divided into pieces.
  std::vector<std::vector<float>> buckets(20);
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i].assign(i % 2 == 0 ? 10'000 : 600'001, 1.0f);
  size_t ended = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    collective::Bucket bucket{.data = std::as_writable_bytes(std::span(buckets[i]))};
    if (i % 3 == 0) {
      bucket.order = collective::Order::kLanes;
      bucket.lanes = {bucket.data};
    }
    member.all->Start(std::move(bucket), [&](const Status& status) { ended += status.ok(); });
  }
  while (ended < buckets.size()) member.loop.RunOnce(std::chrono::seconds(1));
  for (const auto& values : buckets) {
    for (const float v : values) Expect(v == static_cast<float>(member.all->members()), "one of many");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string mode = argv[2];
  Member member;
  const auto place = collective::FindMpiRank();
  Expect(place.has_value(), "the place that mpirun gives");
  const uint32_t rank = place->rank;
  const auto module = collective::LoadMpi(argv[1]);
  Expect(module.ok(), module.status().ToString().c_str());
  collective::MpiOptions options{.place = *place};
  options.deadline = std::chrono::milliseconds(1500);
  options.exit_status = 7;
  options.exit_status_of = [](const Status& why) { return why.code() == Code::kDataLoss ? 5 : 6; };
  const bool victim = argc > 3 && rank == static_cast<uint32_t>(std::atoi(argv[3]));
  while (victim && mode == "absent") pause();
  if (victim && mode == "misplaced") options.place.members += 1;
  std::optional<Status> formed;
  member.all = collective::MakeMpiAllReduce(member.loop, **module, options,
                                            [&](const Status& status) { formed = status; });
  if (mode == "early") {
    member.all.reset();
    return 0;
  }
  if (const Status status = member.Wait(formed); !status.ok()) {
    std::fprintf(stderr, "rank %u has no group: %s\n", rank, status.ToString().c_str());
    member.all.reset();
    return 0;
  }

  std::vector<float> values(100'000, 1.0f);
  Expect(member.Sum(values).ok(), "the first sum");
  if (mode == "sums") {
    Sums(member);
    Lanes(member);
    ManyAtATime(member);
    member.all.reset();
    std::printf("rank %u is fine\n", rank);
    return 0;
  }
  if (victim && mode == "die") raise(SIGKILL);
  if (victim && mode == "stop") raise(SIGSTOP);
  if (victim && mode == "give-up") {
    member.all->Abort({Code::kDataLoss, "nothing can be read"});
    member.all.reset();
  }
  while (victim && mode == "late") member.loop.RunOnce(std::chrono::seconds(1));
  while (victim && mode == "leave-hanging") pause();
  collective::Bucket bucket{.data = std::as_writable_bytes(std::span(values))};
  if (argc > 4) {
    bucket.order = collective::Order::kLanes;
    bucket.lanes = {bucket.data};
  }
  const Status status = member.Reduce(std::move(bucket));
  std::fprintf(stderr, "rank %u was told: %s, lost %d\n", rank, status.ToString().c_str(),
               member.all->lost().has_value() ? static_cast<int>(*member.all->lost()) : -1);
  // A member that does not end by itself is ended.
  if (mode == "leave-hanging") pause();
  member.all.reset();
  return 0;
}
