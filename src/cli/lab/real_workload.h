// A simulated cluster's workers compute the job's model on the job's data (`leat simulate --real`).
#pragma once

#include <list>
#include <memory>

#include "job/job.h"
#include "lab/sim/cluster/cluster.h"
#include "run/roles/input/split_loader.h"
#include "stream/source.h"

namespace leat {

// Each worker has its own parameters, plans and scores, as in its own process. All workers share decoded
// splits. An error that ends a worker in `leat train` (unreadable data, too many dead letters) is thrown as
// std::runtime_error. Not thread-safe.
class RealWorkload final : public sim::Workload {
 public:
  // `job` must outlive this, and its files must be readable (job::CheckReadable).
  explicit RealWorkload(const job::Job& job);
  ~RealWorkload() override;
  std::unique_ptr<sim::WorkerMemory> Join() override;

  // The partitions of the job's stream.
  const std::vector<stream::PartitionRange>& ranges() const { return ranges_; }

 private:
  class Memory;

  RealWorkload(const job::Job& job, std::unique_ptr<stream::Source> source);

  // Finds or decodes a split. The cache holds the splits in use and a few more, the last used first, because
  // decoding a split takes as long as several of its batches.
  std::shared_ptr<const roles::PreparedSplit> Split(const protocol::Cut& cut);

  const job::Job& job_;
  std::vector<stream::PartitionRange> ranges_;
  roles::SplitReader reader_;
  std::list<std::shared_ptr<const roles::PreparedSplit>> splits_;
};

}  // namespace leat
