// For tests: the test program plays the pool, agents, and the roles of jobs, each as a process of its own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace leat::pool {

inline constexpr const char* kTestToken = "token-of-the-test-pool";
inline constexpr std::chrono::seconds kCertificateLife{6};  // lifetime of a TLS pool's certificates

// Plays a process that was started with `arguments`; returns its exit status. The job file of a played job is
// the number of events that it trains.
int Play(const std::vector<std::string>& arguments);

}  // namespace leat::pool
