// A role's connection to the coordinator. Calls run on a background thread, so they never block the loop. A
// second thread keeps the role in the job while the loop is busy: during a long batch, while files are
// opened, while parameters are initialized.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "compute/engine/run/progress.h"
#include "net/loop.h"
#include "net/rpc/client.h"
#include "net/tls/tls_identity.h"
#include "protocol/succession/election.h"
#include "run/roles/background_thread.h"
#include "show/prometheus/role_metrics.h"

namespace leat::roles {

// Address of the coordinator, token of the job, and timeouts.
struct CoordinatorClientOptions {
  std::string coordinator;  // host:port, or several with commas between
  std::string token;
  std::shared_ptr<net::TlsIdentity> tls = nullptr;  // null: no TLS, here and between members
  std::string data;  // where this host has copies of the job's files; empty: where the job says
  // Where a role keeps files for a while, if this host does not see the job's directory or lacks the model's
  // files; the directory Scratch (role.h) is made there. Empty: $TMPDIR.
  std::string scratch;
  topology::HostPlace place = {};                           // where this process is
  std::shared_ptr<observe::RoleMetrics> metrics = nullptr;  // the role's metrics; null: it shows none
  // For a coordinator that cannot take the role yet; six times as long, at most silence_limit, for one that
  // cannot be reached.
  Duration join_deadline = std::chrono::seconds(10);
  // A role takes the coordinator for lost after this time without a reply. A cut of the network that is half
  // as long must not end a role: nobody may be there to start it again.
  Duration silence_limit = std::chrono::seconds(60);
};

// Loop's thread only.
class CoordinatorClient {
 public:
  // `progress`: of the role's kernels.
  CoordinatorClient(net::Loop& loop, CoordinatorClientOptions options,
                    std::shared_ptr<const engine::Progress> progress = std::make_shared<engine::Progress>());
  ~CoordinatorClient();

  // Joins the job; keep-alives begin. Blocks, and retries until the deadlines while the coordinator is
  // unreachable or cannot take the role yet (kUnavailable). The error names the address. kAborted: the job is
  // over, or AbortJoin was called.
  Result<protocol::JoinReply> Join(const protocol::JoinRequest& request) {
    return JoinUntil(request, loop_.Now() + options_.join_deadline, nullptr);
  }
  // As Join, of a server or worker that was evicted: until a coordinator answers, it votes as the node that
  // it was (protocol/succession/election.h). Its deadline is silence_limit, if that is longer.
  Result<protocol::JoinReply> JoinAgain(const protocol::JoinRequest& request, Duration call_deadline,
                                        protocol::Promises* former);
  // Makes a Join or JoinAgain that blocks, or is called later, return kAborted, unless the coordinator has
  // its request already: then it still returns the coordinator's answer, which may be that this is a member.
  // Nothing happens once it has joined. Thread-safe.
  void AbortJoin();
  // Sends a request; `done` runs on the loop. One call at a time: further requests wait in order, and busy()
  // is true until the last `done`. The timeout of a call is a fraction of the coordinator's heartbeat
  // timeout, so a role that retries a failed call is not evicted.
  void Send(protocol::ControlRequest request, std::function<void(Result<protocol::ControlReply>)> done);
  bool busy() const { return calls_ > 0; }
  // Time limit of a call, once joined.
  Duration call_deadline() const { return call_deadline_; }
  // More addresses at which the coordinator may be found.
  void AddAddresses(const std::vector<std::string>& addresses) { client_->AddAddresses(addresses); }
  std::vector<std::string> addresses() const { return client_->addresses(); }
  // The address at which it was reached last.
  std::string address() const { return client_->address(); }
  // True if requests have failed for longer than silence_limit, without an answer in between.
  bool lost() const { return failing_since_ && loop_.Now() - *failing_since_ > options_.silence_limit; }

 private:
  class KeepAliveThread;
  Result<protocol::JoinReply> JoinUntil(protocol::JoinRequest request, Time until,
                                        protocol::Promises* former);
  bool Vote(protocol::Role role, protocol::Promises* former);
  bool JoinAborted();

  net::Loop& loop_;
  CoordinatorClientOptions options_;
  std::shared_ptr<control::ControlClient> client_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // guards callbacks that run after destruction
  const std::shared_ptr<const engine::Progress> progress_;
  Duration call_deadline_;  // known once joined
  std::mutex join_mutex_;
  enum class Joining { kOpen, kJoined, kAborted } joining_ = Joining::kOpen;
  size_t calls_ = 0;  // without an answer
  std::optional<Time> failing_since_;
  std::unique_ptr<KeepAliveThread> keep_alive_;  // once joined
  BackgroundThread background_;
};

}  // namespace leat::roles
