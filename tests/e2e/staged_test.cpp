// comm.staged with real processes, each with an emulated GPU (tests/cuda_emulated).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>

#include "common/metrics_lines.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace staged_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Sets = std::vector<std::string>;

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const std::string kPlugins = "plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\"]";
const Sets kEmulated = {kPlugins, "device.type=cuda_emulated"};
const Sets kStaged = with(kEmulated, {"comm.staged=true"});

class Staged : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TESSERA_EMULATED_GPUS", "8", 1); }

  ProcessResult train(int steps, const std::string& out, const Sets& sets) const {
    return run_.train(TinyRun::steps(steps, out, sets));
  }
  // Losses and gradient norms in turn, and the last validation loss.
  std::vector<double> numbers(int steps, const std::string& out, const Sets& sets) const {
    const ProcessResult result = train(steps, out, sets);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    std::vector<double> found;
    for (const std::string& line : metrics_lines(run_.at(out))) {
      for (const char* key : {"loss", "grad_norm"}) {
        if (const auto number = metric_in(line, key)) found.push_back(*number);
      }
    }
    EXPECT_EQ(found.size(), 2 * static_cast<std::size_t>(steps));
    return found;
  }
  // What is wrong with a configuration, before a rank starts.
  std::string problem(const Sets& sets) const {
    const ProcessResult result = train(2, "refused", sets);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("[rank ")));
    return result.err;
  }
  ProcessResult planned(const Sets& sets) const {
    std::vector<std::string> command = {"plan", run_.at("tiny.toml")};
    for (const std::string& set : with(sets, {"run.steps=2"})) {
      command.insert(command.end(), {"--set", set});
    }
    return run_tessera(command);
  }
  const TinyRun run_;
};

constexpr int kSteps = 4;

// The tolerances of the rows of the device `cpu`.
void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / wanted[i], 1, i % 2 == 0 ? 2e-6 : 1e-5) << "number " << i;
  }
}

TEST_F(Staged, LayoutsHaveTheLossesOfOneRank) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "an emulated GPU takes minutes; the other trainings of this file run";
#endif
  const std::vector<double> one = numbers(kSteps, "one", kEmulated);
  struct Row {
    const char* name;
    Sets sets;
    Sets communicators = {"shm"};
  };
  const Sets both = {"shm", "gloo"};
  const Row rows[] = {
      {"tp2", {"parallel.tensor=2"}, both},
      {"pp2", {"parallel.pipeline=2"}, both},
      {"dp2", {"parallel.data=2", "optimizer.type=distributed"}, both},
      {"cp2", {"parallel.context=2"}},
      {"partial", {"parallel.data=2", "graph.type=partial", "check.graphs_every=2"}},
      {"tp2_pp2_dp2", {"parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2"}}};
  for (const Row& row : rows) {
    for (const std::string& communicator : row.communicators) {
      const std::string out = row.name + ("_" + communicator);
      SCOPED_TRACE(out);
      const Sets sets = with(with(kStaged, row.sets), {"comm.type=" + communicator});
      expect_near(numbers(kSteps, out, sets), one);
    }
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_F(Staged, ExpertsHaveTheLossesOfOneRank) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "an emulated GPU takes minutes; the other trainings of this file run";
#endif
  const Sets experts = {"model.block.mlp.type=moe",
                        "model.block.mlp.experts=4",
                        "model.block.mlp.ffn=16",
                        "model.dropout=0"};
  const std::vector<double> one = numbers(kSteps, "one", with(kEmulated, experts));
  for (const std::string dispatcher : {"alltoall", "allgather"}) {
    for (const std::string communicator : {"shm", "gloo"}) {
      SCOPED_TRACE(dispatcher + " " + communicator);
      expect_near(numbers(kSteps,
                          dispatcher + communicator,
                          with(with(kStaged, experts),
                               {"parallel.data=2",
                                "parallel.expert=2",
                                "comm.type=" + communicator,
                                "model.block.mlp.dispatcher.type=" + dispatcher})),
                  one);
    }
  }
}

TEST_F(Staged, ARunHasTheSameBitsAgainAndAfterAResume) {
  const Sets sets = with(kStaged,
                         {"parallel.tensor=2",
                          "parallel.data=2",
                          "optimizer.type=distributed",
                          "lr.decay_steps=4",
                          "checkpoint.every_steps=2"});
  const std::vector<double> once = numbers(kSteps, "once", sets);
  numbers(2, "again", sets);
  EXPECT_EQ(numbers(kSteps, "again", sets), once);
}

// A run of one rank stages nothing, as it exchanges nothing.
TEST_F(Staged, OneRankIgnoresIt) {
  EXPECT_EQ(numbers(2, "staged", kStaged), numbers(2, "plain", kEmulated));
}

TEST_F(Staged, IsNeverChosenSilently) {
  const std::string why =
      "device \"cuda_emulated\" keeps tensors in memory of kind \"cuda_emulated\", and "
      "communicator \"{}\" carries those of kind \"host\": choose a [device] type and a [comm] "
      "type for one kind of memory, or comm.staged = true, which copies what ranks exchange "
      "through memory of the host";
  for (const std::string communicator : {"shm", "gloo"}) {
    EXPECT_THAT(problem(with(kEmulated, {"parallel.tensor=2", "comm.type=" + communicator})),
                HasSubstr(fmt::format(fmt::runtime(why), communicator)));
  }
  EXPECT_THAT(
      problem(with(kEmulated, {"parallel.tensor=2"})),
      HasSubstr("comm.type = \"auto\" finds no communicator that carries tensors of device "
                "\"cuda_emulated\", in memory of kind \"cuda_emulated\": load the plugin of one "
                "(TESSERA_PLUGIN_PATH), or "
                "set comm.staged = true, which copies what ranks exchange through memory of the "
                "host"));
}

TEST_F(Staged, CommunicatorsOfGpusDoNotCarryTensorsOfTheHost) {
  EXPECT_THAT(
      problem(with(kEmulated, {"device.type=cpu", "comm.type=nccl_emulated", "parallel.tensor=2"})),
      HasSubstr("device \"cpu\" keeps tensors in memory of kind \"host\", and communicator "
                "\"nccl_emulated\" carries those of kind \"cuda_emulated\": choose a [device] "
                "type and a [comm] type for one kind of memory"));
}

TEST_F(Staged, IsRefusedWhereItHasNoEffect) {
  const std::string why =
      ": comm.staged = true has no effect: communicator \"shm\" carries tensors of device "
      "\"cpu\" where they are, in memory of kind \"host\"; leave it out";
  const Sets sets = {"comm.staged=true", "parallel.tensor=2"};
  EXPECT_THAT(problem(sets), HasSubstr(why));
  EXPECT_THAT(planned(sets), Exits(2, why));
}

TEST_F(Staged, GraphsWithCollectivesAreRefused) {
  const Sets tensor = with(kStaged, {"parallel.tensor=2"});
  EXPECT_THAT(problem(with(tensor, {"graph.type=full_iteration"})),
              HasSubstr(": [graph] type = \"full_iteration\" records a step with what ranks "
                        "exchange, and comm.staged = true exchanges it on the rank's own thread, "
                        "which no graph does: choose \"partial\" or \"none\""));
  EXPECT_THAT(problem(with(tensor, {"graph.type=partial"})),
              HasSubstr("its communicator cannot record collectives in graphs: choose graph.type "
                        "= \"none\", or a graph.scope of phases in which ranks exchange nothing"));
}

TEST_F(Staged, APlanTellsTheHostsShare) {
  EXPECT_THAT(planned(with(kStaged, {"parallel.tensor=2"})),
              Prints(0,
                     "note: comm.staged: times leave out the copies between devices and "
                     "hosts, and what a device waits for them",
                     "of host blocks for staged collectives)"));
}

TEST_F(Staged, ARankThatIsKilledIsNamed) {
  for (const std::string communicator : {"shm", "gloo"}) {
    Process run(run_.command(TinyRun::steps(
                    100000,
                    communicator,
                    with(kStaged, {"parallel.tensor=2", "comm.type=" + communicator}))),
                run_.options());
    ASSERT_TRUE(run.shows("step", 4)) << run.err();
    kill(rank_process(run_.mark(), 1), SIGKILL);
    const ProcessResult result = run.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.last_error(), "rank 1 was killed by signal 9 (Killed)");
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// In a staged collective, and in a replay of a graph between two.
TEST_F(Staged, ARankThatIsFrozenIsNamed) {
  const std::pair<const char*, Sets> kTrials[] = {{"tp2", {}}, {"dp2", {"graph.type=partial"}}};
  for (const auto& [layout, sets] : kTrials) {
    std::vector<std::string> command = {
        "python3", TESSERA_SOURCE_DIR "/tests/e2e/frozen_ranks.py", "--build", TESSERA_BUILD_DIR};
    command.insert(command.end(), {"--trials", "1", "--timeout", "3", "--least", "1"});
    command.insert(command.end(), {"--starters", "ours", "--within", "18"});
    command.insert(command.end(), {"--layouts", layout, "--set"});
    for (const std::string& set : with(kStaged, sets)) command.push_back(set);
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("2 of 2 trials named the frozen rank"));
  }
}

}  // namespace staged_test
}  // namespace tessera::testing
