#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernel/comm/build_mesh.hpp"
#include "ranks_support.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace mesh_test {

using ::testing::Each;
using ::testing::IsEmpty;

// Every group of every rank adds up the ranks of its members.
void check_sums(TestRank& rank, const Layout& layout) {
  Mesh mesh(RankGenerator(layout), rank.rank);
  build_mesh(mesh, rank.communicator, rank.device);
  for (const auto& group : mesh.all()) {
    const Tensor tensor =
        filled(rank.device, 3, DType::i64, [&](i64) { return double(rank.rank + 1); });
    group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "ranks").wait(rank.stream());
    const auto& members = group->members();
    const i64 sum = std::accumulate(members.begin(), members.end(), i64{0}) + group->size();
    expect_values(
        tensor, [&](i64) { return double(sum); }, group->name());
  }
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline, Axis::expert}) {
    require(mesh.group(axis).size() == mesh.size(axis) &&
                mesh.group(axis).index() == mesh.coordinate(axis),
            "{} disagrees with the generator",
            mesh.group(axis).name());
  }
}

TEST(BuildMesh, GroupsReachTheirMembers) {
  for (const Layout& layout : {Layout{.world = 8, .tensor = 2, .context = 2, .pipeline = 2},
                               Layout{.world = 8, .tensor = 2, .expert = 2, .expert_tensor = 1},
                               Layout{.world = 4, .pipeline = 4},
                               Layout{.world = 3}}) {
    const auto body = [&](TestRank& rank) { check_sums(rank, layout); };
    EXPECT_THAT(run_threads({.world = layout.world}, body), Each(IsEmpty()));
  }
}

TEST(BuildMesh, NamesGroupsByAxesAndMembers) {
  const Layout layout{.world = 8, .tensor = 2, .context = 1, .pipeline = 2};
  const auto errors = run_threads({.world = 8}, [&](TestRank& rank) {
    Mesh mesh(RankGenerator(layout), rank.rank);
    build_mesh(mesh, rank.communicator, rank.device);
    if (rank.rank != 5) return;
    EXPECT_EQ(mesh.group(Axis::tensor).name(), "tp[4,5]");
    // Sums of layers do not wait for exchanges of experts (schedule.overlap).
    EXPECT_EQ(mesh.group(Axis::tensor).lane(), CommLane::critical);
    EXPECT_EQ(mesh.group(Axis::expert).lane(), CommLane::experts);
    EXPECT_EQ(mesh.experts().lane(), CommLane::experts);
    EXPECT_EQ(mesh.group(Axis::data).name(), "dp[5,7]");
    EXPECT_EQ(mesh.group(Axis::pipeline).name(), "pp[1,5]");
    EXPECT_EQ(mesh.group(Axis::context).name(), "cp[5]");
    EXPECT_EQ(mesh.data_context().name(), "dp-cp[5,7]");
    EXPECT_EQ(mesh.model().name(), "tp-pp[0,1,4,5]");
    EXPECT_EQ(mesh.named("tp-cp-dp").name(), "tp-cp-dp[4,5,6,7]");
    EXPECT_EQ(mesh.experts().name(), "etp-ep[4,5]");
    EXPECT_EQ(mesh.world().name(), "world[0,1,2,3,4,5,6,7]");
    EXPECT_THROW(mesh.named("no such group"), Error);
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(BuildMesh, OfOneRankNeedsNoCommunicator) {
  Mesh mesh(RankGenerator(Layout{}), 0);
  EXPECT_THROW(mesh.world(), Error);
  EXPECT_THROW(mesh.group(Axis::tensor), Error);
  EXPECT_EQ(mesh.find_group(Axis::tensor), nullptr);
  build_mesh(mesh);
  EXPECT_EQ(mesh.world().size(), 1);
  EXPECT_EQ(mesh.find_group(Axis::tensor), &mesh.named("tp"));
  EXPECT_EQ(mesh.group(Axis::expert_data).name(), "edp[0]");
  Mesh two(RankGenerator(Layout{.world = 2}), 0);
  EXPECT_THROW(build_mesh(two), Error);
}

TEST(GroupName, ShortensLongGroups) {
  std::vector<i64> members(16);
  std::iota(members.begin(), members.end(), i64{0});
  EXPECT_EQ(group_name("dp", members), "dp[0,1,2,…,15]");
}

}  // namespace mesh_test
}  // namespace tessera::testing
