// All-reduce over 2 and 4 processes on this machine: Leat over its transports and by MPI, compared with Gloo
// and Open MPI in the same run.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "frame/baseline.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/team.h"
#include "net/same_host/shared_memory.h"
#include "net/transport.h"
#include "net/transports.h"
#include "train/collective/mpi.h"
#include "train/collective/peer_all_reduce.h"

namespace {

using namespace leat;
using namespace std::string_literals;

struct Size {
  const char* name;
  uint64_t bytes;
  int calls;  // per sample
};
constexpr std::array<Size, 6> kSizes{{{"4 KB", 4 << 10, 1000},
                                      {"64 KB", 64 << 10, 400},
                                      {"1 MB", 1 << 20, 60},
                                      {"4 MB", 4 << 20, 16},
                                      {"16 MB", 16 << 20, 5},
                                      {"64 MB", 64 << 20, 2}}};

double NowSeconds() {
  return Seconds(MonotonicClock().Now());
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "allreduce: %s\n", why.c_str());
  _exit(1);
}

using Floats = std::span<float>;

Floats FloatsOf(const Buffer& memory) {
  return {reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float)};
}

// Reduces one bucket, by each of the algorithms that jobs use.
class Reducer {
 public:
  Reducer(net::Loop& loop, collective::AllReduce& all, const std::string& kind, uint64_t bytes)
      : loop_(loop), all_(all), memory_(net::MakeSharedBuffer(bytes)) {
    if (kind == "one-shot") {
      if (!all_.supports_gather_only()) Fail("these members do not support the one-shot algorithm");
      apart_sum_.resize(bytes / sizeof(float));
    }
    if (kind == "chain") order_ = collective::Order::kLanes;
  }

  Floats values() { return FloatsOf(memory_); }
  Floats sum() { return apart() ? Floats(apart_sum_) : values(); }

  void Run() {
    collective::Bucket bucket{
        .data = memory_.bytes(), .order = order_, .memory = memory_, .gather_only = apart()};
    if (order_ == collective::Order::kLanes) bucket.lanes = {bucket.data};
    bool over = false;
    all_.Start(std::move(bucket), [&](const Status& status) {
      if (!status.ok()) Fail(status.ToString());
      if (apart()) AddUp();
      over = true;
    });
    while (!over) loop_.RunOnce(std::chrono::seconds(1));
  }

 private:
  bool apart() const { return !apart_sum_.empty(); }

  // A job's optimizer reads the contributions in place. Here they are added up, so that this row includes the
  // same work as the other rows.
  void AddUp() {
    const auto contributions = all_.Contributions();
    if (!contributions.ok()) Fail(contributions.status().ToString());
    const auto theirs = [&](size_t rank) {
      return reinterpret_cast<const float*>((*contributions)[rank].data());
    };
    constexpr size_t kBlock = 4096;  // stays in the cache while all are added
    for (size_t begin = 0; begin < apart_sum_.size(); begin += kBlock) {
      const size_t end = std::min(begin + kBlock, apart_sum_.size());
      std::copy(theirs(0) + begin, theirs(0) + end, apart_sum_.data() + begin);
      for (size_t rank = 1; rank < contributions->size(); ++rank) {
        const float* const values = theirs(rank);
        for (size_t i = begin; i < end; ++i) apart_sum_[i] += values[i];
      }
    }
    all_.Release();
  }

  net::Loop& loop_;
  collective::AllReduce& all_;
  collective::Order order_ = collective::Order::kAny;
  Buffer memory_;
  std::vector<float> apart_sum_;  // empty: the sum replaces the values
};

// Runs the commands of a member of Leat's group until the end of its input.
void Serve(net::Loop& loop, collective::AllReduce& all, const std::string& in, const std::string& out) {
  std::ifstream commands(in);
  std::ofstream answers(out);
  std::string kind;
  uint64_t bytes = 0;
  int calls = 0;
  while (commands >> kind >> bytes >> calls) {
    Reducer reducer(loop, all, kind, bytes);
    std::ranges::fill(reducer.values(), static_cast<float>(all.rank() + 1));
    reducer.Run();
    const auto right = static_cast<float>(all.members() * (all.members() + 1) / 2);
    if (!std::ranges::all_of(reducer.sum(), [&](float v) { return v == right; })) Fail("wrong sums");
    std::ranges::fill(reducer.sum(), 0.0f);
    const double begin = NowSeconds();
    for (int i = 0; i < calls; ++i) reducer.Run();
    answers << (NowSeconds() - begin) / calls << std::endl;
  }
}

// A member of Leat's group that reduces by MPI: this program under mpirun.
void MpiMember(const std::string& stem) {
  const auto place = collective::FindMpiRank();
  if (!place) Fail("a member that reduces by MPI has to be started by mpirun");
  const auto module = collective::LoadMpi(LEAT_MPI_MODULE);
  if (!module.ok()) Fail(module.status().ToString());
  net::Loop loop;
  bool formed = false;
  const auto all = collective::MakeMpiAllReduce(loop, **module, {.place = *place}, [&](const Status& status) {
    if (!status.ok()) Fail(status.ToString());
    formed = true;
  });
  while (!formed) loop.RunOnce(std::chrono::seconds(1));
  const std::string pipe = stem + "." + std::to_string(place->rank);
  Serve(loop, *all, pipe + ".in", pipe + ".out");
}

// A member of Leat's group, created as in a job's worker. Addresses are exchanged through files.
//
// Over tcp the members act as if on different hosts: they have different addresses and share no memory.
void Member(const bench::Team& team, uint32_t rank, uint32_t members, bool tcp) {
  net::Loop loop;
  const auto transport = net::MakeUcxTransport(loop, {.token = "bench", .shared_memory = !tcp});
  collective::Port port;
  const auto listener = transport->Listen(
      "127.0.0." + std::to_string(tcp ? rank + 1 : 1) + ":0",
      [&](std::unique_ptr<net::Connection> caller) { return port.Adopt(std::move(caller)); });
  if (!listener.ok()) Fail(listener.status().ToString());
  const auto address_file = [&](uint32_t of) { return team.stem() + "." + std::to_string(of) + ".address"; };
  std::ofstream(address_file(rank) + ".new") << (*listener)->address() << '\n';
  std::rename((address_file(rank) + ".new").c_str(), address_file(rank).c_str());
  collective::ProcessGroupOptions group{.rank = rank};
  for (uint32_t of = 0; of < members; ++of) {
    std::string address;
    while (!std::getline(std::ifstream(address_file(of)), address)) usleep(1000);
    group.addresses.push_back(address);
  }
  bool formed = false;
  const auto all =
      collective::MakePeerAllReduce(loop, *transport, port, std::move(group), [&](const Status& status) {
        if (!status.ok()) Fail(status.ToString());
        formed = true;
      });
  while (!formed) loop.RunOnce(std::chrono::seconds(1));

  Serve(loop, *all, team.in(rank), team.out(rank));
}

// A measured algorithm: a team of processes, and the kind of command for it.
struct Candidate {
  std::string name;
  std::shared_ptr<bench::Team> team;
  std::string kind = "any";
  std::vector<double> seconds = {};  // per call, one value per round
};

std::shared_ptr<bench::Team> Leat(const bench::Scratch& scratch, uint32_t members,
                                  const std::string& transport) {
  auto team =
      std::make_shared<bench::Team>(scratch / ("leat-" + transport + std::to_string(members)), members);
  for (uint32_t rank = 0; rank < members; ++rank) {
    team->Fork([&] { Member(*team, rank, members, transport == "tcp"); });
  }
  return team;
}

std::shared_ptr<bench::Team> Gloo(const bench::Scratch& scratch, uint32_t members) {
  const std::string python = bench::EnvironmentPython("frameworks");
  auto team = std::make_shared<bench::Team>(scratch / ("gloo" + std::to_string(members)), members);
  for (uint32_t rank = 0; rank < members; ++rank) {
    team->Run({python, LEAT_GLOO_SCRIPT, std::to_string(rank), std::to_string(members),
               team->stem() + ".store", team->in(rank), team->out(rank)});
  }
  return team;
}

std::shared_ptr<bench::Team> Mpi(const bench::Scratch& scratch, uint32_t members, const std::string& name,
                                 const std::vector<std::string>& settings,
                                 std::vector<std::string> program = {LEAT_MPI_MEMBER}) {
  auto team = std::make_shared<bench::Team>(scratch / ("mpi-" + name + std::to_string(members)), members);
  std::vector<std::string> words = {LEAT_MPIRUN, "--allow-run-as-root", "--oversubscribe", "-np",
                                    std::to_string(members)};
  // An mpirun that ends may remove the default session folder while another makes its own in it.
  words.insert(words.end(), {"--mca", "orte_tmpdir_base", scratch / "."});
  words.insert(words.end(), settings.begin(), settings.end());
  words.insert(words.end(), program.begin(), program.end());
  words.push_back(team->stem());
  team->Run(words);
  return team;
}

// Measures each of them once, in turn.
void Round(const std::vector<Candidate*>& contestants, uint64_t bytes, int calls) {
  for (Candidate* c : contestants) {
    const double seconds = c->team->Command(c->kind, bytes, calls, 60);
    if (seconds <= 0) throw std::runtime_error(c->name + ": " + c->team->Why());
    c->seconds.push_back(seconds);
  }
}

// The algorithm of a job's buckets of this size, without deterministic order and without one-shot.
std::string PathOf(uint64_t bytes, bool one_host) {
  const std::vector<std::string> addresses = {"a:1", one_host ? "a:2" : "b:2"};
  return bytes <= collective::ExchangeBytes(addresses) ? "exchange" : "ring";
}

void AddRow(bench::Report& report, const std::string& name, const Candidate& mine, const Candidate& other,
            bench::Bound bound = {}) {
  const auto in_us = [](std::vector<double> seconds) {
    for (double& s : seconds) s *= 1e6;
    return seconds;
  };
  report.Add(bench::MedianRow(name, in_us(mine.seconds), "µs", other.name, in_us(other.seconds), bound));
}

void Measure(bench::Report& report, uint32_t members, int rounds, const std::string& only) {
  const bench::Scratch scratch("allreduce" + std::to_string(members));
  const auto tcp_team = Leat(scratch, members, "tcp"), memory_team = Leat(scratch, members, "memory");
  Candidate tcp{"tcp", tcp_team};
  Candidate tcp_chain{"tcp, chain", tcp_team, "chain"};
  Candidate one_shot{"shared memory, one-shot", memory_team, "one-shot"};
  Candidate ring{"shared memory, any order", memory_team};
  Candidate chain{"shared memory, chain", memory_team, "chain"};
  Candidate gloo{"Gloo", Gloo(scratch, members)};
  Candidate mpi_tcp{"Open MPI over tcp", Mpi(scratch, members, "tcp", {"--mca", "btl", "tcp,self"})};
  Candidate mpi_memory{"Open MPI, shared memory",
                       Mpi(scratch, members, "memory", {"--mca", "btl_vader_single_copy_mechanism", "none"})};
  Candidate mpi{"Open MPI as it is", Mpi(scratch, members, "default", {})};
  const auto by_mpi_team =
      Mpi(scratch, members, "leat", {}, {std::filesystem::read_symlink("/proc/self/exe"), "--mpi-member"});
  Candidate by_mpi{"any order, by MPI", by_mpi_team};
  Candidate mpi_chain{"chain, by MPI", by_mpi_team, "chain"};
  const std::vector<Candidate*> all = {&tcp,   &tcp_chain,  &gloo, &mpi_tcp, &one_shot, &ring,
                                       &chain, &mpi_memory, &mpi,  &by_mpi,  &mpi_chain};
  for (const Size& size : kSizes) {
    if (!only.empty() && only != size.name) continue;
    for (Candidate* c : all) c->seconds.clear();
    for (int round = 0; round < rounds; ++round) Round(all, size.bytes, size.calls);
    const std::string name = std::to_string(members) + " × " + size.name + " ";
    for (const auto& [path, mine] :
         {std::pair(PathOf(size.bytes, false), &tcp), std::pair("chain"s, &tcp_chain)}) {
      AddRow(report, name + "tcp, " + path, *mine, gloo, bench::RatioBelow(1));
      AddRow(report, name + "tcp, " + path, *mine, mpi_tcp, bench::RatioBelow(1));
    }
    const bench::Bound to_memory = size.bytes >= 1 << 20 ? bench::RatioAtMost(1.3) : bench::Bound();
    for (const auto& [path, mine] :
         {std::pair("one-shot"s, &one_shot), std::pair(PathOf(size.bytes, true), &ring),
          std::pair("chain"s, &chain)}) {
      const std::string row = name + "shared memory, " + path;
      AddRow(report, row, *mine, gloo, bench::RatioBelow(1));
      AddRow(report, row, *mine, mpi_tcp, bench::RatioBelow(1));
      AddRow(report, row, *mine, mpi_memory, to_memory);
      AddRow(report, row, *mine, mpi);
    }
    AddRow(report, name + "by MPI", by_mpi, mpi);
    AddRow(report, name + "by MPI, chain", mpi_chain, by_mpi);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const int rounds = static_cast<int>(args.Number("--rounds", 5));
  const std::string only = args.String("--size", {});
  const double members = args.Number("--members", 0);
  const std::string mpi_member = args.String("--mpi-member", {});
  args.RefuseTheRest();
  if (!mpi_member.empty()) {
    MpiMember(mpi_member);
    return 0;
  }

  bench::Report report("allreduce", args);
  try {
    for (const uint32_t n : {2u, 4u}) {
      if (members == 0 || members == n) Measure(report, n, rounds, only);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench allreduce: %s\n", e.what());
    return 1;
  }
  report.Note("f32 sums, one at a time; each round measures every row once; medians over all rounds");
  report.Note("one-shot includes adding up the contributions, which a job does in its optimizer");
  return report.Finish();
}
