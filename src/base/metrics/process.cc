#include "base/metrics/process.h"

#include <time.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace leat::metrics {
namespace {

Status NoProcess(pid_t pid) {
  return Status(Code::kNotFound, "no such process: " + std::to_string(pid));
}

std::string ProcFile(pid_t pid, std::string_view name) {
  return "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/" + std::string(name);
}

// The value of a line such as "VmRSS:     1234 kB", in bytes; 0 if the line is missing.
uint64_t KilobyteLine(std::string_view text, std::string_view name) {
  const std::string start = "\n" + std::string(name) + ":";
  const size_t at = text.find(start);
  if (at == text.npos) return 0;
  const size_t digits = text.find_first_not_of(" \t", at + start.size());
  if (digits == text.npos) return 0;
  uint64_t kilobytes = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), kilobytes);
  return kilobytes * 1024;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<double> CpuSeconds(pid_t pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec used{};
  if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return NoProcess(pid);
  if (clock_gettime(clock, &used) != 0) return NoProcess(pid);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

Result<Memory> MemoryOf(pid_t pid) {
  const std::string status = ReadAll(ProcFile(pid, "status"));
  if (status.empty()) return NoProcess(pid);
  Memory memory;
  memory.rss_bytes = KilobyteLine(status, "VmRSS");
  memory.peak_rss_bytes = KilobyteLine(status, "VmHWM");
  memory.pss_bytes = KilobyteLine(ReadAll(ProcFile(pid, "smaps_rollup")), "Pss");
  return memory;
}

}  // namespace leat::metrics
