// The numbers of members that a job wants, as settings and as rows of the coordinator's status. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/messages_control.h"

namespace leat::protocol {

struct ScaleSettings {
  // The numbers of workers and servers that are wanted; of workers {0, 0}: `workers`. While there are fewer
  // workers, those that stand by take their places. All-reduce: the first group waits for this many. Both for
  // a limited time.
  WorkerRange wanted_workers;
  bool keep_scale = false;  // the wanted numbers of the journal count instead
  bool pool = false;        // the job's processes are started by a pool, whose grants count
};

struct ScaleRows {
  // The numbers of members that are wanted.
  struct Wanted {
    WorkerRange workers;  // as the job or a command has set them
    // The autoscaler's choice from a range, and why; 0: not known yet. Both are filled in by the shell.
    uint32_t chosen = 0;
    std::string reason;
    uint32_t servers = 0;
    std::string hook_failure;  // the hook has not been told; filled in by the shell
    // Workers; 0: not known yet.
    uint32_t now() const { return workers.fixed() ? workers.least : chosen; }
  } wanted;
  // The most workers and servers that a pool lets the job have at present.
  struct Grant {
    uint32_t workers = 0, servers = 0;
    friend bool operator==(const Grant&, const Grant&) = default;
  };
  std::optional<Grant> grant;  // none: no pool has said
};

}  // namespace leat::protocol
