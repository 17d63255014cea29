// leat_mpi.so: mpi_module.h on top of MPI. The only file that includes mpi.h.

#include <mpi.h>

#include <climits>
#include <vector>

#include "train/collective/mpi_module.h"

namespace {

std::vector<MPI_Request> requests;
std::vector<int64_t> free_requests;

// Allocates a request, which `start` fills in.
template <class StartCall>
int64_t Begin(const StartCall& start) {
  if (free_requests.empty()) {
    free_requests.push_back(static_cast<int64_t>(requests.size()));
    requests.push_back(MPI_REQUEST_NULL);
  }
  const int64_t at = free_requests.back();
  if (start(&requests[static_cast<size_t>(at)]) != MPI_SUCCESS) return -1;
  free_requests.pop_back();
  return at;
}

const char* Init(uint32_t* rank, uint32_t* members) {
  int level = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
    return "MPI_Init_thread failed";
  if (level < MPI_THREAD_SERIALIZED)
    return "this MPI does not support calls from other threads (MPI_THREAD_SERIALIZED)";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int me = 0, all = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  *rank = static_cast<uint32_t>(me);
  *members = static_cast<uint32_t>(all);
  return nullptr;
}

int64_t AllReduce(void* data, uint64_t elements, uint8_t reduce) {
  if (elements > INT_MAX || reduce < 1 || reduce > 2) return -1;
  const MPI_Datatype type = reduce == 1 ? MPI_FLOAT : MPI_UINT64_T;
  const MPI_Op op = reduce == 1 ? MPI_SUM : MPI_MAX;
  return Begin([&](MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(elements), type, op, MPI_COMM_WORLD, request);
  });
}

int64_t Send(const void* data, uint64_t bytes, uint32_t to, int tag) {
  return Begin([&](MPI_Request* request) {
    return MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), tag, MPI_COMM_WORLD,
                     request);
  });
}

int64_t Receive(void* data, uint64_t bytes, uint32_t from, int tag) {
  const int source = from == LeatMpiModule::kAnyone ? MPI_ANY_SOURCE : static_cast<int>(from);
  return Begin([&](MPI_Request* request) {
    return MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, source, tag, MPI_COMM_WORLD, request);
  });
}

int Test(int64_t request) {
  int done = 0;
  if (MPI_Test(&requests[static_cast<size_t>(request)], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
  if (done != 0) free_requests.push_back(request);
  return done;
}

void Cancel(int64_t request) {
  MPI_Request* const it = &requests[static_cast<size_t>(request)];
  MPI_Cancel(it);
  MPI_Request_free(it);
}

void Abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
}

void Finalize() {
  MPI_Finalize();
}

const LeatMpiModule kModule{
    LeatMpiModule::kVersion, &Init, &AllReduce, &Send, &Receive, &Test, &Cancel, &Abort, &Finalize};

}  // namespace

extern "C" __attribute__((visibility("default"))) const LeatMpiModule* leat_mpi_module() {
  return &kModule;
}
