// Hardware topology of a Linux machine, parsed from /proc and /sys.
//
// Files are read through a callback, so that tests can supply those of any machine. Missing or malformed data
// counts as unknown; nothing here throws. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat::engine {

// Returns the text of a file, given its absolute path; empty if there is none.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
// Reads the files of this machine.
ReadText ReadFiles();

struct Cache {
  int level = 0;
  bool instructions = false;  // an instruction cache
  uint64_t bytes = 0;
  int cores = 1;  // number of cores that share it
};

struct NumaNode {
  int index = 0;
  std::vector<int> cores;
  uint64_t memory_bytes = 0;
};

// "0-3,8,10-11" → 0 1 2 3 8 10 11, sorted. Stops at the first malformed part.
std::vector<int> ParseCpuList(std::string_view text);
// 0 1 2 3 8 → "0-3,8"
std::string FormatCpuList(const std::vector<int>& cores);

// The processor model, "" if /proc/cpuinfo does not state it.
std::string CpuModel(std::string_view cpuinfo);
// Whether the flags of the first processor hold `flag` ("avx512f").
bool HasCpuFlag(std::string_view cpuinfo, std::string_view flag);
// "avx512", "avx2", "avx", "sse2", "asimd" (with "sve" if present), or "none".
std::string SimdLevel(std::string_view cpuinfo);
// Whether the processor has bf16 dot-product instructions.
bool HasBf16(std::string_view cpuinfo);

// The caches that core `core` uses, smallest level first.
std::vector<Cache> Caches(const ReadText& read, int core);
// The NUMA nodes that contain any of `cores`, limited to these. A single node with all cores if Linux reports
// none.
std::vector<NumaNode> NumaNodes(const ReadText& read, const std::vector<int>& cores);
// Bytes of main memory, or the lowest control group limit if that is less; 0 if unknown.
uint64_t UsableMemory(const ReadText& read);
// CPU quota of this process in cores, the lowest among its control groups (version 1 or 2); empty if
// unlimited.
std::optional<double> CpuQuota(const ReadText& read);

}  // namespace leat::engine
