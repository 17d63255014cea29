// The reference of `wire`: UCX's own benchmark, run beside it.
#pragma once

#include <cstdint>
#include <string>

namespace leat::bench {

// "ucx_perftest 1.13.1". Throws std::runtime_error when the program is not installed.
std::string UcxPerftestVersion();

// Bytes a second that ucx_perftest moves one way over TCP on loopback in messages of that size, measured for
// about `seconds`. Throws std::runtime_error when the program is not installed or does not finish in time.
double UcxTcpBandwidth(uint64_t message_bytes, double seconds);

}  // namespace leat::bench
