// A coordinator whose standbys confirm nothing: one of them may be the coordinator by now, and no member
// tell. Asks them now and then. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/loop.h"
#include "protocol/messages_control.h"
#include "run/roles/background_thread.h"
#include "run/roles/start/coordinator_options.h"

namespace leat::roles {

class LaterTermWatch {
 public:
  // `coordinator`: number of this coordinator's directory. `others`: the thread that asks; it ends before
  // this object. `on_replaced`: called on the loop with kStale.
  LaterTermWatch(net::Loop& loop, BackgroundThread& others, const CoordinatorOptions& options,
                 uint64_t coordinator, uint64_t term, std::function<void(const Status&)> on_replaced);

  // The last known addresses of standbys are kept when all of them are lost.
  void OnView(const protocol::View& view);
  // `unconfirmed`: the journal waits for standbys, and has for a while.
  void OnTimer(Time now, bool unconfirmed);

 private:
  net::Loop& loop_;
  BackgroundThread& others_;
  const CoordinatorOptions& options_;
  const uint64_t coordinator_;
  const uint64_t term_;
  const std::function<void(const Status&)> on_replaced_;
  std::vector<std::string> standbys_;  // addresses
  Time asked_{0};                      // or the last moment at which there was nothing to ask
};

}  // namespace leat::roles
