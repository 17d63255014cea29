// What the workers of a virtual cluster compute when it is the job's own model on the job's own data.
#pragma once

#include <list>
#include <memory>

#include "job/job.h"
#include "roles/input/split_loader.h"
#include "sim/workload.h"
#include "stream/source.h"

namespace leat {

// Each worker has parameters, plans and scores of its own, as its process would; they read and decode splits
// together. What ends a worker's process in `leat train` (data that cannot be read, too many dead letters) is
// thrown as std::runtime_error. Not thread-safe.
class RealWorkload final : public sim::Workload {
 public:
  // The job's files are readable (train::CheckReadable). `job` outlives it.
  explicit RealWorkload(const train::Job& job);
  ~RealWorkload() override;
  std::unique_ptr<sim::WorkerMemory> Join() override;

  // The stream that it reads.
  const std::vector<stream::PartitionRange>& ranges() const { return ranges_; }

 private:
  class Memory;

  RealWorkload(const train::Job& job, std::unique_ptr<stream::Source> source);

  // Splits under way, and some more, the last used first: decoding one takes as long as some of its batches.
  std::shared_ptr<const train::PreparedSplit> Split(const protocol::Cut& cut);

  const train::Job& job_;
  std::vector<stream::PartitionRange> ranges_;
  train::SplitReader reader_;
  std::list<std::shared_ptr<const train::PreparedSplit>> splits_;
};

}  // namespace leat
