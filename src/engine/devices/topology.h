// What Linux says about a machine, read from the texts of /proc and /sys.
//
// Texts come in through a reader, so that tests hand over those of machines that nobody here has. What is
// missing or makes no sense counts as unknown: nothing here throws.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat::engine {

// The text of a file by its absolute path; empty when there is none.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
// Of this machine.
ReadText ReadFiles();

struct Cache {
  int level = 0;
  bool instructions = false;  // holds nothing but these
  uint64_t bytes = 0;
  int cores = 1;  // that share it
};

struct NumaNode {
  int index = 0;
  std::vector<int> cores;
  uint64_t memory_bytes = 0;
};

// "0-3,8,10-11" → 0 1 2 3 8 10 11, sorted; what cannot be read ends the list.
std::vector<int> ParseCpuList(std::string_view text);
// 0 1 2 3 8 → "0-3,8"
std::string FormatCpuList(const std::vector<int>& cores);

// What model of processor it is, "" when /proc/cpuinfo does not say.
std::string CpuModel(std::string_view cpuinfo);
// Whether the flags of the first processor hold `flag` ("avx512f").
bool HasCpuFlag(std::string_view cpuinfo, std::string_view flag);
// "avx512", "avx2", "avx", "sse2", "asimd" (with "sve" where there is), or "none".
std::string SimdLevel(std::string_view cpuinfo);
// Whether products of bf16 are instructions of the machine.
bool HasBf16(std::string_view cpuinfo);

// The caches that core `core` uses, smallest level first.
std::vector<Cache> Caches(const ReadText& read, int core);
// Those with any of `cores`; what else they hold is left out. One node of all cores when Linux knows none.
std::vector<NumaNode> NumaNodes(const ReadText& read, const std::vector<int>& cores);
// Bytes of main memory, or of the tightest control group's limit when that is less; 0 when unknown.
uint64_t UsableMemory(const ReadText& read);
// Cores' worth of time that control groups (version 1 or 2, the tightest) let this process use; empty: no
// limit.
std::optional<double> CpuQuota(const ReadText& read);

}  // namespace leat::engine
