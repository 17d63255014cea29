// The networks that `bench engine` measures, one of every family.
#pragma once

#include <vector>

#include "training.h"

namespace leat::bench {

// mlp, tabular, lenet, lstm and transformer. engine_torch.py and engine_jax.py define the same networks.
std::vector<TrainingCase> Families();

}  // namespace leat::bench
