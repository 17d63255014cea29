// The floor under every step: how many f32 multiply-adds one core can do.
#pragma once

namespace leat::bench {

// FLOP/s of one thread in fused multiply-adds on registers (2 a lane), with the widest vectors the machine
// has; the best of many short runs, since nothing but the clock can make a run too fast.
double PeakFlops();

}  // namespace leat::bench
