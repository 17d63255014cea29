#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/metrics/metrics.h"
#include "show/prometheus/families.h"

namespace leat::observe {
namespace {

constexpr Metric kCpu = {"process_cpu_seconds_total", "Processor time of the process."};
constexpr Metric kResident = {"process_resident_memory_bytes", "Memory that is resident."};
constexpr Metric kStart = {"process_start_time_seconds", "When it started, since 1970."};
constexpr Metric kOpen = {"process_open_fds", "Open file descriptors."};
constexpr Metric kMost = {"process_max_fds", "The limit of open file descriptors."};

double Resident() {
  std::ifstream in("/proc/self/statm");
  double all = 0, resident = 0;
  return in >> all >> resident ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : NAN;
}

// In ticks after the boot; NaN if it is not known.
double StartTicks() {
  constexpr int kField = 22;
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  // The second field is the program's name, in brackets, and may contain anything.
  std::istringstream rest(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  for (int i = 3; i <= kField; ++i) rest >> field;
  return rest ? std::stod(field) : NAN;
}

double StartTime() {
  std::ifstream in("/proc/stat");
  std::string word;
  double boot = NAN;
  while (in >> word) {
    if (word == "btime") {
      in >> boot;
      break;
    }
  }
  return boot + StartTicks() / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OpenDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator all("/proc/self/fd", error);
  return error ? NAN : static_cast<double>(std::distance(begin(all), end(all)) - 1);  // but that one
}

}  // namespace

void AddProcess(Families* families) {
  if (const auto cpu = metrics::CpuSeconds(); cpu.ok()) families->Add(kCpu, *cpu);
  families->Add(kResident, Resident());
  static const double kStarted = StartTime();
  families->Add(kStart, kStarted);
  families->Add(kOpen, OpenDescriptors());
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) families->Add(kMost, static_cast<double>(limit.rlim_cur));
}

}  // namespace leat::observe
