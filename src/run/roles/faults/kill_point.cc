#include "run/roles/faults/kill_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace leat::roles {

void KillPoint::Die() const {
  const std::string path = directory_ + "/died";
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return;
  close(fd);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace leat::roles
