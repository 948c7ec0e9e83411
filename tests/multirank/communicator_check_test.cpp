// What a communicator finds out by itself ends the waits of a rank for its device.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "tessera/error.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace communicator_check_test {

// As one whose collectives a device carries out, with a watchdog: rank 1 finds that its peer is
// silent once it is told to.
class Watched final : public ThreadsCommunicator {
 public:
  Watched(const Config& config, CommunicatorArguments& arguments)
      : ThreadsCommunicator(config, arguments), rank_(arguments.rank) {}
  void do_check() override {
    ++calls;
    if (armed && rank_ == 1) throw Error("rank 0 came to no collective", ErrorKind::peer_silent);
  }

  static std::atomic<bool> armed;
  static std::atomic<int> calls;

 private:
  i64 rank_;
};
std::atomic<bool> Watched::armed = false;
std::atomic<int> Watched::calls = 0;

TEST(CommunicatorCheck, EndsTheWaitsOfATrainingStep) {
  const auto host = load_plugins();
  host->add_builtin([](Registrar& registrar) {
    registrar.add<Communicator, Watched>("watched", "the test's own");
  });
  const Resolved config = resolve(Config::parse(tiny_config(), "test", {"parallel.data=2"}), *host);
  Watched::armed = false;
  Watched::calls = 0;
  InProcessStore store;
  std::atomic<int> steps = 0;
  const auto identity = [&](i64 rank) {
    RankIdentity of = thread_identity(rank, 2, store);
    of.communicator = "watched";
    of.deferred_seed = 1;  // a host device waits for nothing else
    return of;
  };
  const auto body = [&](RankRun& run) {
    run.step().run();
    run.step().losses();
    ++steps;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (steps < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (run.mesh().rank() == 1) Watched::armed = true;
    run.step().run();
    run.step().losses();
    ++steps;
  };
  try {
    run_ranks(derive_setup(config, *host, 2), identity, body);
    FAIL() << "no wait ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer_silent);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 0 came to no collective"));
  }
  EXPECT_GE(Watched::calls, 2);
  EXPECT_GE(steps, 2) << "the first step of both ranks had nothing to find";
}

}  // namespace communicator_check_test
}  // namespace tessera::testing
