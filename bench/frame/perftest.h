// Runs UCX's own benchmark, the reference of `bench wire`.
#pragma once

#include <cstdint>
#include <string>

namespace leat::bench {

// Name and version, "ucx_perftest 1.13.1". Throws std::runtime_error if the program is not installed.
std::string UcxPerftestVersion();

// The bytes per second that ucx_perftest sends one way over TCP on loopback in messages of this size,
// measured for about `seconds`. Throws std::runtime_error if the program is not installed or does not finish
// in time.
double UcxTcpBandwidth(uint64_t message_bytes, double seconds);

}  // namespace leat::bench
