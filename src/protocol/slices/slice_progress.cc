#include "protocol/slices/slice_progress.h"

#include <algorithm>
#include <utility>

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

bool SliceProgress::Base::IsAheadOf(const LedgerReport& report) const {
  for (size_t p = 0; p < watermark.size(); ++p) {
    if (report.partitions[p].done < watermark[p]) return true;
  }
  return report.version < step;
}

void SliceProgress::Derive(std::vector<SharedReport> reports) {
  reports_ = std::move(reports);
  std::sort(reports_.begin(), reports_.end());
  reports_.erase(std::unique(reports_.begin(), reports_.end()), reports_.end());

  const std::vector<Position>& base = base_.watermark;
  const bool all = ready() && !reports_.empty();
  watermark_ = all ? std::vector<Position>(base.size(), Position{~0u, ~uint64_t{0}}) : base;
  version_ = all ? ~uint64_t{0} : base_.step;
  highest_ = base_.step;
  for (const auto& report : reports_) {
    version_ = std::min(version_, report->version);
    highest_ = std::max(highest_, report->version);
    for (size_t p = 0; p < watermark_.size(); ++p) {
      watermark_[p] = std::min(watermark_[p], report->partitions[p].done);
    }
  }
}

uint64_t SliceProgress::Events() const {
  uint64_t least = ready() ? ~uint64_t{0} : base_.events;
  for (const auto& report : reports_) least = std::min(least, report->events);
  return least;
}

RunSet SliceProgress::Missing(const Cut& cut) const {
  const uint32_t batches = cut.runs();
  if (!ready()) return RunSet(batches, true);
  if (cut.next() <= watermark_[cut.partition]) return RunSet(batches);
  RunSet held(batches, true);
  for (const auto& report : reports_) held &= HeldRuns(report->partitions, cut);
  return held.Complement();
}

bool SliceProgress::Complete(const Cut& cut) const {
  if (!ready()) return false;
  if (cut.next() <= watermark_[cut.partition]) return true;
  return std::ranges::all_of(
      reports_, [&](const SharedReport& report) { return HeldRuns(report->partitions, cut).full(); });
}

RunSet SliceProgress::RunsSomeSlicesLack(const Cut& cut) const {
  RunSet lacking = Missing(cut);
  if (lacking.empty()) return lacking;
  RunSet any(cut.runs());
  for (const auto& report : reports_) any |= HeldRuns(report->partitions, cut);
  lacking &= any;
  return lacking;
}

}  // namespace leat::protocol
