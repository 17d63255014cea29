#include "job/worker_range.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace leat::job {

using protocol::WorkerRange;

namespace {

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

Result<WorkerRange> ParseWorkerRange(std::string_view text) {
  const size_t colon = text.find(':');
  const auto least = Number(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : Number(text.substr(colon + 1));
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
