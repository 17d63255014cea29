// The settings of a coordinator, and the status of its job: those of each concern together. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields/fields.h"
#include "protocol/coordinator/job_rules.h"
#include "protocol/cut.h"
#include "protocol/messages_control.h"
#include "protocol/predictions/prediction_settings.h"
#include "protocol/scaling/scale_settings.h"
#include "protocol/succession/succession_settings.h"

namespace leat::protocol {

struct CoordinatorConfig : MemberSettings,
                           SliceSettings,
                           LeaseSettings,
                           CheckpointSettings,
                           PredictionSettings,
                           ScaleSettings,
                           SuccessionSettings {
  // Takes over all that the job's file says.
  void SetRules(const JobRules& rules) {
    static_cast<MemberRules&>(*this) = rules;
    static_cast<SliceRules&>(*this) = rules;
    static_cast<LeaseRules&>(*this) = rules;
    static_cast<CheckpointRules&>(*this) = rules;
  }

  uint32_t max_consecutive_rejected = 5;  // consecutive non-finite gradients that end the job
};

struct CoordinatorStatus : MemberRows, SliceRows, LeaseRows, CheckpointRows, ScaleRows {
  enum class Phase : uint8_t {
    kWaitingForServers,
    kWaitingForWorkers,  // all-reduce: workers hold the slices
    kRunning,
    kPaused,  // by AdminRequest::kPause, or LeaseSettings::pause_at is reached
    kStopping,
    kEnded
  } phase = Phase::kWaitingForServers;
  uint64_t term = 0;
  View view;
  uint64_t events = 0;  // applied by every slice, since the job was created
  std::vector<Position> watermark;
  uint64_t step = 0;        // stepped strategies: reached by every slice
  bool finished = false;    // every slice has every event of every epoch
  std::string waiting_for;  // reason why the job does not end, or does not train; empty: none
  std::optional<PublishedPredictions> predictions;  // none: the job publishes none
};

LEAT_ENUM(CoordinatorStatus::Phase, (kWaitingForServers, "waiting for servers"),
          (kWaitingForWorkers, "waiting for workers"), (kRunning, "running"), (kPaused, "paused"),
          (kStopping, "stopping"), (kEnded, "ended"));

}  // namespace leat::protocol
