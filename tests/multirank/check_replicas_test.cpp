// The replica check sees every form of a parameter that replicas hold.
#include <gmock/gmock.h>

#include <cstddef>

#include "common/error_of.hpp"
#include "invariant_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace check_replicas_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One bit of one element of one form differs on the last rank.
std::string checked(const Sets& sets, Tensor Parameter::*form, const std::string& parameter) {
  TrainOptions options;
  options.at_end = [&](RankRun& run) {
    if (run.mesh().rank() + 1 == run.mesh().ranks().layout().world) {
      for (const Parameter* p : run.parts().parameter_list()) {
        if (p->name != parameter) continue;
        const Tensor& values = p->*form;
        std::vector<std::byte> bytes(static_cast<std::size_t>(values.bytes()));
        run.device().read(values, bytes.data());
        bytes[0] ^= std::byte{1};
        run.device().write(values, bytes.data());
      }
    }
    run.step().check_replicas();
  };
  return error_of([&] { train(tiny_config(), sets, options); });
}

const std::string kBf16 = "precision.compute=\"bf16\"";

TEST(CheckReplicas, NamesTheFormThatDiffers) {
  const Sets dp2 = {kBf16, "parallel.data=2"};
  EXPECT_THAT(
      checked(dp2, &Parameter::compute, "head.norm.weight"),
      AllOf(HasSubstr("\"head.norm.weight\" differ within dp-cp"), HasSubstr("compute values")));
  EXPECT_THAT(
      checked(dp2, &Parameter::main, "head.norm.weight"),
      AllOf(HasSubstr("\"head.norm.weight\" differ within dp-cp"), HasSubstr("main values")));
  EXPECT_EQ(checked(dp2, &Parameter::compute, "of no parameter"), "");
}

// Copies of an expert are on the ranks of its own replicas.
TEST(CheckReplicas, SeesCopiesOfExperts) {
  const Sets experts = {"model.block.mlp.type=\"moe\"",
                        "model.block.mlp.experts=4",
                        "model.block.mlp.ffn=8",
                        "parallel.data=4",
                        "parallel.expert=2"};
  EXPECT_THAT(checked(experts, &Parameter::main, "layers.0.mlp.experts.up"),
              HasSubstr("\"layers.0.mlp.experts.up\" differ within edp"));
  EXPECT_THAT(checked(experts, &Parameter::main, "layers.0.attention.qkv.weight"),
              HasSubstr("differ within dp-cp"));
}

TEST(CheckReplicas, ComparesComputeValuesOverEveryGroup) {
  EXPECT_THAT(checked({kBf16, "parallel.tensor=2"}, &Parameter::compute, "head.norm.weight"),
              HasSubstr("differ within tp"));
  EXPECT_THAT(checked({kBf16, "parallel.data=2", "optimizer.type=\"distributed\""},
                      &Parameter::compute,
                      "layers.0.mlp.up.weight"),
              HasSubstr("compute values"));
  // Tied embeddings, held by the first stage and the last.
  EXPECT_THAT(checked({kBf16, "parallel.pipeline=2", "schedule.type=\"1f1b\""},
                      &Parameter::compute,
                      "embedding.weight"),
              HasSubstr("the compute values of \"embedding.weight\" on pipeline ranks 0 and 1"));
}

}  // namespace check_replicas_test
}  // namespace tessera::testing
