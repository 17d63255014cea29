// `leat coordinator`: manages the view, leases and checkpoints. No gradient passes through it. Its settings
// beside the job: addresses, how it begins, and its observers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/log.h"
#include "base/status.h"
#include "job/job.h"
#include "net/address.h"
#include "net/rpc/scaler/scaler_server.h"
#include "net/tls/tls_identity.h"
#include "protocol/topology/host_place.h"
#include "show/history/job_monitor.h"
#include "show/prometheus/role_metrics.h"

namespace leat::roles {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string advertise;  // the address that roles are told to connect to; net::AdvertisedAddress
  // On the host of `listen`; 0: any free port.
  uint16_t transfer_port = 0;  // where roles that do not see the job's directory transfer shards
  uint16_t feed_port = 0;      // port of the feed for roles that do not have what the job reads
  std::string token;
  std::shared_ptr<net::TlsIdentity> tls = nullptr;  // null: no TLS
  topology::HostPlace place = {};                   // where this process is
  bool resume = false;
  // With `resume`: the job goes on even if another coordinator is alive, which this one replaces.
  bool take_over = false;
  // With `resume`: the number of the term for which the members have elected this coordinator. 0: they are
  // asked, if other coordinators may have copies of the directory.
  uint64_t term = 0;
  // With `term`: the electors that this coordinator knows to be agreed. Empty: as its journal says.
  std::vector<NodeId> electors = {};
  // With `resume`: no process of the former run is alive, so none is waited for, and none is asked.
  bool new_members = false;
  // The job that is resumed keeps the numbers of workers and servers that commands have set.
  bool keep_scale = false;
  bool pool = false;                                        // CoordinatorConfig::pool
  uint64_t pause_at = 0;                                    // CoordinatorConfig::pause_at
  std::shared_ptr<observe::RoleMetrics> metrics = nullptr;  // the role's metrics; null: it shows none
  // For those who look at the job; null: nobody does.
  std::shared_ptr<observe::JobMonitor> monitor = nullptr;
  std::string dashboard;  // the address of the job's page, which the status has; empty: there is none
  // Tells KEDA what the job wants; null: nobody.
  std::shared_ptr<control::ScalerServer> scaler = nullptr;
  std::string feed;  // address of the feed that the job reads from on another host (WaitForFeed)
  // TensorBoard shows the runs below this directory; the job's is named as its own directory. Empty: none.
  std::string tensorboard;
  bool tensorboard_gradients = false;  // it also shows the distribution of gradients, which workers report
  uint64_t max_time = 0;               // in seconds: then the job stops after a final checkpoint; 0: no limit
  // With `resume`: called with what the coordinator waits for before it accepts calls, when that changes.
  std::function<void(const std::string& what)> on_wait;
  // Called with the coordinator's address once it accepts calls.
  std::function<void(const std::string& address)> on_ready;
};

// Runs the job's coordinator in the calling thread until the job is over, or until a signal stops it after a
// final checkpoint. Writes summary.json into the job's directory at the end. kStale: another coordinator has
// replaced this one, and goes on with the job. With `resume`, brokers and buckets that are away are waited
// for; kAborted: a signal came meanwhile. Throws std::invalid_argument for errors of the user, and
// StatusError.
Status RunCoordinator(const job::Job& job, const CoordinatorOptions& options);

// An option of the command line that sets a member. `leat coordinator` has all of them, from this list alone,
// and docs/jobs.md shows them. Options with more than a value are added by the commands themselves.
struct CoordinatorOption {
  const char* name;
  std::variant<bool CoordinatorOptions::*, uint16_t CoordinatorOptions::*, uint64_t CoordinatorOptions::*,
               std::string CoordinatorOptions::*>
      member;
  const char* help;
  bool train = false;           // `leat train` and `leat demo` have it, too, and pass it on
  const char* needs = nullptr;  // an option before this one, without which it is refused
};

inline constexpr CoordinatorOption kCoordinatorOptions[] = {
    {.name = "--tensorboard",
     .member = &CoordinatorOptions::tensorboard,
     .help = "directory for TensorBoard: the run, named as the job's directory, is written below it",
     .train = true},
    {.name = "--tensorboard-gradients",
     .member = &CoordinatorOptions::tensorboard_gradients,
     .help = "with the distribution of each variable's gradient",
     .train = true,
     .needs = "--tensorboard"},
    {.name = "--max-time",
     .member = &CoordinatorOptions::max_time,
     .help = "stop after this many seconds of the coordinator, as by `leat stop`, with a final checkpoint; "
             "0: no limit",
     .train = true},
    {.name = "--transfer-port",
     .member = &CoordinatorOptions::transfer_port,
     .help = "port on --listen's host for checkpoints of other hosts; 0: any free port"},
    {.name = "--feed-port",
     .member = &CoordinatorOptions::feed_port,
     .help = "port on --listen's host of the coordinator's feed; 0: any free port"},
};

// The options of `train` that differ from their defaults, as arguments of `leat coordinator`.
inline std::vector<std::string> PassedOn(const CoordinatorOptions& options) {
  const CoordinatorOptions usual;
  std::vector<std::string> arguments;
  for (const CoordinatorOption& option : kCoordinatorOptions) {
    if (!option.train) continue;
    std::visit(
        [&](auto member) {
          const auto& value = options.*member;
          if (value == usual.*member) return;
          arguments.emplace_back(option.name);
          if constexpr (!std::is_same_v<decltype(value), const bool&>)
            arguments.push_back(fmt::to_string(value));
        },
        option.member);
  }
  return arguments;
}

// Another port on the host of an address.
inline std::string OnHostOf(const std::string& address, uint16_t port) {
  return std::string(net::HostOf(address)) + ":" + std::to_string(port);
}

}  // namespace leat::roles
