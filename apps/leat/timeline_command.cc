// leat timeline: records what all processes of a running job do, as a Chrome trace.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.h"
#include "launcher/record_timeline.h"
#include "observe/timeline/trace.h"

namespace leat {
namespace {

// Written beside its place and renamed, so that no half of a trace is ever there.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), made_(path + ".part"), file_(std::fopen(made_.c_str(), "w")) {
    if (file_ == nullptr) throw std::invalid_argument("cannot write " + made_);
  }
  ~NewFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::error_code ignored;
    std::filesystem::remove(made_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void Write(std::string_view text) {
    whole_ = whole_ && std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  }
  Status Close() {
    whole_ = std::fclose(file_) == 0 && whole_;
    file_ = nullptr;
    std::error_code error;
    if (whole_) std::filesystem::rename(made_, path_, error);
    if (whole_ && !error) return Status();
    std::error_code ignored;
    std::filesystem::remove(made_, ignored);
    return {Code::kResourceExhausted, "cannot write " + path_};
  }

 private:
  const std::string path_, made_;
  std::FILE* file_;
  bool whole_ = true;
};

}  // namespace

Status RecordTimeline(control::ControlClient& client, double seconds, const std::string& path) {
  NewFile file(path);
  LEAT_ASSIGN_OR_RETURN(const auto recorded, launcher::RecordTimeline(client, FromSeconds(seconds)));
  const auto counts = timeline::WriteTrace(recorded, [&file](std::string_view text) { file.Write(text); });
  LEAT_RETURN_IF_ERROR(file.Close());
  std::printf("%s: %.1f s of %zu processes, %llu spans, %llu pushes with their apply; clocks to ±%.0f µs\n",
              path.c_str(), Seconds(recorded.end - recorded.begin), recorded.processes.size(),
              static_cast<unsigned long long>(counts.spans), static_cast<unsigned long long>(counts.arrows),
              Seconds(counts.clock_error) * 1e6);
  for (const auto& [process, tracks] : recorded.processes) {
    if (!process.missing.empty()) std::printf("  %s: %s\n", process.name.c_str(), process.missing.c_str());
    if (process.dropped > 0)
      std::printf("  %s: %llu spans were left out\n", process.name.c_str(),
                  static_cast<unsigned long long>(process.dropped));
  }
  return Status();
}

}  // namespace leat
