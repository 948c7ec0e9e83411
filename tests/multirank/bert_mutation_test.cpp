// Mistakes that BERT invites must fail the invariant table; the same parts without them pass it.
#include "bert_samples_support.hpp"
#include "mutants_support.hpp"
#include "mutation_support.hpp"

namespace tessera::testing {
namespace bert_mutation_test {

using bert_samples::bert;
using bert_samples::kPadded;

const Sets kOne = {}, kTensor = {"parallel.tensor=2"}, kContext = {"parallel.context=2"};
const Sets kRows = with(kTensor, {"parallel.sequence_parallel=true"});
const Part kHead{"model.head", "bert_head"}, kChoice{"model.head", "choice_head"};
const Part kBlock{"model.block", "post_block"}, kEmbedding{"model.embedding", "bert_embedding"};
const Sets kPost = bert("post", kPadded);
const Sets kChoices = bert("post",
                           {"data.goal=\"choice\"",
                            "model.head.type=\"choice_head\"",
                            "model.dropout=0.0",
                            "model.init_std=0.6"});
const std::vector<Finding> kGradients = {&Findings::gradients, &Findings::norms};
const std::vector<Finding> kLosses = {&Findings::losses, &Findings::gradients};
// A bias starts at 0, and Adam does not see the scale of its gradient.
const std::vector<Finding> kBias = {&Findings::gradients};

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> kMutations = {
      {"padding_seen_as_key", kOne, kBlock, "padding_is_seen", kAll, false, kPost},
      {"residual_after_the_norm", kTensor, kBlock, "residual_after_the_norm", kAll, false, kPost},
      {"segment_of_the_next_token",
       kOne,
       kEmbedding,
       "segment_of_the_next_token",
       kAll,
       false,
       kPost},
      {"mask_of_another_microbatch",
       kOne,
       kHead,
       "mask_of_another_microbatch",
       kLosses,
       false,
       kPost},
      {"mean_by_sample", kOne, kHead, "mean_by_sample", kGradients, false, kPost},
      {"order_times_tensor", kTensor, kHead, "order_of_each_tensor_rank", kAll, true, kPost},
      {"order_times_tensor_sp", kRows, kHead, "order_of_each_tensor_rank", kAll, true, kPost},
      {"order_times_context", kContext, kHead, "order_times_context", kAll, true, kPost},
      {"pooled_on_each_context_rank",
       kContext,
       kHead,
       "pooled_on_each_context_rank",
       kAll,
       true,
       kPost},
      {"vocabulary_bias_whole", kTensor, kHead, "bias_whole", kBias, true, kPost},
      {"tied_gradient_once", kTensor, kHead, "tied_gradient_once", kGradients, false, kPost},
      {"label_swapped", kOne, kHead, "label_swapped", kLosses, false, kPost},
      {"choice_softmax_over_the_batch",
       kOne,
       kChoice,
       "softmax_over_the_batch",
       kAll,
       false,
       kChoices},
  };
  return kMutations;
}

class BertMutants : public ::testing::TestWithParam<Mutation> {};

TEST_P(BertMutants, TwinPasses) {
  const Findings found =
      check_invariant(mutants(), with(GetParam().layout, GetParam().component()), GetParam().model);
  EXPECT_TRUE(found.none()) << text(found);
}

TEST_P(BertMutants, MistakeIsFound) {
  const Findings found = check_invariant(
      mutants(), with(GetParam().layout, GetParam().with_mistake()), GetParam().model);
  for (const Finding row : GetParam().found_by) EXPECT_NE(found.*row, "") << text(found);
}

TEST_P(BertMutants, OneRankHidesItUnlessItIsNoMatterOfLayout) {
  const Findings found = check_invariant(mutants(), GetParam().with_mistake(), GetParam().model);
  EXPECT_EQ(found.none(), GetParam().hidden) << text(found);
}

INSTANTIATE_TEST_SUITE_P(All, BertMutants, ::testing::ValuesIn(mutations()), [](const auto& info) {
  return info.param.name;
});

}  // namespace bert_mutation_test
}  // namespace tessera::testing
