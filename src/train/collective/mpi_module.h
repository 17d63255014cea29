// The C interface of the module leat_mpi.so: the MPI calls that all-reduce needs, on MPI_COMM_WORLD. Leat
// does not link an MPI and loads the module on demand.
//
// One call at a time, from any thread; init and finalize from the same thread. Requests are small numbers,
// free again once test reports completion.
#pragma once

#include <stdint.h>

extern "C" {

struct LeatMpiModule {
  static constexpr uint32_t kVersion = 2;
  uint32_t version;
  // Waits until all processes call it. Returns null, or the reason for failure.
  const char* (*init)(uint32_t* rank, uint32_t* members);
  // Returns a request, negative on failure. `reduce`: ReduceOp::kind.
  int64_t (*all_reduce)(void* data, uint64_t elements, uint8_t reduce);
  int64_t (*send)(const void* data, uint64_t bytes, uint32_t to, int tag);
  int64_t (*receive)(void* data, uint64_t bytes, uint32_t from, int tag);  // from kAnyone: any rank
  // 1: completed, 0: pending, negative: failed.
  int (*test)(int64_t request);
  // Cancels a receive that has not matched a message.
  void (*cancel)(int64_t request);
  // Ends all processes of the job; may return.
  void (*abort)(int status);
  // Waits until all processes call it.
  void (*finalize)();
  static constexpr uint32_t kAnyone = ~uint32_t{0};
};

// The module's only symbol: "leat_mpi_module".
typedef const LeatMpiModule* (*LeatMpiModuleFunction)();
}
