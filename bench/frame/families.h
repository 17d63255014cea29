// One network of every family: what `engine` measures.
#pragma once

#include <vector>

#include "training.h"

namespace leat::bench {

// mlp, tabular, lenet, lstm, transformer; engine_torch.py and engine_jax.py have the same ones.
std::vector<TrainingCase> Families();

}  // namespace leat::bench
