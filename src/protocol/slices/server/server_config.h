// Settings of a server: the job's slices, its optimizer and strategy, and what the shell provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "compute/optim/optimizer.h"
#include "compute/tensor/buffer.h"
#include "protocol/slice.h"
#include "protocol/slices.h"
#include "protocol/strategy.h"

namespace leat::protocol {

struct ServerConfig {
  SliceTable table;                  // whole variables if the optimizer needs them
  optim::OptimizerConfig optimizer;  // averaging: applied to the average, with rate 1 and its momentum
  StrategyConfig strategy;
  // Modelled steps for the simulator: slices have sizes but no memory, and gradients have no payload.
  // Everything else is unchanged.
  bool modelled = false;
  Allocate allocate = {};  // for the values of slices, which are sent; null: ordinary memory
  // Not stepped, before the first update of a slice that is being saved. True: it is saved by now, and the
  // update overwrites its memory. False, or null: the update goes to new memory, and the old one is freed
  // with the save.
  std::function<bool(const Slice& slice)> saved = {};
  // Calls part(0) … part(count − 1) in any order and on any threads, and returns when all have returned;
  // null: sequentially. Results are bit-identical in all cases.
  std::function<void(size_t count, const std::function<void(size_t)>& part)> run_parts = {};
  // Limit of the encoded ledgers in one heartbeat. The rest follows in the next heartbeats.
  uint64_t max_report_bytes = 1 << 20;
};

}  // namespace leat::protocol
