// leat timeline: records what all processes of a running job do, as a Chrome trace.
#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "run/launcher/admin.h"
#include "run/launcher/output/output_file.h"
#include "show/timeline/trace.h"

namespace leat {

Status RecordTimeline(control::ControlClient& client, double seconds, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(launcher::OutputFile file, launcher::OutputFile::Open(path));
  LEAT_ASSIGN_OR_RETURN(const auto recorded, launcher::RecordTimeline(client, FromSeconds(seconds)));
  Status written;
  const auto counts = timeline::WriteTrace(recorded, [&](std::string_view text) {
    if (written.ok()) written = file.Write(text);
  });
  LEAT_RETURN_IF_ERROR(written);
  LEAT_RETURN_IF_ERROR(file.Close());
  std::FILE* const out = launcher::MessagesBeside(file);
  std::fprintf(out,
               "%s: %.1f s of %zu processes, %llu spans, %llu pushes with their apply; clocks to ±%.0f µs\n",
               path.c_str(), Seconds(recorded.end - recorded.begin), recorded.processes.size(),
               static_cast<unsigned long long>(counts.spans), static_cast<unsigned long long>(counts.arrows),
               Seconds(counts.clock_error) * 1e6);
  for (const auto& [process, tracks] : recorded.processes) {
    if (!process.missing.empty())
      std::fprintf(out, "  %s: %s\n", process.name.c_str(), process.missing.c_str());
    if (process.dropped > 0)
      std::fprintf(out, "  %s: %llu spans were left out\n", process.name.c_str(),
                   static_cast<unsigned long long>(process.dropped));
  }
  return Status();
}

}  // namespace leat
