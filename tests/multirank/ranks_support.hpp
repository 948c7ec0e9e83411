#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tessera/device/communicator.hpp"
#include "tessera/device/device.hpp"

namespace tessera::testing {

/// What the body of a multirank test gets on each rank.
struct TestRank {
  i64 rank, world;
  Communicator& communicator;
  Device& device;
  Store& store;

  Stream& stream() const { return device.stream(); }
  /// Tells the others that this rank has come to `point` of the test.
  void reach(const std::string& point);
  /// Waits until these ranks have: an order that a test needs comes from here, never from sleeping.
  void await(const std::string& point, const std::vector<i64>& ranks);
  /// Runs `body`, then waits until all of `ranks`, which call this too, have come to the point
  /// "end", also where it throws: none of them is missed by the others before.
  void end_together(const std::vector<i64>& ranks, const std::function<void()>& body);
};
using RankBody = std::function<void(TestRank&)>;

struct RankOptions {
  i64 world = 2;
  std::chrono::milliseconds timeout{10000};       ///< of collectives
  std::chrono::milliseconds init_timeout{60000};  ///< until all have come
  u64 deferred_seed = 0;                          ///< of the device; 0: inline streams
  bool private_memory = false;  ///< shm: the device allocates elsewhere, so inputs are staged
  bool staged = false;          ///< devices with memory of their own kind, and StagedCommunicator
  std::vector<std::string> hosts = {};  ///< of each rank, for run_per_host
  /// What run_per_host joins hosts by, from "gloo"; itself where empty.
  std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator>)> between = {};
};

/// Runs the body on this rank, on a device "test" as the options say.
void run_on_device(const RankOptions& options,
                   const CommunicatorArguments& arguments,
                   std::shared_ptr<Communicator> communicator,
                   const RankBody& body);

/// Runs the body on ranks that are threads, each with its own communicator "threads" and device.
/// Returns each rank's error, empty where there was none.
std::vector<std::string> run_threads(const RankOptions& options, const RankBody& body);

/// The same with ranks that are processes of their own, forked, and communicator "shm", loaded from
/// its plugin; devices have their memory in the shared segments. A rank that was killed has the
/// error "killed by signal N".
std::vector<std::string> run_shm(const RankOptions& options, const RankBody& body);

/// The same with communicator "gloo", and a store over TCP.
std::vector<std::string> run_gloo(const RankOptions& options, const RankBody& body);

/// The same with "shm" between ranks of equal `hosts` and "gloo" between the others.
std::vector<std::string> run_per_host(const RankOptions& options, const RankBody& body);

/// A group over these ranks as the body's rank sees it; only members may call it.
std::unique_ptr<ProcessGroup> make_group(TestRank& rank,
                                         const std::string& name,
                                         const std::vector<i64>& members,
                                         int id,
                                         CommLane lane = CommLane::critical,
                                         Progress* progress = nullptr);
/// A group over all ranks.
std::unique_ptr<ProcessGroup> make_world_group(TestRank& rank,
                                               int id = 0,
                                               Progress* progress = nullptr);

}  // namespace tessera::testing
