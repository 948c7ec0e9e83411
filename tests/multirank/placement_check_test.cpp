// What `config check` knows of gradients without a rank: it plays a step of each over absent
// hardware, finds those whose sum over the tensor group is missing, and accepts the layers that
// ship under every layout.
#include <gmock/gmock.h>

#include "common/error_of.hpp"
#include "invariant_support.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "mutants_support.hpp"

namespace tessera::testing {
namespace placement_check_test {

using ::testing::HasSubstr;

const Sets kTensor = {"parallel.tensor=2"};
const Sets kRows = with(kTensor, {"parallel.sequence_parallel=true"});
const Sets kPipeline = {"parallel.pipeline=2", "placement.layout=\"E|t|t|L\""};

// The problems of a run, empty when there are none.
std::string check(const Sets& sets) {
  const Resolved config = resolve(Config::parse(tiny_config(), "test", sets), mutants());
  return error_of<ConfigError>(
      [&] { checked_setup(config, mutants(), world_size(config.run), 1); });
}

TEST(PlacementChecks, AcceptEveryLayout) {
  const Sets four = {"model.heads=4"};
  for (const Sets& sets : {
           Sets(),
           kTensor,
           kRows,
           with(kRows, {"recompute.mode=\"full\""}),
           with(kRows, {"model.tied_embeddings=false", "parallel.data=2"}),
           with(kRows, {"parallel.context=2"}),
           with(with(kRows, four),
                {"parallel.context=2", "model.block.attention.context=\"allgather\""}),
           with(with(kRows, four),
                {"parallel.context=2", "model.block.attention.context=\"all_to_all\""}),
           with(kTensor,
                {"model.block.mlp.up.gather_output=true",
                 "model.block.mlp.down.input_is_parallel=false"}),
           with(kRows,
                {"model.block.mlp.up.gather_output=true",
                 "model.block.mlp.down.input_is_parallel=false"}),
           with(with(kRows, kPipeline), {"schedule.type=\"zbv\""}),
           with(with(kRows, kPipeline),
                {"schedule.type=\"interleaved_1f1b\"", "schedule.chunks=2"}),
           with(kRows, {"parallel.pipeline=2", "schedule.type=\"zb_h1\""}),
       }) {
    EXPECT_EQ(check(sets), "") << fmt::format("{}", fmt::join(sets, ", "));
  }
}

struct Mistake {
  Sets layout;
  std::string path, type, mistake, parameter;
};

TEST(PlacementChecks, FindWhatIsNotSummed) {
  for (const Mistake& mistake : {
           Mistake{kRows,
                   "model.block.norm",
                   "norm",
                   "gradient_not_summed",
                   "layers.1.mlp_norm.weight"},
           Mistake{with(kRows, {"parallel.pipeline=2", "schedule.type=\"1f1b\""}),
                   "model.head.norm",
                   "norm",
                   "gradient_not_summed",
                   "head.norm.bias"},
           Mistake{kTensor,
                   "model.block.mlp.up",
                   "column_linear",
                   "no_backward_reduce",
                   "layers.1.mlp_norm.weight"},
           Mistake{kTensor, "model.head", "head", "no_copy", "head.norm.weight"},
       }) {
    const Sets right =
        with(mistake.layout, {fmt::format("{}.type=\"mutant_{}\"", mistake.path, mistake.type)});
    EXPECT_EQ(check(right), "") << mistake.path;
    const std::string found =
        check(with(right, {fmt::format("{}.mistake=\"{}\"", mistake.path, mistake.mistake)}));
    EXPECT_THAT(found, HasSubstr(fmt::format("parameter \"{}\": its gradient", mistake.parameter)));
  }
}

}  // namespace placement_check_test
}  // namespace tessera::testing
