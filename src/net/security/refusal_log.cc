#include "net/security/refusal_log.h"

#include <utility>

#include "base/log.h"

namespace leat::net {

void RefusalLog::Add(Time now, const std::string& listener, const std::string& peer, const std::string& why) {
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

}  // namespace leat::net
