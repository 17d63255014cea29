#include "job/worker_range.h"

#include <cstdint>
#include <string>

#include "base/text.h"

namespace leat::job {

using protocol::WorkerRange;

Result<WorkerRange> ParseWorkerRange(std::string_view text) {
  const size_t colon = text.find(':');
  const auto least = ToNumber<uint32_t>(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : ToNumber<uint32_t>(text.substr(colon + 1));
  const std::string quoted = "'" + std::string(text) + "'";
  if (!least || !most)
    return Status(Code::kInvalidArgument, quoted + " is not a number of workers, or a range such as 2:8");
  const WorkerRange workers{*least, *most};
  if (workers.valid()) return workers;
  return Status(Code::kInvalidArgument,
                workers.least > workers.most
                    ? quoted + ": the least number of workers is above the largest"
                    : quoted + ": a job has 1 to " + std::to_string(WorkerRange::kMost) + " workers");
}

}  // namespace leat::job
