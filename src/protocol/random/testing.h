// Random values and texts of the types whose codec is their own, or whose fields depend on each other: for
// the tests of messages, records and frames (base/fields/testing.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields/testing.h"
#include "protocol/cut.h"
#include "protocol/messages_control.h"
#include "protocol/messages_data.h"

namespace leat::topology {

inline void Randomize(HostPlace* place, fields::Fill& fill) {
  for (std::string* name : {&place->site, &place->zone, &place->host_class})
    name->assign(fill.Size(HostPlace::kMaxBytes, 20), 'x');
}

}  // namespace leat::topology

namespace leat::protocol {

inline void Randomize(Cut* cut, fields::Fill& fill) {
  cut->partition = static_cast<uint32_t>(fill.Below(1 << 16));
  cut->batch_size = 1 + static_cast<uint32_t>(fill.Below(300));
  cut->hash = fill.Number();
  cut->shuffle_seed = fill.Number();
  cut->run = 1 + static_cast<uint32_t>(fill.Below(4));
  cut->begin = {static_cast<uint32_t>(fill.Number(0, UINT32_MAX)), fill.Number() / 2};
  cut->end = cut->begin.offset + 1 + fill.Below(uint64_t{200} * cut->batch_size);
  cut->after = cut->begin;
  if (cut->begin.epoch > 0 && fill.Chance(0.3)) cut->after = {cut->begin.epoch - 1, fill.Number()};
}

inline void Randomize(RunSet* set, fields::Fill& fill, const RunsOf& rule) {
  *set = RunSet(rule.runs, fill.Chance(0.2));
  for (uint32_t i = 0; i < rule.runs; ++i) {
    if (fill.Chance(0.3)) set->Add(i);
  }
}
inline void Randomize(RunSet* set, fields::Fill& fill, const MaybeRunsOf& rule) {
  *set = {};
  if (fill.Chance(0.5)) Randomize(set, fill, static_cast<const RunsOf&>(rule));
}
inline void DumpField(const RunSet& set, fields::Dump& dump) {
  *dump.text() += std::to_string(set.size()) + " runs";
  for (const uint64_t word : set.words()) *dump.text() += " " + ToHex(word);
}

inline void Randomize(PartitionLedger* partition, fields::Fill& fill) {
  partition->done = {static_cast<uint32_t>(fill.Below(3)), fill.Below(1'000'000)};
  partition->open.resize(fill.Below(4));
  Position at = partition->done;
  for (OpenSplit& split : partition->open) {
    Cut& cut = split.cut;
    Randomize(&cut, fill);
    const uint32_t events = cut.events();
    cut.partition = 0;
    cut.after = cut.begin = {at.epoch, at.offset + fill.Below(3) * 100};
    if (fill.Chance(0.2)) cut.begin = {at.epoch + 1, fill.Below(50)};
    cut.end = cut.begin.offset + events;
    Randomize(&split.batches, fill, RunsOf(cut));
    at = cut.next();
  }
}

inline void NumberPartitions(uint32_t first, std::vector<PartitionLedger>* partitions) {
  for (PartitionLedger& partition : *partitions) {
    for (OpenSplit& split : partition.open) split.cut.partition = first;
    ++first;
  }
}

inline void Randomize(MemberReport* report, fields::Fill& fill) {
  VisitFields(*report, fill);
  NumberPartitions(0, &report->partitions);
}

inline void Randomize(LedgerReport* report, fields::Fill& fill) {
  VisitFields(*report, fill);
  report->first_partition %= 1000;
  NumberPartitions(report->first_partition, &report->partitions);
}

inline void Randomize(PublisherReport* report, fields::Fill& fill) {
  VisitFields(*report, fill);
  for (OpenSplit& split : report->held) split.cut.partition = report->partition;
}

inline void Randomize(RejectedRun* rejected, fields::Fill& fill) {
  VisitFields(*rejected, fill);
  rejected->run %= rejected->cut.runs();
}

inline float RandomRate(fields::Fill& fill) {
  return fill.Chance(0.5) ? 1.0f : kMaxRate / static_cast<float>(1 + fill.Below(99));
}

inline void Randomize(Lease* lease, fields::Fill& fill) {
  VisitFields(*lease, fill);
  lease->width = 1 + static_cast<uint32_t>(fill.Below(StepLane::kMaxWidth));
  lease->lane %= lease->width;
  lease->needed = 1 + lease->needed % lease->width;
  lease->rate = RandomRate(fill);
  if (lease->assigned.size() > 0) lease->assigned |= lease->missing;
}

inline void Randomize(Round* round, fields::Fill& fill) {
  round->first_step = fill.Number(0, Limits::kFirstStep.most);
  round->rate = RandomRate(fill);
  round->lanes.assign(1 + fill.Below(4), {});
  const auto runs = 1 + static_cast<uint32_t>(fill.Below(3));
  const bool late_labels = fill.Chance(0.5);
  for (Round::Lane& lane : round->lanes) {
    do {
      Randomize(&lane.cut, fill);
    } while (lane.cut.runs() < runs);
    lane.assigned = RunSet(lane.cut.runs());
    while (lane.assigned.count() < runs)
      lane.assigned.Add(static_cast<uint32_t>(fill.Below(lane.cut.runs())));
    if (late_labels) fill.Set(&lane.labels.emplace());
  }
}

}  // namespace leat::protocol
