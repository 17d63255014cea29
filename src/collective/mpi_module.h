// What the module leat_mpi.so offers, in plain C: the calls of MPI that all-reduce needs, on MPI_COMM_WORLD.
// Leat itself does not link an MPI; whoever asks for it loads the module.
//
// One call at a time, from any thread; init and finalize from the same one. Requests are small numbers that
// are free again once they have been tested done.
#pragma once

#include <stdint.h>

extern "C" {

struct LeatMpiModule {
  static constexpr uint32_t kVersion = 2;
  uint32_t version;
  // Waits for the others to come to the same call; null, or why there is no MPI.
  const char* (*init)(uint32_t* rank, uint32_t* members);
  // Negative on failure. `reduce`: Reduce::kind.
  int64_t (*all_reduce)(void* data, uint64_t elements, uint8_t reduce);
  int64_t (*send)(const void* data, uint64_t bytes, uint32_t to, int tag);
  int64_t (*receive)(void* data, uint64_t bytes, uint32_t from, int tag);  // from kAnyone: whoever sends it
  // 1: done, 0: not yet, negative: failed.
  int (*test)(int64_t request);
  // Of a receive that nothing has come for: it is forgotten.
  void (*cancel)(int64_t request);
  // Ends all processes of the job; may return.
  void (*abort)(int status);
  // Waits for the others to come to the same call.
  void (*finalize)();
  static constexpr uint32_t kAnyone = ~uint32_t{0};
};

// The module's one symbol: "leat_mpi_module".
typedef const LeatMpiModule* (*LeatMpiModuleFunction)();
}
