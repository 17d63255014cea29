// Reports of a server about its ledgers, and their acknowledgement by the coordinator.
//
// A report contains the growth of the ledgers since the last complete report. A heartbeat carries a limited
// number of its bytes. A report that does not fit is divided into parts, and the next report is made when all
// parts are acknowledged. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "protocol/messages_control.h"

namespace leat::protocol {

class LedgerReports {
 public:
  // For slices 0 … slices - 1. A part may exceed `max_bytes` by one open split.
  LedgerReports(size_t slices, uint64_t max_bytes) : max_bytes_(max_bytes), known_(slices) {}

  // The coordinator knows nothing: it has restarted, or knows the server as another node.
  void Restart();
  // Fills in the heartbeat's part. `ledgers`, of all live slices, is called for a new report only.
  void Fill(const std::function<std::vector<LedgerReport>()>& ledgers, ServerHeartbeat* heartbeat);
  // The coordinator has this part. Returns true if another one waits.
  bool OnReply(uint64_t report, uint32_t part);

 private:
  struct Known {
    Incarnation incarnation;
    std::shared_ptr<const LedgerReport> report;  // null: nothing
  };

  // Adds to `news` what the coordinator does not know.
  void Compare(const LedgerReport& now, std::vector<LedgerReport>* news) const;
  void Divide(const LedgerReport& news);

  const uint64_t max_bytes_;
  std::vector<Known> known_;                                  // by slice, of the last complete report
  uint64_t report_ = 0;                                       // number
  std::vector<std::shared_ptr<const LedgerReport>> ledgers_;  // at its beginning
  std::vector<std::vector<LedgerReport>> parts_;
  uint64_t last_bytes_ = 0;  // bytes of the last part
  size_t part_ = 0;          // acknowledged parts
};

}  // namespace leat::protocol
