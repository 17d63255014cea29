// Records held in memory as a sealed topic: what files become, and what tests stream from.
//
// All are numbered through; a partition is a contiguous share of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream/source.h"

namespace leat::stream {

// What such sources have in common: all but how records are made.
class NumberedSource : public Source {
 public:
  // `records` in all, cut into `partitions` (> 0) shares that differ by at most one record.
  NumberedSource(uint64_t records, uint32_t partitions);
  Result<std::vector<PartitionRange>> Ranges() override;
  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override;

 protected:
  // Appends the records [begin, end), which are there, to an empty batch; it is padded afterwards.
  virtual void Append(uint64_t begin, uint64_t end, RecordBatch* out) const = 0;

 private:
  // Number of the partition's first record.
  uint64_t First(uint32_t partition) const;

  const uint64_t records_;
  const uint32_t partitions_;
};

// `records` cut into `partitions` (> 0) contiguous shares that differ by at most one record.
std::unique_ptr<Source> MakeMemorySource(RecordBatch records, uint32_t partitions);
// The same from texts.
std::unique_ptr<Source> MakeMemorySource(const std::vector<std::string>& records, uint32_t partitions);

}  // namespace leat::stream
