// The peak speed of one core in f32 multiply-adds, a lower bound on the time of any step.
#pragma once

namespace leat::bench {

// FLOP/s of one thread in fused multiply-adds on registers (2 per lane), with the machine's widest vectors.
// The best of many short runs, because disturbances only make a run slower.
double PeakFlops();

}  // namespace leat::bench
