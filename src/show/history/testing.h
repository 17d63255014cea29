// Statuses and samples for the tests of those who show a job.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "show/history/history.h"

namespace leat::observe {

inline nlohmann::json WorkerJson(uint64_t node, uint32_t index = 0) {
  return {{"role", "worker"},  {"index", index},      {"node", node},    {"host", "a"},
          {"pid", 100 + node}, {"done", 0},           {"cpu_s", 0.0},    {"compute_s", 0.0},
          {"wait_s", 0.0},     {"input_wait_s", 0.0}, {"decode_s", 0.0}, {"step_ms", nullptr},
          {"slow", false}};
}

inline nlohmann::json ServerJson(uint64_t node, uint32_t index = 0) {
  return {{"role", "ps"}, {"index", index}, {"node", node},  {"host", "a"},    {"pid", 100 + node},
          {"done", 0},    {"cpu_s", 0.0},   {"bytes_in", 0}, {"bytes_out", 0}, {"share", 0.5}};
}

// A job with two servers and two workers that has just begun.
inline nlohmann::json StatusJson() {
  return {{"job", "fraud"},
          {"phase", "running"},
          {"strategy", "async"},
          {"term", 1},
          {"events", 0},
          {"stream_end", 0},
          {"events_per_s_now", 0.0},
          {"loss", 0.5},
          {"accuracy", 0.75},
          {"auc", 0.625},
          {"auc_possible", 0.875},
          {"lag", 0},
          {"lag_s", 0.0},
          {"staleness", nlohmann::json::array()},
          {"dead_letters", 0},
          {"rejected_batches", 0},
          {"conflicts", 0},
          {"failed_checkpoints", 0},
          {"warnings", nlohmann::json::array()},
          {"aggregated_compute_s", 0.0},
          {"checkpoint", nullptr},
          {"wanted", {{"workers", 2}, {"ps", 2}}},
          {"members", {ServerJson(1, 0), ServerJson(2, 1), WorkerJson(3, 0), WorkerJson(4, 1)}}};
}

inline report::JobStatus StatusOf(const nlohmann::json& json) {
  return report::StatusFromJson(json.dump()).value();
}

inline Sample SampleAt(double time_s, float loss = 0.5f, size_t workers = 0) {
  Sample sample;
  sample.time_s = time_s;
  sample[Series::kLoss] = loss;
  for (uint32_t i = 0; i < workers; ++i) {
    MemberSample member;
    member.index = i;
    member.figures.fill(static_cast<float>(i));
    sample.members.push_back(member);
  }
  return sample;
}

}  // namespace leat::observe
