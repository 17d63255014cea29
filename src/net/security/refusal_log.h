// The log lines about refused peers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace leat::net {

// Logs at most kLines lines per kPeriod, so that a flood does not fill the log. Not thread-safe.
class RefusalLog {
 public:
  static constexpr uint32_t kLines = 10;
  static constexpr Duration kPeriod = std::chrono::seconds(10);

  // `what`: of the refusals that are not logged one by one, "connections".
  explicit RefusalLog(std::string what) : what_(std::move(what)) {}

  void Add(Time now, const std::string& listener, const std::string& peer, const std::string& why) {
    if (lines_ == 0 || now - begin_ > kPeriod) {
      if (unlogged_ > 0) spdlog::warn("{} refused {} more {}", listener, std::exchange(unlogged_, 0), what_);
      begin_ = now;
      lines_ = 0;
    }
    if (lines_ == kLines) {
      ++unlogged_;
      return;
    }
    ++lines_;
    spdlog::warn("{} refused {}: {}", listener, peer, why);
  }

 private:
  std::string what_;
  Time begin_{};
  uint32_t lines_ = 0;  // since begin_
  uint64_t unlogged_ = 0;
};

}  // namespace leat::net
