// What the tests of this folder share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"

namespace leat::train::testing {

// A directory that goes when the test does.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "leat-train-XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TempDir() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string Write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

// First argument of this very program as a child of a test's: its main() (main_test.cc) plays what follows.
inline constexpr const char* kChild = "child";

inline std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Polls; false when the condition does not hold by the deadline.
inline bool WaitFor(const std::function<bool()>& condition, Duration deadline = std::chrono::seconds(120)) {
  const MonotonicClock clock;
  const Time until = clock.Now() + deadline;
  while (!condition()) {
    if (clock.Now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// What `work` throws as a user's mistake; empty when it throws nothing.
inline std::string Mistake(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

inline std::string Replaced(std::string text, std::string_view old, std::string_view by) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

// A job that names every section.
inline constexpr const char* kFullJob = R"(name: fraud
seed: 7
stream:
  topic: payments
  log: elsewhere
  partitions: 3
  retention_mb: 300
  retention_hours: 2
  bots: {events: 5000, rate: 1000, customers: 50, seed: 9}
schema:
  format: json
  fields:
    amount: {type: number, log: true, mean: 3.5, std: 2}
    hour: {type: number, period: 24}
    country: {type: category, values: [ES, MX]}
    fraud: {type: number, role: label}
    p_fraud: {type: number, role: truth}
model:
  layers:
    - dense: {units: 8, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: adam, learning_rate: 0.01}
strategy: async
train: {batch_size: 32, split_batches: 4, shuffle: false, max_dead_letter_rate: 0.5}
cluster: {workers: 3, ps: 2, max_ps: 4, placement: round_robin, trusted_network: true}
checkpoint: {interval_s: 5, keep: 3}
metrics: {window: 4000}
evaluate:
  files: {format: csv, paths: [a.csv, b.csv]}
)";

// A job on bots that is over within a second, its directory and log below `directory`.
inline constexpr const char* kSmallJob = R"(name: small
stream: {topic: events, partitions: 2, bots: {events: 4000, customers: 100}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model: {layers: [bias: {units: 40}], loss: {type: negative_sum, reduction: sum}}
optimizer: {type: sgd, learning_rate: 1}
train: {batch_size: 50, split_batches: 4}
cluster: {workers: 2, ps: 2, placement: partitioned}
)";

}  // namespace leat::train::testing
