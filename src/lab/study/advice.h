// Which machines and which strategy a job should have: a search over predictions. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace leat::study {

struct Choice {
  std::string strategy;
  uint32_t workers = 1;
  uint32_t servers = 0;  // 0: the strategy has none
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

struct Prediction {
  double seconds = 0;  // for all events
  double cost = 0;     // price of the hosts for this time
};

enum class Goal : uint8_t { kTime = 0, kCost = 1 };

struct SearchSpace {
  std::vector<std::string> on_servers;  // strategies
  bool allreduce = true;
  uint32_t most_workers = 32, most_servers = 8;
};

struct Advice {
  struct Tried {
    Choice choice;
    Prediction prediction;
  };
  std::optional<Tried> best;      // none: nothing meets the deadline, or nothing could be predicted
  std::optional<Tried> fastest;   // shortest time of all, even beyond the deadline
  std::vector<Tried> neighbours;  // variations of the best: fewer, more workers and servers, another strategy
  std::vector<Tried> tried;       // all, in this order
};

// Predicts choices and searches for the one with the lowest cost or time. A deadline of 0 is none. Among
// choices whose goal differs by less than a hundredth, the one with fewer processes is better. `predict` is
// called at most once for a choice; a choice that it cannot predict is left out. Stops when `enough` returns
// true.
Advice Search(const SearchSpace& space, Goal goal, double deadline_s,
              const std::function<Result<Prediction>(const Choice&)>& predict,
              const std::function<bool()>& enough);

// The advice in five lines; `reason`: what limits a larger choice.
std::string Render(const Advice& advice, Goal goal, double deadline_s, const std::string& reason);

}  // namespace leat::study
