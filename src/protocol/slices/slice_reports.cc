#include "protocol/slices/slice_reports.h"

#include <algorithm>

namespace leat::protocol {

namespace {

// Adds a report to what is known; null: nothing is known.
SharedReport SumOfReports(const LedgerReport* known, const LedgerReport& report, size_t partitions) {
  auto sum = known ? std::make_shared<LedgerReport>(*known) : std::make_shared<LedgerReport>();
  sum->partitions.resize(partitions);
  for (size_t p = 0; p < report.partitions.size(); ++p) {
    Add(report.partitions[p], &sum->partitions[report.first_partition + p]);
  }
  if (!report.more) {
    sum->events = std::max(sum->events, report.events);
    sum->version = std::max(sum->version, report.version);
  }
  return sum;
}

}  // namespace

void SliceReports::Clear() {
  sum_ = nullptr;
  parts_.clear();
}

bool SliceReports::Add(NodeId server, uint64_t number, const LedgerReport& report, size_t partitions,
                       std::vector<MergedReport>* memo) {
  auto part = parts_.find(server);
  if (part != parts_.end() && part->second.report != number) {
    // Heartbeats may overtake each other.
    if (number < part->second.report) return false;
    parts_.erase(part);
    part = parts_.end();
  }
  const bool first = part == parts_.end();
  const SharedReport base = first ? sum_ : part->second.sum;
  // Another server has reported the slice meanwhile.
  const SharedReport delta = first || report.more || part->second.before == sum_ ? nullptr : sum_;
  auto at = std::ranges::find_if(
      *memo, [&](const MergedReport& same) { return same.base == base && same.delta == delta; });
  if (at == memo->end()) {
    SharedReport merged = SumOfReports(base.get(), report, partitions);
    if (delta) merged = SumOfReports(delta.get(), *merged, partitions);
    const auto same =
        std::ranges::find_if(*memo, [&](const MergedReport& one) { return *one.merged == *merged; });
    if (same != memo->end()) merged = same->merged;
    at = memo->insert(memo->end(), {base, delta, std::move(merged)});
  }
  if (report.more) {
    parts_[server] = {number, first ? sum_ : part->second.before, at->merged};
  } else {
    sum_ = at->merged;
    parts_.erase(server);
  }
  return true;
}

}  // namespace leat::protocol
