// Processes that measure something together: a command to each of them, the time from the first of them.
//
// Commands and answers go through named pipes, so that it does not matter who starts the processes; waiting
// members sleep in a read.
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

  // A process of it: another program, started as a Baseline is, or a function of this one. They die with this
  // process.
  void Run(const std::vector<std::string>& words);
  void Fork(const std::function<void()>& body);

  // "<kind> <bytes> <calls>" to all; seconds a call on the first member, when all have answered. 0: some
  // process has ended or takes longer than `patience` seconds, and the team is of no more use.
  double Command(const std::string& kind, uint64_t bytes, int calls, double patience);
  // Then: the last lines that its processes wrote to stderr.
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
