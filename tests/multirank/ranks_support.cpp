#include "ranks_support.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "tessera/host_device.hpp"

namespace tessera::testing {

namespace {

void run_rank(i64 rank, const RankOptions& options, Store& store, const RankBody& body) {
  CommunicatorArguments arguments;
  arguments.rank = rank;
  arguments.world = options.world;
  arguments.store = &store;
  arguments.timeout = options.timeout;
  arguments.init_timeout = options.init_timeout;
  DeviceArguments device_arguments;
  device_arguments.deferred_seed =
      options.deferred_seed == 0 ? 0 : options.deferred_seed + static_cast<u64>(rank);
  HostDevice device("test", device_arguments, {});
  ThreadsCommunicator communicator({}, arguments);
  TestRank test{rank, options.world, communicator, device, store};
  body(test);
}

}  // namespace

void TestRank::reach(const std::string& point) {
  store.set("test/" + point + "/" + std::to_string(rank), "");
}

void TestRank::await(const std::string& point, const std::vector<i64>& ranks) {
  for (const i64 other : ranks) {
    store.get("test/" + point + "/" + std::to_string(other), std::chrono::minutes(2));
  }
}

void TestRank::end_together(const std::vector<i64>& ranks, const std::function<void()>& body) {
  std::exception_ptr failure;
  try {
    body();
  } catch (...) {
    failure = std::current_exception();
  }
  reach("end");
  await("end", ranks);
  if (failure) std::rethrow_exception(failure);
}

std::vector<std::string> run_threads(const RankOptions& options, const RankBody& body) {
  InProcessStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(options.world));
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < options.world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(rank, options, store, body);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::unique_ptr<ProcessGroup> make_group(TestRank& rank,
                                         const std::string& name,
                                         const std::vector<i64>& members,
                                         int id,
                                         CommLane lane) {
  const auto here = std::find(members.begin(), members.end(), rank.rank);
  GroupSpec spec{.name = group_name(name, members),
                 .members = members,
                 .index = static_cast<int>(here - members.begin()),
                 .id = id,
                 .lane = lane};
  auto backend = rank.communicator.create_group(spec, rank.device);
  return std::make_unique<ProcessGroup>(std::move(spec), std::move(backend), rank.rank);
}

std::unique_ptr<ProcessGroup> make_world_group(TestRank& rank, int id) {
  std::vector<i64> all(static_cast<std::size_t>(rank.world));
  std::iota(all.begin(), all.end(), i64{0});
  return make_group(rank, "all", all, id);
}

}  // namespace tessera::testing
