// A whole job in one thread: the coordinator, servers and workers of protocol/ over a virtual clock, a
// virtual network and a virtual disk, with everything going wrong that a seed can think of.
//
// Messages are delayed, lost and doubled; processes pause, die, leave and are replaced; the coordinator
// crashes between any two of its actions and starts again from its journal; the job is stopped and resumed
// with other numbers of servers; the stream grows while all this happens. A run is a pure function of its
// options. It trains the counting model, so that the end shows whether every event counted exactly once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"

namespace leat::protocol::testing {

struct Faults {
  // Chances for each message of the data plane, each way, and for each call of the control plane, each way.
  double lost = 0.01;
  double doubled = 0.02;  // a push arrives twice, the second time whenever it likes
  double slow = 0.02;     // takes up to seconds
  double split_unreadable = 0.02;
  double crash_between_actions = 0.0005;                // of the coordinator, at each action
  double server_deaths = 0.2;                           // share of the disasters
  Duration slow_disk = std::chrono::milliseconds(100);  // that a write takes at most
  Duration disaster_every =
      std::chrono::milliseconds(300);     // mean time between deaths, pauses, stops; 0: none
  Time until = std::chrono::seconds(10);  // then nothing goes wrong any more
};

struct VirtualJobOptions {
  uint64_t seed = 1;
  uint32_t servers = 3;
  uint32_t workers = 3;
  uint32_t slices = 8;  // at least
  uint32_t partitions = 2;
  uint64_t events = 1500;                           // of each partition, on average
  Duration stream_takes = std::chrono::seconds(5);  // to grow to its end
  Faults faults;
};

struct VirtualJobResult {
  std::string mistake;  // empty: every event counted exactly once
  Time took{0};         // on the virtual clock
  uint64_t messages = 0;
  uint64_t deaths = 0;  // of workers and servers
  uint64_t pauses = 0;
  uint64_t restarts = 0;  // of the coordinator alone
  uint64_t resumes = 0;   // of the whole job
  uint64_t checkpoints = 0;
  uint64_t duplicates = 0;  // pushes that a ledger turned away
  uint64_t releases = 0;    // splits leased again
};

VirtualJobResult RunVirtualJob(const VirtualJobOptions& options);

// The default size of job with a mixture of faults, and a length of disasters, that is drawn from the seed:
// many bugs hide from the average mixture (Groce et al. 2012, swarm testing).
VirtualJobOptions Swarm(uint64_t seed);

// No faults at all.
Faults NoFaults();

}  // namespace leat::protocol::testing
