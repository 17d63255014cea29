// Records that go to a topic together with notes of how far a job is, all or nothing.
//
// A note is an offset for a partition, kept by the servers of the topic and written in the transaction of the
// records. The next process that opens the same transactions finishes or aborts the work of the last one,
// learns how far it came, and makes it fail from then on ("fenced").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat::stream {

// Not thread-safe. All calls block until the servers have answered, at most for a few times the timeout of
// the options.
class TopicTransactions {
 public:
  struct Record {
    std::optional<std::string_view> key;
    std::string_view value;
  };

  using Notes = std::map<uint32_t, uint64_t>;  // offsets by partition

  virtual ~TopicTransactions() = default;
  // The committed notes of these partitions, without those that have none. After an error it must be opened
  // again.
  virtual Result<Notes> Committed(const std::vector<uint32_t>& partitions) = 0;
  // Writes all records and all notes, or nothing. kStale: another process has opened the same transactions;
  // this one is of no use any more. After any other error it must be opened again: whether the transaction
  // was committed is known then.
  virtual Status Write(std::span<const Record> records, const Notes& notes) = 0;
};

}  // namespace leat::stream
