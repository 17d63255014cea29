// `leat soak`: rounds of jobs with real processes and random faults. A round's plan is a job that counts
// events, and its faults; it runs the job, and checks the number of events that the job has counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "run/launcher/processes.h"

namespace leat::soak {

// ---- a plan: a pure function of the seed

enum class Part : uint8_t { kWorker = 0, kServer = 1, kCoordinator = 2, kAll = 3 };
LEAT_ENUM(Part, (kWorker, "worker"), (kServer, "server"), (kCoordinator, "coordinator"), (kAll, "all"));

enum class FaultKind : uint8_t {
  kKill = 0,  // kill -9, and started again after `lasts`; the coordinator at the same or at the other address
  kStop = 1,  // SIGSTOP, and SIGCONT after `lasts`
  kCut = 2,   // the network loses everything to and from its host, for `lasts`
  kFullDisk = 3,  // the coordinator has no space left, for `lasts`
  kReplace = 4,   // SIGTERM, so that it hands over what it has and leaves; then a new one joins
  kJoin = 5,      // another process joins
  kTakeOver = 6,  // the coordinator is stopped for `lasts`, and another one takes over at the other address
  kRolling = 7,   // all are replaced, one after the other; the coordinator is killed
  kDie = 8,       // the job has a process die at the named point
};
LEAT_ENUM(FaultKind, (kKill, "killed"), (kStop, "stopped"), (kCut, "cut off"), (kFullDisk, "full disk"),
          (kReplace, "replaced"), (kJoin, "joins"), (kTakeOver, "overtaken"), (kRolling, "rolling restart"),
          (kDie, "dies"));

struct RoundFault {
  FaultKind kind = FaultKind::kKill;
  Part part = Part::kWorker;
  uint32_t index = 0;   // among the processes of the part that are there
  uint64_t moment = 0;  // events that have counted by then
  Duration lasts{0};
  bool elsewhere = false;  // kKill of the coordinator: it is started at the other address
  std::string point;       // kDie: a value of debug: die_at
  uint32_t after = 1;      // kDie: debug: die_after
  // "worker 1 killed at 3500 events, started again after 0.8 s"
  std::string Describe() const;
};

struct RoundPlan {
  uint64_t seed = 0;
  std::string strategy;  // as in a job
  uint32_t workers = 2;
  uint32_t servers = 3;
  uint64_t events = 0;
  uint32_t batch_size = 50;
  uint32_t split_batches = 4;
  // The hosts of servers and workers do not see the job's directory.
  bool hidden = false;
  std::vector<RoundFault> faults;  // by moment; the stream goes on until the last one is over

  bool Has(FaultKind kind) const;
  std::string Describe() const;
  std::string JobText() const;  // the job file
};

// Events a second that the bots publish.
inline constexpr uint64_t kRate = 4000;

// The strategies that rounds take in turn.
const std::vector<std::string>& RoundStrategies();

// Round `round` of a soak that begins with `first_seed` has the seed first_seed + round. `hosts`: each
// process is on a host of its own, whose network can be cut and whose disk can fill up.
RoundPlan DrawRound(uint64_t seed, bool hosts);

// ---- a run

// Errors in a job's count of events, found in its parameters. A parameter below the number of events has lost
// some, one above it has counted some twice; a job may have both.
struct Tally {
  uint64_t lost = 0;   // the most that a parameter lacks
  uint64_t twice = 0;  // the most that a parameter has too often
  uint64_t wrong = 0;  // parameters
  // "1,024 of 4,096 parameters are wrong: from 99 to 105 of 100 events"; empty if none is.
  std::string reason;
};

Tally TallyOf(const std::vector<std::vector<float>>& variables, uint64_t events);

struct RoundSettings {
  std::string folder;  // new, and absolute: for the job, the logs and what hosts keep for a while
  bool hosts = false;  // each process is on a host of its own; after hosts::EnterNamespaces
  std::function<bool()> interrupted;
};

struct RoundResult {
  std::string failure;  // a line; empty: each event has counted once
  uint64_t lost = 0, twice = 0;
  uint64_t published = 0, counted = 0;
  uint32_t deaths = 0;  // processes killed by faults
  bool interrupted = false;
};

// Ends everything that it starts. `processes` has no other children.
RoundResult RunRound(const RoundPlan& plan, const RoundSettings& settings, launcher::Processes& processes);

// ---- all rounds

struct SoakOptions {
  uint64_t rounds = 50;
  uint64_t first_seed = 1;
  bool on_this_host = false;  // all processes here, instead of on emulated hosts
  std::string directory;      // for logs and jobs; empty: a new one for temporary files
  bool json = false;
};

// Blocks SIGINT and SIGTERM, and ends everything that it has started when one of them comes. Returns the exit
// status: 1 if a round has failed. Throws std::invalid_argument if hosts cannot be made.
int RunSoak(const SoakOptions& options);

}  // namespace leat::soak
