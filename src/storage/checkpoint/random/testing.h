// Random records and manifests, for fields::Random (base/fields/testing.h).
#pragma once

#include <algorithm>
#include <string>

#include "protocol/random/testing.h"
#include "protocol/records/journal.h"
#include "protocol/records/manifest.h"

namespace leat::protocol {

inline void Randomize(RoundMade* round, fields::Fill& fill) {
  round->first_step = fill.Number();
  round->lanes.resize(1 + fill.Below(4));
  round->needed = 1 + static_cast<uint32_t>(fill.Below(round->lanes.size()));
  uint32_t runs = Cut::kMaxBatches;
  for (RoundMade::Lane& lane : round->lanes) {
    Randomize(&lane.cut, fill);
    runs = std::min(runs, lane.cut.runs());
  }
  runs = 1 + static_cast<uint32_t>(fill.Below(runs));
  for (RoundMade::Lane& lane : round->lanes) {
    lane.assigned = RunSet(lane.cut.runs());
    while (lane.assigned.count() < runs)
      lane.assigned.Add(static_cast<uint32_t>(fill.Below(lane.cut.runs())));
  }
}

inline void Randomize(RateRaised* raised, fields::Fill& fill) {
  VisitFields(*raised, fill);
  raised->factor = static_cast<float>(1 + fill.Below(1000)) / 2;
  raised->last.resize(raised->first.size());
}

inline void Randomize(LabelsMarked* marked, fields::Fill& fill) {
  VisitFields(*marked, fill);
  LabelMark before;
  for (LabelMark& mark : marked->marks) {
    mark.events = before.events + 1 + fill.Below(100);
    mark.labels_begin = before.labels_begin + fill.Below(100);
    mark.labels_end = std::max(before.labels_end, mark.labels_begin) + fill.Below(100);
    before = mark;
  }
}

inline void Randomize(ScaleSet* scale, fields::Fill& fill) {
  VisitFields(*scale, fill);
  scale->workers.most = static_cast<uint32_t>(fill.Number(1, WorkerRange::kMost));
  scale->workers.least = static_cast<uint32_t>(fill.Number(1, scale->workers.most));
}

inline void Randomize(Manifest* manifest, fields::Fill& fill) {
  VisitFields(*manifest, fill);
  manifest->directory = "checkpoint-" + std::to_string(manifest->id);
  uint32_t slice = 0;
  for (ManifestShard& shard : manifest->shards) {
    for (SliceIncarnation& one : shard.slices) one.slice = SliceId(slice++);
  }
}
inline void Randomize(ManifestShard* shard, fields::Fill& fill) {
  VisitFields(*shard, fill);
  shard->file = "shard-" + std::to_string(fill.Below(100)) + ".safetensors";
}

}  // namespace leat::protocol
