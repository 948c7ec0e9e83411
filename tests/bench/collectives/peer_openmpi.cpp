// Times MPI_Allreduce (float, sum, in place) and prints JSON on rank 0.
//
// A round trip counts as long as it took the slower rank; the median of all is printed.
// Usage: mpirun -n 2 peer_openmpi --bytes N [--iterations K]

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

long option(int argc, char** argv, const char* name, long fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atol(argv[i + 1]);
  }
  return fallback;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long bytes = option(argc, argv, "--bytes", 1 << 20);
  const long iterations = option(argc, argv, "--iterations", 100);

  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  std::vector<double> seconds(static_cast<std::size_t>(iterations));
  for (long step = -iterations / 10; step < iterations; ++step) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE,
                  values.data(),
                  static_cast<int>(values.size()),
                  MPI_FLOAT,
                  MPI_SUM,
                  MPI_COMM_WORLD);
    if (step >= 0) seconds[static_cast<std::size_t>(step)] = MPI_Wtime() - begin;
  }
  MPI_Allreduce(MPI_IN_PLACE,
                seconds.data(),
                static_cast<int>(iterations),
                MPI_DOUBLE,
                MPI_MAX,
                MPI_COMM_WORLD);

  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::sort(seconds.begin(), seconds.end());
    std::printf(
        "{\"bytes\": %ld, \"median_us\": %.3f}\n", bytes, seconds[seconds.size() / 2] * 1e6);
  }
  MPI_Finalize();
  return 0;
}
