// The precision of a job's matrix products.
#pragma once

#include "compute/engine/plan.h"
#include "job/job.h"

namespace leat::job {

// Returns `options` for the job's `train: {precision: ...}`. With bf16, products convert their operands if
// one of the kernel tables is fast in bf16; otherwise the job computes in f32 and a line in the log says so.
engine::PlanOptions WithPrecision(const Job& job, engine::PlanOptions options);

}  // namespace leat::job
