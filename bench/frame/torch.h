// The reference of `engine`: PyTorch in a process beside it.
#pragma once

#include <sys/types.h>
#include <cstdio>
#include <string>

namespace leat::bench {

class Torch {
 public:
  // Starts Debian's Python with engine_torch.py; `version` is empty when there is no PyTorch.
  Torch();
  ~Torch();
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  const std::string& version() const { return version_; }
  // Median processor seconds of a training step of that case, measured for about `seconds`; 0 when it failed.
  double Step(const std::string& name, double seconds);

 private:
  // A line of what it says, empty at its end or when it takes longer than `seconds`.
  std::string ReadLine(double seconds);

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string read_;  // and not yet made a line
  std::string version_;
};

}  // namespace leat::bench
