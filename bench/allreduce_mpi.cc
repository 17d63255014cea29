// A member of the Open MPI group of `bench allreduce`: reads commands from one pipe and writes times to
// another. It waits for commands in a read, because the library's own wait would keep a processor busy.

#include <mpi.h>

#include <fstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string pipe = argv[1] + std::string(".") + std::to_string(rank);
  std::ifstream commands(pipe + ".in");
  std::ofstream answers(pipe + ".out");
  std::string kind;
  size_t bytes = 0;
  int calls = 0;
  while (commands >> kind >> bytes >> calls) {
    std::vector<float> data(bytes / sizeof(float));
    const auto reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
    reduce();
    const double begin = MPI_Wtime();
    for (int i = 0; i < calls; ++i) reduce();
    answers << (MPI_Wtime() - begin) / calls << std::endl;
  }
  MPI_Finalize();
}
