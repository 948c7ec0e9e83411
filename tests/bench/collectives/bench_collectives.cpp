// All-reduce between ranks of this host that this program starts itself (fp32, sum, in place).
//
// Usage: bench_collectives [--comm shm|gloo] [--ranks 2] [--bytes N] [--iterations K] [--json]
// Prints the median time, from a barrier until the slower rank's result is there.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "kernel/comm/socket_store.hpp"
#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string comm = "shm";
  i64 ranks = 2, bytes = 1 << 20, iterations = 0;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) fail_config("{} needs a value", name);
      return argv[++i];
    };
    if (name == "--comm") {
      options.comm = value();
    } else if (name == "--ranks") {
      options.ranks = std::stoll(value());
    } else if (name == "--bytes") {
      options.bytes = std::stoll(value());
    } else if (name == "--iterations") {
      options.iterations = std::stoll(value());
    } else if (name == "--json") {
      options.json = true;
    } else {
      fail_config("unknown option {}", name);
    }
  }
  // About half a second, whatever the size.
  if (options.iterations == 0) {
    options.iterations =
        std::clamp<i64>((i64{1} << 30) / std::max<i64>(options.bytes, 1), 50, 2000);
  }
  return options;
}

double median_us(ProcessGroup& group, Device& device, const Tensor& tensor, i64 iterations) {
  std::vector<float> times;
  for (i64 i = -iterations / 10; i < iterations; ++i) {
    group.barrier(device.stream(), "start");
    const Clock::time_point begin = Clock::now();
    group.all_reduce(device.stream(), tensor, ReduceOp::sum, "measured").wait(device.stream());
    device.synchronize(device.stream());
    const std::chrono::duration<float, std::micro> took = Clock::now() - begin;
    if (i >= 0) times.push_back(took.count());
  }
  const Tensor all = Tensor::allocate(
      device, device.pool(), device.stream(), {iterations}, DType::fp32, Category::communication);
  device.write(all, times.data());
  group.all_reduce(device.stream(), all, ReduceOp::max, "times").wait(device.stream());
  device.read(all, times.data());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void run_rank(i64 rank, const Options& options, const std::string& address) {
  SocketStore store(address, "bench", rank, options.ranks, std::chrono::seconds(20));
  CommunicatorArguments arguments;
  arguments.rank = rank;
  arguments.world = options.ranks;
  arguments.store = &store;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const PluginHost plugins({folder.parent_path() / "plugins"});
  const Config config = Config::parse("");
  const auto communicator =
      plugins.make<Communicator>(options.comm, *config.node(""), {}, arguments);
  DeviceArguments device_arguments;
  device_arguments.memory = communicator->memory();
  HostDevice device("bench", device_arguments, {});

  GroupSpec spec{.name = "bench", .members = {}, .index = static_cast<int>(rank), .id = 0};
  spec.members.resize(static_cast<std::size_t>(options.ranks));
  std::iota(spec.members.begin(), spec.members.end(), i64{0});
  auto backend = communicator->create_group(spec, device);
  ProcessGroup group(spec, std::move(backend), rank);
  const Tensor tensor = Tensor::allocate(device,
                                         device.pool(),
                                         device.stream(),
                                         {options.bytes / 4},
                                         DType::fp32,
                                         Category::communication);
  device.write(tensor, std::vector<float>(static_cast<std::size_t>(options.bytes / 4)).data());
  const double median = median_us(group, device, tensor, options.iterations);
  if (rank != 0) return;
  const char* format = options.json ? "{\"bytes\": %lld, \"median_us\": %.3f}\n"
                                    : "all_reduce of %lld bytes: %.1f us\n";
  std::printf(format, static_cast<long long>(options.bytes), median);
}

int run(const Options& options) {
  const std::string address = "unix:@tessera-bench-" + std::to_string(getpid());
  const pid_t parent = getpid();
  for (i64 rank = 0; rank < options.ranks; ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) std::_Exit(1);
    try {
      run_rank(rank, options, address);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %lld: %s\n", static_cast<long long>(rank), error.what());
      std::_Exit(1);
    }
    std::fflush(stdout);
    std::_Exit(0);
  }
  const StoreServer server(address, "bench", options.ranks);
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
