// Checkpoints of a server behind a slow link, next to training that shares the link.
#pragma once

#include <string>

#include "frame/report.h"

namespace leat::bench {

struct CheckpointOptions {
  double gbit = 1;
  double bytes = 1 << 30;          // size of the checkpoint, about
  std::string congestion_control;  // TCP's algorithm; empty: the system's
};

// A job that uses a few percent of the link, while another job saves a checkpoint. Adds the share of the link
// that the checkpoint gets and the pace of training. Throws std::runtime_error.
void MeasureLightTraining(Report& report, const CheckpointOptions& options);

// A job whose four workers fill the link, and saves a checkpoint. Adds the same, and the memory that the
// server uses beyond its earlier peak.
void MeasureFullLink(Report& report, const CheckpointOptions& options);

}  // namespace leat::bench
