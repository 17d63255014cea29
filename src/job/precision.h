// What a job's products are computed in.
#pragma once

#include "engine/plan.h"
#include "job/job.h"

namespace leat::train {

// `options` for the job's `train: {precision: ...}`: with bf16, products take their operands in it, where one
// of the tables is fast at that. Where none is, the job computes in f32, which is said in one line on the
// log.
engine::PlanOptions WithPrecision(const Job& job, engine::PlanOptions options);

}  // namespace leat::train
