#include "protocol/push/ledger_reports.h"

#include <algorithm>
#include <utility>

#include "base/fields/codec.h"
#include "base/fields/most_bytes.h"

namespace leat::protocol {

namespace {

// At most, in a heartbeat.
constexpr uint64_t kCountBytes = BytesOfVarint(Limits::kSlices.most);

uint64_t PartitionBytes() {
  static const uint64_t done = fields::MostBytes<Position>();
  return done + kCountBytes;
}

uint64_t BytesOf(const OpenSplit& split) {
  static const uint64_t cut = fields::MostBytes<Cut>();
  return cut + 8 * split.batches.words().size();
}

// The partitions that have grown, from the first to the last of them. `report.partitions` is empty if none
// has.
void AddGrowth(const LedgerReport& before, const LedgerReport& now, LedgerReport* report) {
  size_t grown = 0;  // up to the last partition that has grown
  for (uint32_t p = 0; p < now.partitions.size(); ++p) {
    PartitionLedger growth = Growth(before.partitions[p], now.partitions[p]);
    const bool grows = growth.done != before.partitions[p].done || !growth.open.empty();
    if (!grows && report->partitions.empty()) continue;
    if (report->partitions.empty()) report->first_partition = p;
    report->partitions.push_back(std::move(growth));
    if (grows) grown = report->partitions.size();
  }
  report->partitions.resize(grown);
}

}  // namespace

void LedgerReports::Restart() {
  std::ranges::fill(known_, Known());
  parts_.clear();
  part_ = 0;
}

void LedgerReports::Fill(const std::function<std::vector<LedgerReport>()>& ledgers,
                         ServerHeartbeat* heartbeat) {
  // A report of one part is always made afresh.
  if (parts_.size() <= 1) {
    ++report_;
    ledgers_.clear();
    parts_.assign(1, {});
    part_ = 0;
    last_bytes_ = 0;
    std::vector<LedgerReport> news;
    for (LedgerReport& now : ledgers()) {
      ledgers_.push_back(std::make_shared<const LedgerReport>(std::move(now)));
      Compare(*ledgers_.back(), &news);
    }
    for (const LedgerReport& report : news) Divide(report);
  }
  heartbeat->ledgers = parts_[part_];
  heartbeat->report = report_;
  heartbeat->part = static_cast<uint32_t>(part_);
  heartbeat->more = part_ + 1 < parts_.size();
}

bool LedgerReports::OnReply(uint64_t report, uint32_t part) {
  if (parts_.empty() || report != report_ || part != part_) return false;
  if (++part_ < parts_.size()) return true;
  for (const auto& ledger : ledgers_) {
    for (const SliceIncarnation& slice : ledger->slices)
      known_[slice.slice.value] = {slice.incarnation, ledger};
  }
  parts_.clear();
  return false;
}

void LedgerReports::Compare(const LedgerReport& now, std::vector<LedgerReport>* news) const {
  // The slices by what is known about them: usually the same.
  std::vector<std::pair<const LedgerReport*, std::vector<SliceIncarnation>>> groups;
  for (const SliceIncarnation& slice : now.slices) {
    const Known& known = known_[slice.slice.value];
    const LedgerReport* const before = known.incarnation == slice.incarnation ? known.report.get() : nullptr;
    auto group = std::ranges::find(groups, before, [](const auto& entry) { return entry.first; });
    if (group == groups.end()) group = groups.insert(group, {before, {}});
    group->second.push_back(slice);
  }
  for (auto& [before, slices] : groups) {
    LedgerReport report{std::move(slices), now.events, {}, now.version};
    if (before) {
      AddGrowth(*before, now, &report);
      const bool same = report.events == before->events && report.version == before->version;
      if (same && report.partitions.empty()) continue;
    } else {
      report.partitions = now.partitions;
    }
    news->push_back(std::move(report));
  }
}

// Appends to the last part, and makes more as necessary.
void LedgerReports::Divide(const LedgerReport& news) {
  const size_t slices_at_a_time =
      std::max<uint64_t>(1, max_bytes_ / 2 / fields::MostBytes<SliceIncarnation>());
  for (size_t from = 0; from < news.slices.size(); from += slices_at_a_time) {
    const size_t to = std::min(news.slices.size(), from + slices_at_a_time);
    LedgerReport piece;
    LedgerReport head{{}, news.events, {}, news.version, Cut::kMaxPartitions};
    head.slices.assign(news.slices.begin() + static_cast<std::ptrdiff_t>(from),
                       news.slices.begin() + static_cast<std::ptrdiff_t>(to));
    const uint64_t head_bytes = fields::Encode(head).size() + kCountBytes;
    const auto begin = [&](uint32_t partition) {
      piece = {.slices = head.slices, .first_partition = partition};
      last_bytes_ += head_bytes;
    };
    // Makes room for so many more bytes about the partition.
    const auto make_room = [&](uint32_t partition, uint64_t bytes) {
      if (last_bytes_ + bytes <= max_bytes_ || piece.partitions.empty()) return false;
      piece.more = true;
      parts_.back().push_back(std::move(piece));
      parts_.emplace_back();
      last_bytes_ = 0;
      begin(partition);
      return true;
    };
    if (last_bytes_ > 0 && last_bytes_ + head_bytes > max_bytes_) {
      parts_.emplace_back();
      last_bytes_ = 0;
    }
    begin(news.first_partition);
    uint32_t number = news.first_partition;
    for (const PartitionLedger& partition : news.partitions) {
      make_room(number, PartitionBytes());
      piece.partitions.push_back({partition.done, {}});
      last_bytes_ += PartitionBytes();
      for (const OpenSplit& split : partition.open) {
        if (make_room(number, BytesOf(split))) {
          piece.partitions.push_back({partition.done, {}});
          last_bytes_ += PartitionBytes();
        }
        piece.partitions.back().open.push_back(split);
        last_bytes_ += BytesOf(split);
      }
      ++number;
    }
    piece.events = news.events;
    piece.version = news.version;
    parts_.back().push_back(std::move(piece));
  }
}

}  // namespace leat::protocol
