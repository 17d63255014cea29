// Replays the records of files into a topic, for `leat publish`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "stream/publish/rows.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::stream {

struct PublishOptions {
  double rate = 0;                  // records per second; 0: as fast as possible
  std::optional<uint64_t> shuffle;  // a seed: the records are in random order
  KeyReader* key = nullptr;         // null: round robin, record by record
};

struct Published {
  uint64_t records = 0;
  uint64_t bytes = 0;  // bytes of the records that were handed over
  uint64_t without_key = 0;
};

// Callbacks of Publish while it runs, and its clock.
struct PublishHooks {
  const Clock& clock;
  std::function<void(Duration)> wait;              // may return earlier
  std::function<bool()> stopped;                   // true: publish no more
  std::function<void(const Published&)> progress;  // after each turn
};

// Publishes the records of partition 0 of `rows` until all are in the topic, or `stopped`. `done` says what
// is in the topic, also after an error.
Status Publish(Source& rows, TopicWriter& writer, const PublishOptions& options, const PublishHooks& hooks,
               Published* done);

}  // namespace leat::stream
