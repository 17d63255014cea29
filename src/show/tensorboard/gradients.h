// The distribution of each variable's gradient, as a worker sends it. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "compute/optim/init.h"
#include "show/tensorboard/events.h"

namespace leat::tensorboard {

// Limit of the numbers that are read of all gradients, so that a worker is done in some milliseconds. If
// there are more, every second, third or n-th number is read.
inline constexpr uint64_t kMostGradients = 4 << 20;
inline constexpr size_t kMostGradientBytes = 512 << 10;
inline constexpr size_t kMostBuckets = 1 << 14;  // buckets of a histogram

// kDataLoss: its limits do not ascend, or it has not as many counts.
Status Check(const Histogram& histogram);

// `gradient`: that of the variable with this index. Moments are left out, and so are the last variables if
// the rest takes kMostGradientBytes.
Bytes EncodeGradients(const std::vector<optim::VariableSpec>& variables,
                      const std::function<std::span<const float>(size_t)>& gradient);
// By the names of the variables. kDataLoss if it is not from EncodeGradients for these variables.
Result<std::vector<std::pair<std::string, Histogram>>> DecodeGradients(
    ByteView bytes, const std::vector<optim::VariableSpec>& variables);

}  // namespace leat::tensorboard
