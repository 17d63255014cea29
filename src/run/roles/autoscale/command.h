// Runs commands of the user: programs with arguments, without a shell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/same_host/descriptor.h"

namespace leat::roles {

struct Command {
  std::vector<std::string> arguments;              // the program first, looked up in $PATH
  std::map<std::string, std::string> environment;  // in addition to this process's; "" removes a variable
  Duration deadline{0};
};

class CommandRunner {
 public:
  CommandRunner();

  // Runs the command to its end, at most until its deadline, then kills it and its children. Returns ok if
  // its exit status is 0, otherwise what happened, with the last line that it wrote. Blocks; one at a time.
  Status Run(const Command& command);
  // Kills the command that runs, and refuses all others. Thread-safe.
  void Abort();

 private:
  Status Await(pid_t pid, net::Descriptor output, const Command& command);

  const net::Descriptor abort_;  // an eventfd
};

}  // namespace leat::roles
