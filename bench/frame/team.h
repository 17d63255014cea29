// A team of processes that measures a collective operation: each member gets a command, and the first one
// reports the time.
//
// Commands and replies use named pipes, so any launcher can start the processes. Idle members block in a
// read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace leat::bench {

class Team {
 public:
  // The pipes of member i are "<stem>.<i>.in" and "<stem>.<i>.out".
  Team(std::string stem, uint32_t members);
  // Kills the processes.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  const std::string& stem() const { return stem_; }
  std::string in(uint32_t member) const;
  std::string out(uint32_t member) const;

  // Starts a member: another program, with a clean environment as for Baseline, or a function of this
  // program. Members die with this process.
  void Run(const std::vector<std::string>& words);
  void Fork(const std::function<void()>& body);

  // Sends "<kind> <bytes> <calls>" to all members, waits for all replies, and returns the seconds per call of
  // the first member. 0: a process has ended, or takes longer than `patience` seconds; the team is then
  // broken.
  double Command(const std::string& kind, uint64_t bytes, int calls, double patience);
  // The reason of a failure: the last lines that the members wrote to stderr.
  std::string Why() const;

 private:
  bool Open(double patience);
  std::string log() const { return stem_ + ".stderr"; }

  const std::string stem_;
  const uint32_t members_;
  std::vector<pid_t> processes_;
  std::vector<int> to_, from_;
  bool lost_ = false;
};

}  // namespace leat::bench
