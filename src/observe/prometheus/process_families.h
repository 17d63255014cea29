// What the kernel says about this process, by the names that all programs with metrics use.
#pragma once

#include <vector>

#include "observe/prometheus/families.h"

namespace leat::observe {

// Reads /proc; does not block.
void AddProcess(Families* families);
std::vector<Metric> ProcessMetrics();

}  // namespace leat::observe
