// Random values and texts of the types whose codec is their own, or whose fields depend on each other: for
// the tests of messages, records and frames (fields/testing.h).
#pragma once

#include "fields/testing.h"
#include "protocol/cut.h"

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
inline void DumpField(const RunSet& set, fields::Dump& dump) {
  *dump.text() += std::to_string(set.size()) + " runs";
  for (const uint64_t word : set.words()) *dump.text() += " " + ToHex(word);
}

}  // namespace leat::protocol
