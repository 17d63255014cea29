// Kills this process at a point that its job names (debug: die_at), for tests.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "job/job.h"

namespace leat::roles {

// Not thread-safe.
class KillPoint {
 public:
  // `directory`: of the job. The process that dies leaves a file there, so that no other one does. Where it
  // cannot be written, nothing happens.
  KillPoint(const job::DebugSpec& debug, std::string directory)
      : debug_(debug), directory_(std::move(directory)) {}

  // Does not return if this process is the one.
  void Pass(job::DiePoint point) {
    if (point == debug_.die_at && ++passed_ >= debug_.die_after) Die();
  }

 private:
  void Die() const {
    const std::string path = directory_ + "/died";
    const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return;
    close(fd);
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }

  const job::DebugSpec debug_;
  const std::string directory_;
  uint32_t passed_ = 0;
};

}  // namespace leat::roles
