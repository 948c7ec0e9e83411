// Ranks of one run on two hosts.
#include <gmock/gmock.h>

#include <array>
#include <memory>

#include "hosts_support.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace hosts_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Sets = std::vector<std::string>;

// Two ranks on each host.
class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    hosts_ = TwoHosts::make(run_.folder, why);
    if (hosts_ == nullptr)
      GTEST_SKIP() << "this system does not let a test have two hosts: " << why;
  }
  void TearDown() override {
    for (auto& rank : ranks_) rank = nullptr;
    EXPECT_THAT(run_.survivors(), IsEmpty());
  }

  // As torchrun would on each host.
  void start(const Sets& sets) {
    for (const int rank : {3, 0, 2, 1}) {
      ProcessOptions options = run_.options();
      options.environment.insert({{"RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", "4"},
                                  {"LOCAL_RANK", std::to_string(rank % 2)},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", TwoHosts::kName},
                                  {"MASTER_PORT", "29517"},
                                  {"TESSERA_RUN_TOKEN", "known to both"}});
      ranks_[static_cast<std::size_t>(rank)] =
          std::make_unique<Process>(hosts_->on(rank / 2, run_.command(sets)), options);
    }
  }

  // Host communicators all sum as host_reduce.hpp does: not a bit may differ.
  void expect_the_bits_of_one_host(const Sets& layout) {
    start(TinyRun::steps(20, run_.at("two"), layout));
    const ProcessResult one = run_.train(TinyRun::steps(20, run_.at("one"), layout));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    for (const auto& rank : ranks_) {
      const ProcessResult result = rank->wait();
      ASSERT_EQ(result.exit_code, 0) << result.err;
      if (rank == ranks_[0]) {
        EXPECT_THAT(result.out, HasSubstr("4 ranks over shm within 2 hosts and gloo between"));
      }
    }
    EXPECT_THAT(one.out, HasSubstr("4 ranks over shm\n"));
    const auto lines = run_.metrics("two");
    EXPECT_THAT(lines, Not(IsEmpty()));
    EXPECT_EQ(lines, run_.metrics("one"));
  }

  const TinyRun run_;
  std::unique_ptr<TwoHosts> hosts_;
  std::array<std::unique_ptr<Process>, 4> ranks_;
};

// Tensor parallel on a host, data parallel between hosts.
const Sets kLayout = {"parallel.tensor=2", "parallel.data=2"};

TEST_F(Hosts, TrainTogetherAsOnOneHost) { expect_the_bits_of_one_host(kLayout); }

// Rows go to experts on both hosts in one exchange, while the other pass of a pair computes.
TEST_F(Hosts, ShareExperts) {
  expect_the_bits_of_one_host({"model.block.mlp.type=\"moe\"",
                               "model.block.mlp.experts=8",
                               "model.block.mlp.ffn=16",
                               "parallel.expert=4",
                               "batch.micro=1",
                               "schedule.overlap=true"});
}

TEST_F(Hosts, ACutCableIsANamedErrorOnBothSides) {
  Sets sets = {"comm.timeout_s=3", "checkpoint.every_steps=0"};
  sets.insert(sets.end(), kLayout.begin(), kLayout.end());
  start(TinyRun::steps(100000, run_.at("cut"), sets));
  // Between two steps that are powers of 2: after these, ranks tell of their memory, and who waits
  // for that over the cable names the store and no group.
  ASSERT_TRUE(ranks_[0]->shows("step", 530)) << ranks_[0]->err();
  hosts_->cut();
  std::array<int, 2> timeouts = {0, 0};  // of each host; the others repeat a neighbour's
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ProcessResult result = ranks_[rank]->wait();
    const std::string error = result.last_error();
    EXPECT_EQ(result.exit_code, 1) << error;
    EXPECT_THAT(error, HasSubstr("rank " + std::to_string(rank) + ", group "));
    if (error.find(" failed: ") == std::string::npos) {
      ++timeouts[rank / 2];
      EXPECT_THAT(error,
                  ContainsRegex("timed out after [0-9]+[.][0-9] s: rank [0-3] has not come"));
      EXPECT_THAT(error, Not(HasSubstr("s: rank " + std::to_string(rank) + " has")));
    }
  }
  EXPECT_GE(timeouts[0], 1);
  EXPECT_GE(timeouts[1], 1);
}

}  // namespace hosts_test
}  // namespace tessera::testing
